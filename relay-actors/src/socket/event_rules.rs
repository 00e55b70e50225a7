//! Who may send which event, and in what shape (EV-3). Pure.

use std::fmt::Display;

use relay_model::limits::Limits;
use relay_model::store::{DeviceChange, DeviceType};
use relay_model::wire::codes::ErrorCode;
use relay_model::wire::inbound::EventShape;
use relay_model::wire::timeline::{self, Interest, NotAnUpdate, Update};
use serde::Deserialize;

use crate::push::Alert;

/// What becomes of a permitted event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventAction<'a> {
    /// It goes to every other route of the account (EV-1).
    Publish,
    /// It goes to every other route of the account, and is pushed to its phones (PUSH-3).
    Notify(Alert),
    /// The sender's row is changed so, then the event goes to all (EV-4).
    Store(DeviceChange),
    /// A phone's interest, which is never forwarded (TL-1).
    Interest(Interest),
    /// A desktop's snapshot for the phones with a lease (TL-5); `None` without a proof that can be read.
    Timeline(Option<Update<'a>>),
}

/// An event that is not permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventRefusal {
    pub(super) code: ErrorCode,
    pub(super) message: String,
}

#[derive(Deserialize)]
struct Visibility {
    visible: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProjectDirectory {
    project_directory: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notification {
    session_id: String,
    title: String,
    body: String,
}

impl Notification {
    /// A session has an id that its phones can ask for (TL-2).
    fn alert(self, limits: &Limits) -> Result<Alert, String> {
        let max = limits.timeline_session_id;
        if self.session_id.len() > max {
            return Err(format!("sessionId must have at most {max} bytes"));
        }
        Ok(Alert::new(self.session_id, &self.title, &self.body))
    }
}

impl Visibility {
    /// A desktop's flag is its admission to the relay, which only HTTP turns on again; a phone's is
    /// its own affair (EV-5).
    fn change(self, sender: DeviceType) -> DeviceChange {
        let turns_on = sender == DeviceType::Desktop && self.visible;
        DeviceChange {
            relay_eligible: (!turns_on).then_some(self.visible),
            ..DeviceChange::default()
        }
    }
}

impl ProjectDirectory {
    /// A directory that is no path of any system is not kept.
    fn change(self, limits: &Limits) -> Result<DeviceChange, String> {
        let max = limits.project_directory_bytes;
        if self.project_directory.len() > max || self.project_directory.contains('\0') {
            return Err(format!(
                "projectDirectory must have at most {max} bytes and no NUL"
            ));
        }
        Ok(DeviceChange {
            project_directory: Some(self.project_directory),
            ..DeviceChange::default()
        })
    }
}

/// Judges an event whose sender is registered: what its credentials allow, shape, reserved types,
/// the sender's role.
pub(super) fn judge<'a>(
    shape: &Result<EventShape<'a>, String>,
    sender: DeviceType,
    may_send: bool,
    limits: &Limits,
) -> Result<EventAction<'a>, EventRefusal> {
    let refuse = |code: ErrorCode, message: &str| EventRefusal {
        code,
        message: message.to_owned(),
    };
    if !may_send {
        return Err(refuse(
            ErrorCode::Forbidden,
            "an API key sends events with the scopes rpc, read and write only",
        ));
    }
    let event = shape
        .as_ref()
        .map_err(|wrong| refuse(ErrorCode::InvalidPayload, wrong))?;
    let payload = event.payload.map_or("null", |payload| payload.get());
    match (&*event.event_type, sender) {
        ("device-visibility-updated", _) => {
            shaped::<Visibility>(payload).map(|shape| EventAction::Store(shape.change(sender)))
        }
        ("project-directory-updated", _) => {
            let change = shaped::<ProjectDirectory>(payload)?.change(limits);
            change.map(EventAction::Store).map_err(ill_shaped)
        }
        ("agent-notification-requested", DeviceType::Desktop) => {
            let alert = shaped::<Notification>(payload)?.alert(limits);
            alert.map(EventAction::Notify).map_err(ill_shaped)
        }
        (
            "device-status"
            | "device-unlinked"
            | "chat:timeline-interest-updated"
            | "chat:timeline-stale",
            _,
        ) => Err(refuse(
            ErrorCode::ReservedEventType,
            ErrorCode::ReservedEventType.meaning(),
        )),
        ("chat:timeline-updated", DeviceType::Mobile) => Err(refuse(
            ErrorCode::Forbidden,
            "only desktops publish timelines",
        )),
        ("chat:timeline-interest", DeviceType::Desktop) => Err(refuse(
            ErrorCode::Forbidden,
            "only phones take an interest in timelines",
        )),
        ("chat:timeline-updated", DeviceType::Desktop) => {
            match timeline::read_update(event.payload, limits) {
                Ok(update) => Ok(EventAction::Timeline(Some(update))),
                Err(NotAnUpdate::Unauthorized) => Ok(EventAction::Timeline(None)),
                Err(NotAnUpdate::Invalid(invalid)) => Err(ill_shaped(invalid)),
            }
        }
        ("chat:timeline-interest", DeviceType::Mobile) => {
            let interest = timeline::read_interest(event.payload, limits);
            interest.map(EventAction::Interest).map_err(ill_shaped)
        }
        _ => Ok(EventAction::Publish),
    }
}

