//! The way of a registration through the other actors: facts, checks, session, attach (REG-4,
//! REG-11). One read of the database; the attach is the last step and decides.

use actix_rt::ArbiterHandle;
use relay_model::ids::AccountId;
use relay_model::wire::codes::ErrorCode;

use super::handle::SocketHandle;
use super::registration::Claim;
use crate::directory::{Attach, Attached, NotAttached, RegistrationSequence};
use crate::relay::Relay;
use crate::sessions::CanResume;
use crate::store::ReadRegistrationFacts;

/// Why a registration did not make the connection a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAdmitted {
    /// Refused with this code (REG-4).
    Refused(ErrorCode),
    /// A later registration of the device took over (REG-6).
    Superseded,
    /// The user signed out on the device (SES-2).
    SignedOut,
}

/// What a registration brings along to its admission.
pub(super) struct Applicant {
    pub(super) account: AccountId,
    pub(super) claim: Claim,
    pub(super) sequence: RegistrationSequence,
    pub(super) socket: SocketHandle,
    pub(super) arbiter: ArbiterHandle,
}

/// Checks a claim against the database and the sessions and attaches the socket.
pub(super) async fn admit(relay: Relay, applicant: Applicant) -> Result<Attached, NotAdmitted> {
    let Applicant {
        account,
        claim,
        sequence,
        socket,
        arbiter,
    } = applicant;
    let unavailable = NotAdmitted::Refused(ErrorCode::RelayUnavailable);
    let (device, device_type) = (claim.device, claim.device_type);

    let facts_read = relay.core().next_registration();
    let read = ReadRegistrationFacts {
        account,
        device,
        target: claim.target_to_read(),
    };
    let facts = match relay.store().send(read).await {
        Ok(Ok(facts)) => facts,
        Ok(Err(error)) => {
            tracing::warn!(%error, connection = %socket.connection, "registration could not be checked");
            return Err(unavailable);
        }
        Err(_) => return Err(unavailable),
    };
    let target = claim.check(&facts).map_err(NotAdmitted::Refused)?;

    let mut resume = None;
    if let Some((session, token)) = claim.resume().map_err(NotAdmitted::Refused)? {
        let ask = CanResume {
            owner: (account, device),
            session,
            token: token.clone(),
        };
        if !relay.sessions().send(ask).await.map_err(|_| unavailable)? {
            return Err(NotAdmitted::Refused(ErrorCode::InvalidResume));
        }
        resume = Some(session);
    }

    let attach = Attach {
        account,
        device,
        device_type,
        target,
        sequence,
        facts_read,
        socket,
        arbiter,
        resume,
    };
    match relay.directory().send(attach).await {
        Ok(Ok(attached)) => Ok(attached),
        Ok(Err(NotAttached::Superseded)) => Err(NotAdmitted::Superseded),
        Ok(Err(NotAttached::Hidden)) => Err(NotAdmitted::Refused(ErrorCode::DesktopNotEligible)),
        Ok(Err(NotAttached::Draining)) => Err(NotAdmitted::Refused(ErrorCode::RelayDraining)),
        Ok(Err(NotAttached::Forgotten)) => Err(NotAdmitted::Refused(ErrorCode::DesktopForgotten)),
        Ok(Err(NotAttached::SignedOut)) => Err(NotAdmitted::SignedOut),
        Ok(Err(NotAttached::NoSession)) | Err(_) => Err(unavailable),
    }
}
