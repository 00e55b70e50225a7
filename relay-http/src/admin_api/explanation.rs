//! "Why is it offline?" (OP-9): what the relay knows of a device, put into words, with what to do about
//! it. The tables in `docs/operations/` are made from the same texts.

use relay_actors::{DeviceView, LastClose, LastRefusal};
use relay_model::store::{DeviceStatus, DeviceType, KnownDevice, OfflineReason};
use relay_model::time::Timestamp;
use relay_model::wire::codes::ErrorCode;
use serde::Serialize;
use utoipa::ToSchema;

/// Why a device is not online.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    /// What happened.
    pub(super) summary: String,
    /// What to do about it.
    pub(super) what_to_do: String,
}

/// What an `offlineReason` means, and what to do about it.
pub const fn offline_reason(reason: OfflineReason) -> (&'static str, &'static str) {
    match reason {
        OfflineReason::ReconnectTimeout => (
            "The desktop lost its connection and did not come back within its grace.",
            "See how the connection ended; the desktop is online again as soon as it connects.",
        ),
        OfflineReason::Disconnected => (
            "The phone closed its connection, or lost it.",
            "Nothing: phones disconnect whenever their app goes to the background.",
        ),
        OfflineReason::Hidden => (
            "Its user hid the desktop.",
            "Only its user brings it back, by showing the desktop again in the app (relayEligible).",
        ),
        OfflineReason::Unlinked => (
            "Its user forgot the device.",
            "Only its user brings it back, by adding the device again in its app (rejoin).",
        ),
        OfflineReason::SignedOut => (
            "Its user signed out.",
            "Its user has to sign in again on the device.",
        ),
        OfflineReason::RelayStopped => (
            "The relay stopped while the device was connected, and it has not come back since.",
            "See that a relay runs and is ready, and that its address is the one that the device uses.",
        ),
        OfflineReason::RelayLost => (
            "The relay that held the device died, and the device has not come back since.",
            "Find out why that relay died (its log, the kernel's, the supervisor's), and see that the \
             device can reach this one.",
        ),
    }
}

/// What whoever operates the relay can do about a refusal (REG-4); `None` for codes that refuse no
/// registration.
pub const fn refusal(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::InvalidJson
        | ErrorCode::InvalidPayload
        | ErrorCode::UnknownMessageType
        | ErrorCode::UnsupportedFrame
        | ErrorCode::RegistrationRequired
        | ErrorCode::AuthRequired
        | ErrorCode::Forbidden
        | ErrorCode::ReservedEventType => return None,
        ErrorCode::RelayDraining => {
            "Nothing: the relay drained, and the device comes to the one that follows it. See that new \
             connections are sent there."
        }
        ErrorCode::InvalidClientType => {
            "The app sends no X-Client-Type, or a proxy removes it: compare what leaves the app with \
             what arrives."
        }
        ErrorCode::InvalidDeviceId => {
            "The app's device id is no UUID, or X-Device-ID and the register frame differ; update or \
             reinstall the app."
        }
        ErrorCode::InvalidProtocolVersion => "Update the app.",
        ErrorCode::RelayUnavailable => {
            "The database did not answer: see /readyz, the log, and `relay doctor`. The device tries \
             again by itself."
        }
        ErrorCode::ProtocolVersionUnsupported => {
            "Update the app, or lower the floor with PUT /admin/policy."
        }
        ErrorCode::DeviceNotRegistered => {
            "The app has to call POST /api/devices/register (or mobile/register) first: see whether \
             that call reaches this relay. After a restored backup the newest devices are missing."
        }
        ErrorCode::DeviceOwnershipFailed => {
            "The device was registered by another account: its user has to use that account, or the app \
             has to make itself a new device id."
        }
        ErrorCode::DeviceTypeMismatch => {
            "The device id was registered as the other kind of device: the app has to make itself a new \
             one."
        }
        ErrorCode::DesktopForgotten => {
            "Its user forgot the device and has to add it again in its app (rejoin)."
        }
        ErrorCode::DesktopNotEligible => {
            "Its user hid the desktop and has to show it again in the app (relayEligible)."
        }
        ErrorCode::InvalidTargetDesktop => {
            "The phone wants a desktop that is not one of its account: its user has to choose another."
        }
        ErrorCode::InvalidResume => {
            "Nothing: after a restart of the relay every device registers anew, on the same connection."
        }
    })
}