fn shaped<'a, T: Deserialize<'a>>(payload: &'a str) -> Result<T, EventRefusal> {
    // serde takes an array for a struct.
    if !payload.starts_with('{') {
        return Err(ill_shaped("not an object"));
    }
    serde_json::from_str(payload).map_err(ill_shaped)
}

fn ill_shaped(wrong: impl Display) -> EventRefusal {
    EventRefusal {
        code: ErrorCode::InvalidPayload,
        message: format!("payload.payload: {wrong}"),
    }
}

#[cfg(test)]
mod tests {
    use DeviceType::{Desktop, Mobile};
    use relay_model::wire::inbound::ClientFrame;

    use super::*;

    fn event_text(event_type: &str, payload: &str) -> String {
        format!(
            r#"{{"type":"event","payload":{{"eventType":"{event_type}","payload":{payload}}}}}"#
        )
    }

    fn judge_text(text: &str, sender: DeviceType) -> Result<EventAction<'_>, ErrorCode> {
        let Ok(ClientFrame::Event(event)) = ClientFrame::read(text) else {
            panic!("no event: {text}");
        };
        judge(&event.shape, sender, true, &Limits::default()).map_err(|refusal| refusal.code)
    }

    /// What becomes of an event that is no timeline's.
    fn judged(
        event_type: &str,
        payload: &str,
        sender: DeviceType,
    ) -> Result<EventAction<'static>, ErrorCode> {
        match judge_text(&event_text(event_type, payload), sender)? {
            EventAction::Publish => Ok(EventAction::Publish),
            EventAction::Store(change) => Ok(EventAction::Store(change)),
            EventAction::Notify(alert) => Ok(EventAction::Notify(alert)),
            action => panic!("{action:?}"),
        }
    }

    /// EV-1: what is not in the table goes to all, whatever its payload.
    #[test]
    fn unlisted_types_are_published() {
        for payload in ["{}", "null", "[1]", r#""x""#] {
            assert_eq!(judged("x", payload, Mobile), Ok(EventAction::Publish));
            assert_eq!(
                judged("Device-Status", payload, Desktop),
                Ok(EventAction::Publish)
            );
        }
    }

    /// EV-3: types that the relay writes are reserved for everybody.
    #[test]
    fn reserved_types_are_refused() {
        for event_type in [
            "device-status",
            "device-unlinked",
            "chat:timeline-interest-updated",
            "chat:timeline-stale",
        ] {
            for sender in [Desktop, Mobile] {
                let refused = judged(event_type, "{}", sender);
                assert_eq!(refused, Err(ErrorCode::ReservedEventType), "{event_type}");
            }
        }
    }

    /// EV-3: roles; and no timeline frame is ever published to all.
    #[test]
    fn roles_are_checked() {
        let (updated, interest) = ("chat:timeline-updated", "chat:timeline-interest");
        assert_eq!(judged(updated, "{}", Mobile), Err(ErrorCode::Forbidden));
        assert_eq!(judged(interest, "{}", Desktop), Err(ErrorCode::Forbidden));
        assert!(matches!(
            judge_text(&event_text(interest, r#"{"appSessionId":"s","active":true}"#), Mobile),
            Ok(EventAction::Interest(interest)) if interest.active
        ));
        let update = r#"{"appSessionId":"s","settlementEpoch":0,"revision":0}"#;
        assert!(matches!(
            judge_text(&event_text(updated, update), Desktop),
            Ok(EventAction::Timeline(None))
        ));
    }

    /// EV-3, TL-2, TL-5: timeline events of another shape are refused.
    #[test]
    fn timeline_events_are_shaped() {
        let (updated, interest) = ("chat:timeline-updated", "chat:timeline-interest");
        for payload in ["null", "[]", "{}", r#"{"appSessionId":"s"}"#] {
            for (event_type, sender) in [(updated, Desktop), (interest, Mobile)] {
                let judged = judged(event_type, payload, sender);
                assert_eq!(judged, Err(ErrorCode::InvalidPayload), "{payload}");
            }
        }
    }

    /// EV-4, EV-5: what is stored of an event; a desktop does not show itself again.
    #[test]
    fn events_change_the_senders_row() {
        let eligible = |relay_eligible| DeviceChange {
            relay_eligible,
            ..DeviceChange::default()
        };
        for (payload, sender, stored) in [
            (r#"{"visible":false}"#, Desktop, Some(false)),
            (r#"{"visible":true}"#, Desktop, None),
            (r#"{"visible":false}"#, Mobile, Some(false)),
            (r#"{"visible":true}"#, Mobile, Some(true)),
        ] {
            let action = judged("device-visibility-updated", payload, sender);
            assert_eq!(
                action,
                Ok(EventAction::Store(eligible(stored))),
                "{payload}"
            );
        }
        let directory = DeviceChange {
            project_directory: Some("/x".to_owned()),
            ..DeviceChange::default()
        };
        let payload = r#"{"projectDirectory":"/x"}"#;
        let action = judged("project-directory-updated", payload, Mobile);
        assert_eq!(action, Ok(EventAction::Store(directory)));
    }

    /// EV-3: an ill-typed payload of a listed type goes nowhere.
    #[test]
    fn shapes_of_listed_types_are_checked() {
        let notification = r#"{"sessionId":"s","title":"t","body":"b","more":1}"#;
        for (event_type, good, bad) in [
            (
                "device-visibility-updated",
                r#"{"visible":false}"#,
                r#"{"visible":"no"}"#,
            ),
            (
                "project-directory-updated",
                r#"{"projectDirectory":"/x"}"#,
                "{}",
            ),
            (
                "agent-notification-requested",
                notification,
                r#"{"title":"t"}"#,
            ),
        ] {
            assert!(judged(event_type, good, Desktop).is_ok(), "{event_type}");
            assert_eq!(
                judged(event_type, bad, Desktop),
                Err(ErrorCode::InvalidPayload)
            );
            assert_eq!(
                judged(event_type, "null", Desktop),
                Err(ErrorCode::InvalidPayload)
            );
        }
        let alert = judged("agent-notification-requested", notification, Desktop);
        let expected = Alert::new("s".to_owned(), "t", "b");
        assert_eq!(alert, Ok(EventAction::Notify(expected)));
        for (length, fits) in [(1_024, true), (1_025, false)] {
            let session = "s".repeat(length);
            let long = format!(r#"{{"sessionId":"{session}","title":"t","body":"b"}}"#);
            let judged = judged("agent-notification-requested", &long, Desktop);
            assert_eq!(judged.is_ok(), fits, "{length}");
        }
        let from_phone = judged("agent-notification-requested", "{}", Mobile);
        assert_eq!(
            from_phone,
            Ok(EventAction::Publish),
            "a phone's is an event like any other"
        );
    }
}
