//! What operators are told in each case.

use relay_actors::DeviceOutcomes;
use relay_actors::socket::{CloseReason, EndReason};
use relay_model::ids::{ConnectionGeneration, ConnectionId, DeviceId, RelayInstanceId};
use relay_model::store::{DeviceRow, PresenceEntry};
use relay_model::wire::codes::{AfterError, CloseCode};
use serde_json::json;
use uuid::Uuid;

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_micros(seconds * 1_000_000)
}

fn row() -> KnownDevice {
    KnownDevice {
        row: DeviceRow {
            id: DeviceId::from_uuid(Uuid::nil()),
            device_type: DeviceType::Desktop,
            device_name: "Desk".to_owned(),
            platform: "linux".to_owned(),
            platform_version: None,
            app_version: "1".to_owned(),
            capabilities: json!({}),
            relay_eligible: true,
            status: DeviceStatus::Offline,
            offline_reason: None,
            elsewhere: None,
            last_seen: None,
            last_heartbeat: None,
            active_project_directory: None,
            created_at: at(0),
            updated_at: at(0),
        },
        forgotten: false,
        status_at: at(0),
    }
}

fn view() -> DeviceView {
    DeviceView {
        id: DeviceId::from_uuid(Uuid::nil()),
        known: Some(row()),
        status: DeviceStatus::Offline,
        offline_reason: None,
        since: None,
        route: None,
        pending: 0,
        leases: Vec::new(),
        silent: false,
        outcomes: DeviceOutcomes::default(),
        push: None,
        history: Vec::new(),
    }
}

fn closed(reason: EndReason, seconds: i64) -> Option<LastClose> {
    Some(LastClose {
        connection: ConnectionId::from_uuid(Uuid::nil()),
        reason,
        code: None,
        at: at(seconds),
    })
}

fn refused(code: ErrorCode, seconds: i64) -> Option<LastRefusal> {
    Some(LastRefusal {
        code,
        at: at(seconds),
    })
}

fn summary(view: &DeviceView) -> String {
    explain(view).unwrap().summary
}

const SILENT: EndReason = EndReason::ByRelay(CloseReason::Silent);
const REFUSED: EndReason = EndReason::ByRelay(CloseReason::Refused(CloseCode::RegistrationRefused));

/// OP-9: what is online needs no explanation.
#[test]
fn online_devices_are_not_explained() {
    let online = DeviceView {
        status: DeviceStatus::Online,
        ..view()
    };
    assert_eq!(explain(&online), None);
}

/// OP-9: what its user decided comes before all else.
#[test]
fn its_user_decides_first() {
    let outcomes = DeviceOutcomes {
        close: closed(SILENT, 9),
        refusal: refused(ErrorCode::DeviceNotRegistered, 10),
    };
    let mut hidden = DeviceView { outcomes, ..view() };
    hidden.known.as_mut().unwrap().row.relay_eligible = false;
    assert!(summary(&hidden).contains("hid"));
    hidden.known.as_mut().unwrap().forgotten = true;
    assert!(summary(&hidden).contains("forgot"));
    let signed_out = DeviceView {
        outcomes,
        offline_reason: Some(OfflineReason::SignedOut),
        ..view()
    };
    assert!(summary(&signed_out).contains("signed out"));
}

/// OP-9: the later of refusal and close is told; the close that a refusal causes hides nothing.
#[test]
fn the_last_word_is_told() {
    let unsupported = "protocolVersionUnsupported";
    for (close, refusal, told) in [
        (closed(SILENT, 9), None, "Nothing came"),
        (closed(SILENT, 9), Some(10), unsupported),
        (closed(SILENT, 11), Some(10), "Nothing came"),
        (closed(REFUSED, 11), Some(10), unsupported),
        (None, Some(10), unsupported),
    ] {
        let code = ErrorCode::ProtocolVersionUnsupported;
        let refusal = refusal.and_then(|seconds| refused(code, seconds));
        let told_of = DeviceView {
            outcomes: DeviceOutcomes { close, refusal },
            ..view()
        };
        assert!(summary(&told_of).contains(told), "{}", summary(&told_of));
    }
}

/// OP-9: what happened before the device was last online, at whichever relay, is not blamed.
#[test]
fn old_outcomes_are_not_blamed() {
    let online = |seconds| PresenceEntry {
        device: DeviceId::from_uuid(Uuid::nil()),
        at: at(seconds),
        instance: RelayInstanceId::from_uuid(Uuid::nil()),
        generation: ConnectionGeneration::new(1),
        status: DeviceStatus::Online,
        reason: None,
    };
    let view = |seconds| DeviceView {
        outcomes: DeviceOutcomes {
            close: closed(SILENT, 10),
            refusal: refused(ErrorCode::DeviceNotRegistered, 11),
        },
        offline_reason: Some(OfflineReason::RelayLost),
        history: vec![online(seconds)],
        ..view()
    };
    assert!(summary(&view(9)).contains("deviceNotRegistered"));
    assert!(summary(&view(20)).contains("died"));
}

/// OP-9: the grace is told with the close that began it.
#[test]
fn graces_are_told() {
    let left = DeviceView {
        outcomes: DeviceOutcomes {
            close: closed(EndReason::NetworkReset, 10),
            refusal: None,
        },
        ..view()
    };
    let reconnecting = DeviceView {
        status: DeviceStatus::Reconnecting,
        ..left.clone()
    };
    assert!(summary(&reconnecting).contains("may come back"));
    let over = DeviceView {
        offline_reason: Some(OfflineReason::ReconnectTimeout),
        ..left
    };
    assert!(summary(&over).contains("reset") && summary(&over).contains("did not come back"));
}

/// OP-9: also where nothing is known, something can be done.
#[test]
fn silence_is_explained() {
    assert!(summary(&view()).contains("never connected"));
    let once = DeviceView {
        since: Some(at(5)),
        ..view()
    };
    assert!(summary(&once).contains("once"));
    let expected = DeviceView {
        status: DeviceStatus::Reconnecting,
        ..view()
    };
    assert!(summary(&expected).contains("Another relay"));
}

/// OP-9: every reason and every refusal has words of its own, in whole sentences.
#[test]
fn every_code_is_explained() {
    for reason in OfflineReason::ALL {
        let (meaning, advice) = offline_reason(*reason);
        assert!(
            meaning.ends_with('.') && advice.ends_with('.'),
            "{reason:?}"
        );
    }
    for code in ErrorCode::ALL {
        let refuses = code.after() != AfterError::GoesOn;
        let advice = refusal(*code);
        assert_eq!(advice.is_some(), refuses, "{code:?}");
        assert!(
            advice.is_none_or(|advice| advice.ends_with('.')),
            "{code:?}"
        );
    }
}
