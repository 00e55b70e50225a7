//! A frame that the relay sent, read no further than a test asks, since what it forwards need not be
//! representable: numbers of 400 digits, lone surrogates, keys twice.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Frames that the relay writes from its own words alone (ENV-1).
const FLAT: [&str; 5] = ["registered", "resumed", "pong", "error", "auth.renewed"];

/// A text frame.
#[derive(Debug, Clone)]
pub struct Frame {
    /// As received.
    pub text: String,
    /// `type`.
    pub kind: String,
    /// `payload.eventType` of an event.
    pub event_type: Option<String>,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EventHead<'a> {
    #[serde(borrow, rename = "eventType")]
    event_type: Cow<'a, str>,
}

impl Frame {
    /// Reads the head of a frame and checks the form of what the relay itself wrote (ENV-2).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: String) -> Result<Self, String> {
        let head: Head<'_> =
            serde_json::from_str(&text).map_err(|error| format!("no frame: {error}: {text}"))?;
        let kind = head.kind.into_owned();
        let event_type = match (kind.as_str(), head.payload) {
            ("event", Some(payload)) => {
                let event: EventHead<'_> = serde_json::from_str(payload.get())
                    .map_err(|error| format!("no event: {error}: {text}"))?;
                Some(event.event_type.into_owned())
            }
            ("event", None) => return Err(format!("an event without payload: {text}")),
            _ => None,
        };
        let frame = Self {
            kind,
            event_type,
            text,
        };
        frame.check_form()?;
        Ok(frame)
    }

    /// The whole frame.
    ///
    /// # Panics
    /// When something in it is not representable.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// A member of `payload`, byte for byte.
    ///
    /// # Panics
    /// When it is not there exactly once.
    pub fn raw_member(&self, name: &str) -> String {
        let head: Head<'_> = serde_json::from_str(&self.text).expect("it was read before");
        let payload = head.payload.expect("a payload");
        let members = raw_members(payload.get());
        let mut found = members.iter().filter(|(key, _)| key == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => (*value).to_owned(),
            _ => panic!("{name} is not once in {}", self.text),
        }
    }

    fn check_form(&self) -> Result<(), String> {
        let own = FLAT.contains(&self.kind.as_str());
        if own || self.event_type.as_deref() == Some("device-status") {
            let value = self.value();
            if let Some(key) = key_with_underscore(&value) {
                return Err(format!(
                    "ENV-2: the relay wrote the key {key}: {}",
                    self.text
                ));
            }
        }
        if own || self.kind == "event" {
            for (key, value) in raw_members(&self.text) {
                if matches!(key.as_str(), "timestamp" | "expiresAt")
                    && !is_time(value.trim_matches('"'))
                {
                    return Err(format!("ENV-2: {key} is {value}: {}", self.text));
                }
            }
        }
        Ok(())
    }
}

/// Whether `text` is a time as ENV-2 wants it: `2026-10-05T08:00:00.000001Z`.
pub fn is_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000000Z";
    text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == *form,
        })
}

/// The members of an object in their order, doubles included.
fn raw_members(object: &str) -> Vec<(String, &str)> {
    struct Members<'a>(Vec<(String, &'a str)>);

    impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;

            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Members<'de>;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> Result<Self::Value, A::Error> {
                    let mut members = Vec::new();
                    while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                        members.push((key, value.get()));
                    }
                    Ok(Members(members))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    let members: Members<'_> =
        serde_json::from_str(object).unwrap_or_else(|error| panic!("{error}: {object}"));
    members.0
}

fn key_with_underscore(value: &Value) -> Option<String> {
    match value {
        Value::Object(members) => members.iter().find_map(|(key, value)| {
            let own = key.contains('_').then(|| key.clone());
            own.or_else(|| key_with_underscore(value))
        }),
        Value::Array(values) => values.iter().find_map(key_with_underscore),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENV-2: the check itself tells right from wrong.
    #[test]
    fn times_and_keys_are_checked() {
        assert!(is_time("2026-10-05T08:00:00.000001Z"));
        for wrong in [
            "2026-10-05T08:00:00Z",
            "2026-10-05T08:00:00.001Z",
            "2026-10-05T08:00:00.000001+00:00",
            "2026-10-05 08:00:00.000001Z",
        ] {
            assert!(!is_time(wrong), "{wrong}");
        }
        let read = |text: &str| Frame::read(text.to_owned());
        assert!(read(r#"{"type":"pong"}"#).is_ok());
        assert!(read(r#"{"type":"pong","a_b":1}"#).is_err());
        assert!(read(r#"{"type":"registered","expiresAt":"2026-10-05T08:00:00Z"}"#).is_err());
        let foreign = r#"{"type":"event","payload":{"eventType":"x","payload":{"a_b":1e999}}}"#;
        assert!(read(foreign).is_ok());
    }

    #[test]
    fn raw_members_keep_their_bytes() {
        let text = r#"{"type":"rpc.request","payload":{"id":"1","params":{ "b":1,"a":1e999 }}}"#;
        let frame = Frame::read(text.to_owned()).unwrap();
        assert_eq!(frame.raw_member("params"), r#"{ "b":1,"a":1e999 }"#);
    }
}