/// Why the device is not online; `None` if it is.
pub(super) fn explain(view: &DeviceView) -> Option<Explanation> {
    if view.status == DeviceStatus::Online {
        return None;
    }
    let decided_by_its_user = view.known.as_ref().and_then(user_decision);
    let decided_by_its_user =
        decided_by_its_user.or(view.offline_reason.filter(|reason| by_its_user(*reason)));
    if let Some(reason) = decided_by_its_user {
        return Some(of_reason(reason));
    }
    // What happened before it was last online explains nothing, whichever relay that was at.
    let is_current = |at| !was_online_after(view, at);
    let close = view.outcomes.close.filter(|close| is_current(close.at));
    let refusal = view.outcomes.refusal.filter(|last| is_current(last.at));
    if let Some(refusal) = refusal.filter(|last| is_later(last, close)) {
        return Some(of_refusal(refusal));
    }
    Some(match (close, view.offline_reason) {
        (Some(close), reason) => of_close(&close, view.status, reason),
        (None, Some(reason)) => of_reason(reason),
        (None, None) => of_silence(view),
    })
}

fn user_decision(known: &KnownDevice) -> Option<OfflineReason> {
    let desktop = known.row.device_type == DeviceType::Desktop;
    if known.forgotten {
        Some(OfflineReason::Unlinked)
    } else if desktop && !known.row.relay_eligible {
        Some(OfflineReason::Hidden)
    } else {
        None
    }
}

const fn by_its_user(reason: OfflineReason) -> bool {
    matches!(
        reason,
        OfflineReason::Hidden | OfflineReason::Unlinked | OfflineReason::SignedOut
    )
}

fn was_online_after(view: &DeviceView, at: Timestamp) -> bool {
    let mut history = view.history.iter();
    history.any(|entry| entry.status == DeviceStatus::Online && entry.at > at)
}

/// Whether the refusal is the last word: the close that a refusal causes itself is none.
fn is_later(refusal: &LastRefusal, close: Option<LastClose>) -> bool {
    close.is_none_or(|close| close.reason.as_str() == "refused" || refusal.at > close.at)
}

fn of_reason(reason: OfflineReason) -> Explanation {
    let (meaning, advice) = offline_reason(reason);
    Explanation {
        summary: meaning.to_owned(),
        what_to_do: advice.to_owned(),
    }
}

fn of_refusal(last: LastRefusal) -> Explanation {
    let (code, meaning) = (last.code.code(), last.code.meaning());
    Explanation {
        summary: format!("Its last registration was refused: {code}. {meaning}"),
        what_to_do: refusal(last.code).unwrap_or(meaning).to_owned(),
    }
}

fn of_close(close: &LastClose, status: DeviceStatus, reason: Option<OfflineReason>) -> Explanation {
    let ended = close.reason.meaning();
    let summary = match (status, reason) {
        (DeviceStatus::Reconnecting, _) => {
            format!("{ended} The desktop is within its grace and may come back any moment.")
        }
        (_, Some(OfflineReason::ReconnectTimeout)) => {
            format!("{ended} The desktop did not come back within its grace.")
        }
        _ => ended.to_owned(),
    };
    Explanation {
        summary,
        what_to_do: close.reason.advice().to_owned(),
    }
}

/// Nothing is known of a connection: this relay has not seen one, and the database names no reason.
fn of_silence(view: &DeviceView) -> Explanation {
    let (summary, what_to_do) = match (view.status, view.since) {
        (DeviceStatus::Reconnecting, _) => (
            "Another relay held the desktop until a short time ago; it is expected back at this one.",
            "Nothing yet: if it does not come, it is shown as offline when its grace ends.",
        ),
        (_, Some(_)) => (
            "It was connected once and is not now; the reason was not kept.",
            "Start its app; the next close and the next refusal are told here.",
        ),
        (_, None) => (
            "It registered over HTTP and has never connected.",
            "Start its app. If that runs, its connects do not arrive, or are answered 401 before \
             anybody knows whose they are: see its log for the answer to /ws/device-link, and check \
             its token and the proxies on the way.",
        ),
    };
    Explanation {
        summary: summary.to_owned(),
        what_to_do: what_to_do.to_owned(),
    }
}

#[cfg(test)]
mod tests;
