//! What a registration came to.

use relay_model::store::{DeviceRow, RegistrationOutcome};

use crate::refusal::Refusal;

/// The row that a registration left.
///
/// # Errors
/// When the device may not have one.
pub(super) fn registered(outcome: RegistrationOutcome) -> Result<DeviceRow, Refusal> {
    match outcome {
        RegistrationOutcome::Registered(changed) => Ok(changed.row),
        RegistrationOutcome::Foreign => Err(Refusal::DeviceOwnershipFailed),
        RegistrationOutcome::Forgotten => Err(Refusal::DesktopForgotten),
        RegistrationOutcome::TypeMismatch => Err(Refusal::DeviceTypeMismatch),
    }
}
