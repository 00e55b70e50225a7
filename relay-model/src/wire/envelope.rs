//! Reads the envelope of a frame in one pass over its text: `type`, `traceparent`, and the fields of
//! `payload` that its type knows, each as a raw slice. Opaque values are skipped, never built.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

/// The most fields that a payload type names.
pub(super) const MAX_FIELDS: usize = 8;

/// The field names of a payload, looked up by the frame's type.
pub(super) type FieldNames = &'static [&'static str];

/// The named fields of one JSON object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    names: FieldNames,
    values: [Option<&'a RawValue>; MAX_FIELDS],
    duplicate: Option<&'static str>,
}

impl<'a> Fields<'a> {
    fn none(names: FieldNames) -> Self {
        Self {
            names,
            values: [None; MAX_FIELDS],
            duplicate: None,
        }
    }

    /// The value of a field; `None` if it is missing or null.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.sent(name).filter(|value| value.get() != "null")
    }

    /// The value of a field as sent, null included.
    pub(super) fn sent(&self, name: &str) -> Option<&'a RawValue> {
        let index = self.names.iter().position(|known| *known == name)?;
        self.values[index]
    }

    /// A named field that stands in the object more than once.
    pub(super) fn duplicate(&self) -> Option<&'static str> {
        self.duplicate
    }
}

/// What stands under `payload`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Payload<'a> {
    /// Nothing, or null.
    Missing,
    /// Something that is no object.
    NotAnObject,
    /// An object, of which the named fields were kept.
    Object(Fields<'a>),
}

/// The envelope of one frame.
#[derive(Debug)]
pub(super) struct Envelope<'a> {
    pub(super) kind: Option<&'a RawValue>,
    pub(super) traceparent: Option<&'a RawValue>,
    pub(super) payload: Payload<'a>,
    pub(super) duplicate: Option<&'static str>,
}

impl<'a> Envelope<'a> {
    /// Reads `text`, which must hold one JSON object. `fields_of` names the payload fields of a
    /// frame type; for a type that it does not know, no field is kept.
    ///
    /// # Errors
    /// Only when `text` is not JSON; everything else is for the caller to judge.
    pub(super) fn read(
        text: &'a str,
        fields_of: fn(&str) -> FieldNames,
    ) -> Result<Self, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let envelope = deserializer.deserialize_map(EnvelopeVisitor { fields_of })?;
        deserializer.end()?;
        Ok(envelope)
    }
}

/// The text of a JSON string; `None` if `value` is no string, or holds no Unicode text (a lone
/// surrogate escape).
pub(super) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(value.get()).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Reads an object's fields from its raw text: for a payload that came before the frame's type, and
/// for objects inside a payload.
pub(super) fn object<'a>(value: &'a RawValue, names: FieldNames) -> Payload<'a> {
    let mut deserializer = serde_json::Deserializer::from_str(value.get());
    // A raw value was validated when it was read, so the only outcome is a payload.
    FieldsSeed { names }
        .deserialize(&mut deserializer)
        .unwrap_or(Payload::NotAnObject)
}

/// An object key, borrowed where it holds no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

struct EnvelopeVisitor {
    fields_of: fn(&str) -> FieldNames,
}

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope {
            kind: None,
            traceparent: None,
            payload: Payload::Missing,
            duplicate: None,
        };
        let mut names: Option<FieldNames> = None;
        let mut early: Option<&'de RawValue> = None;
        let mut payload_seen = false;
        while let Some(Key(key)) = map.next_key()? {
            match &*key {
                "type" => {
                    let value: &RawValue = map.next_value()?;
                    if envelope.kind.replace(value).is_some() {
                        envelope.duplicate = Some("type");
                    }
                    names = string(value).map(|kind| (self.fields_of)(&kind));
                }
                "payload" => {
                    if std::mem::replace(&mut payload_seen, true) {
                        envelope.duplicate = Some("payload");
                    }
                    match names {
                        Some(names) => {
                            envelope.payload = map.next_value_seed(FieldsSeed { names })?
                        }
                        None => early = Some(map.next_value()?),
                    }
                }
                "traceparent" => envelope.traceparent = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if let (Some(raw), Some(names)) = (early, names) {
            envelope.payload = object(raw, names);
        }
        Ok(envelope)
    }
}

struct FieldsSeed {
    names: FieldNames,
}

impl<'de> DeserializeSeed<'de> for FieldsSeed {
    type Value = Payload<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Takes any value: what is no object is reported as such rather than as an error, so that an error
/// always means text that is not JSON.
impl<'de> Visitor<'de> for FieldsSeed {
    type Value = Payload<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::none(self.names);
        while let Some(Key(key)) = map.next_key()? {
            match self.names.iter().position(|name| *name == key) {
                Some(index) => {
                    if fields.values[index].replace(map.next_value()?).is_some() {
                        fields.duplicate = Some(self.names[index]);
                    }
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Payload::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Payload::NotAnObject)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Payload::Missing)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Payload::NotAnObject)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Payload::NotAnObject)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Payload::NotAnObject)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Payload::NotAnObject)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Payload::NotAnObject)
    }
}
