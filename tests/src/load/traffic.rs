//! The requests and answers of a load: frames that are made once and get their id written in, and
//! the proof that what arrives is what was sent, byte for byte, at the price of one comparison.

use std::borrow::Cow;

use relay_model::ids::DeviceId;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::LoadError;
use super::frames::append_text;

/// The length of every request id, in bytes: that of a UUID, which real phones use.
const ID_LENGTH: usize = 36;
const ID_KEY: &[u8] = b"\"id\":\"";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// The id of a request: says by which phone and in which of its slots it was sent, and no two are
/// the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestId([u8; ID_LENGTH]);

impl RequestId {
    /// Where the parts stand in `pppppppp-ssss-4000-8000-nnnnnnnnnnnn`.
    const PHONE: std::ops::Range<usize> = 0..8;
    const SLOT: std::ops::Range<usize> = 9..13;
    const NUMBER: std::ops::Range<usize> = 24..36;

    pub(super) fn new(phone: usize, slot: usize, number: u64) -> Self {
        let mut id = *b"00000000-0000-4000-8000-000000000000";
        write_hex(&mut id[Self::PHONE], phone as u64);
        write_hex(&mut id[Self::SLOT], slot as u64);
        write_hex(&mut id[Self::NUMBER], number);
        Self(id)
    }

    /// The phone that it was made for.
    pub(super) fn phone(self) -> Option<usize> {
        let digits = std::str::from_utf8(&self.0[Self::PHONE]).ok()?;
        usize::from_str_radix(digits, 16).ok()
    }

    /// The slot that it was made with.
    pub(super) fn slot(self) -> Option<usize> {
        let digits = std::str::from_utf8(&self.0[Self::SLOT]).ok()?;
        usize::from_str_radix(digits, 16).ok()
    }
}

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

fn write_hex(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = HEX[(value & 0xF) as usize];
        value >>= 4;
    }
}

/// A message that is sent over and over, each time with another id.
pub(super) struct Template {
    frame: Vec<u8>,
    id: usize,
    body: Vec<u8>,
}

impl Template {
    /// A request of `size` bytes in all (a little more if `size` is smaller than its envelope).
    pub(super) fn request(size: usize) -> Self {
        let head = br#"{"type":"rpc.request","payload":{"id":"00000000-0000-4000-8000-000000000000","method":"echo","params":"#;
        Self::new(head, size)
    }

    /// An answer of `size` bytes in all. It names the phone, as shipped desktops do (RPC-2).
    pub(super) fn response(size: usize, phone: DeviceId) -> Self {
        let head = format!(
            r#"{{"type":"rpc.response","payload":{{"id":"00000000-0000-4000-8000-000000000000","clientId":"{phone}","result":"#
        );
        Self::new(head.as_bytes(), size)
    }

    fn new(head: &[u8], size: usize) -> Self {
        let (open, close, end) = (br#"{"pad":""#, br#""}"#, b"}}");
        let padding = size.saturating_sub(head.len() + open.len() + close.len() + end.len());
        let mut body = open.to_vec();
        body.extend((0..padding).map(|index| b'a' + (index % 23) as u8));
        body.extend_from_slice(close);
        let message = [head, &body, end].concat();
        let mut frame = Vec::new();
        append_text(&mut frame, &message);
        // Both heads of this module hold an id.
        let id = find(&message, ID_KEY).map_or(0, |at| at + ID_KEY.len());
        Self {
            id: frame.len() - message.len() + id,
            frame,
            body,
        }
    }

    /// Appends the frame with this id.
    pub(super) fn append(&self, out: &mut Vec<u8>, id: RequestId) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        out[start + self.id..][..ID_LENGTH].copy_from_slice(&id.0);
    }

    /// What the receiver of these messages has to find in them: the `params` or the `result`.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }
}

/// Reads messages of one template at the other end.
///
/// A relay may write the envelope as it likes, but always alike, as all ids have one length. So the
/// first message is taken apart and shows where things stand; every later one must have the same
/// length and the very bytes of the body in the same place, else it is taken apart again to say what
/// is wrong with it.
pub(super) struct Inspector {
    frame_type: &'static str,
    body: Vec<u8>,
    layout: Option<Layout>,
}

#[derive(Debug, Clone, Copy)]
struct Layout {
    length: usize,
    id: usize,
    body: usize,
}

impl Inspector {
    /// Expects requests with the template's body.
    pub(super) fn of_requests(template: &Template) -> Self {
        Self::new("rpc.request", template)
    }

    /// Expects answers with the template's body.
    pub(super) fn of_responses(template: &Template) -> Self {
        Self::new("rpc.response", template)
    }

    fn new(frame_type: &'static str, template: &Template) -> Self {
        Self {
            frame_type,
            body: template.body().to_vec(),
            layout: None,
        }
    }

    /// The id of an intact message; `None` for an event, which is none of the load's.
    ///
    /// # Errors
    /// For a message that was altered, an RPC error, and every other frame.
    pub(super) fn inspect(&mut self, message: &[u8]) -> Result<Option<RequestId>, LoadError> {
        if let Some(layout) = self.layout
            && message.len() == layout.length
            && message[layout.body..].starts_with(&self.body)
            && let Some(id) = id_at(message, layout.id)
        {
            return Ok(Some(id));
        }
        match frame_type(message).as_deref() {
            Some("event") => return Ok(None),
            Some(frame_type) if frame_type == self.frame_type => {}
            _ => return Err(LoadError::unexpected(message)),
        }
        let layout = self
            .take_apart(message)
            .ok_or_else(|| LoadError::altered(message))?;
        if self.layout.is_some() {
            return Err(LoadError::altered(message));
        }
        self.layout = Some(layout);
        Ok(id_at(message, layout.id))
    }

    fn take_apart(&self, message: &[u8]) -> Option<Layout> {
        let layout = Layout {
            length: message.len(),
            id: find(message, ID_KEY)? + ID_KEY.len(),
            body: find(message, &self.body)?,
        };
        id_at(message, layout.id).map(|_| layout)
    }
}

/// The string that starts at `offset`, if it has the length of an id.
fn id_at(message: &[u8], offset: usize) -> Option<RequestId> {
    let (id, rest) = message.get(offset..)?.split_first_chunk()?;
    rest.starts_with(b"\"").then_some(RequestId(*id))
}

pub(super) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// The `type` of a frame; `None` if it is no envelope.
pub(super) fn frame_type(message: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(rename = "type", borrow)]
        frame_type: Cow<'a, str>,
        #[serde(borrow)]
        payload: Option<&'a RawValue>,
    }
    let envelope: Envelope<'_> = serde_json::from_slice(message).ok()?;
    let wants_payload = matches!(
        &*envelope.frame_type,
        "event" | "rpc.request" | "rpc.response"
    );
    (envelope.payload.is_some() || !wants_payload).then_some(envelope.frame_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::devices::Pair;
    use crate::load::frames::{Incoming, Received};

    /// The frame's payload, whatever its header.
    fn message(template: &Template, id: RequestId) -> Vec<u8> {
        let mut frame = Vec::new();
        template.append(&mut frame, id);
        let start = frame.iter().position(|byte| *byte == b'{').unwrap();
        frame.split_off(start)
    }

    #[test]
    fn messages_have_the_size_asked_for() {
        for size in [256, 16_384, 70_000] {
            let phone = Pair(3).phone().id();
            for template in [Template::request(size), Template::response(size, phone)] {
                assert_eq!(message(&template, RequestId::new(1, 2, 3)).len(), size);
            }
        }
    }

    #[test]
    fn ids_say_where_they_come_from() {
        let id = RequestId::new(0xAB, 0x1F, 0xFFFF);
        assert_eq!(id.to_string(), "000000ab-001f-4000-8000-00000000ffff");
        assert_eq!((id.phone(), id.slot()), (Some(0xAB), Some(0x1F)));
    }

    /// TR-8: a rebuilt envelope is taken, an altered body or another length is not.
    #[test]
    fn only_intact_messages_pass() {
        let template = Template::request(300);
        let mut inspector = Inspector::of_requests(&template);
        let body = String::from_utf8(template.body().to_vec()).unwrap();
        let rebuilt = |id: RequestId, body: &str| {
            format!(
                r#"{{"payload":{{"params":{body},"id":"{id}","userId":"u"}},"type":"rpc.request"}}"#
            )
        };
        for number in 0..3 {
            let id = RequestId::new(7, 0, number);
            let seen = inspector.inspect(rebuilt(id, &body).as_bytes()).unwrap();
            assert_eq!(seen, Some(id));
        }
        let id = RequestId::new(7, 0, 9);
        let swapped = body.replacen("abc", "acb", 1);
        let longer = format!("{body} ");
        for altered in [&swapped, &longer] {
            let refused = inspector.inspect(rebuilt(id, altered).as_bytes());
            assert!(matches!(refused, Err(LoadError::Altered(_))), "{altered}");
        }
    }

    /// RPC-5: an error instead of the answer ends the run, an event does not.
    #[test]
    fn other_frames_are_told_apart() {
        let template = Template::response(300, Pair(0).phone().id());
        let mut inspector = Inspector::of_responses(&template);
        let event = br#"{"type":"event","payload":{"eventType":"device-status"}}"#;
        assert_eq!(inspector.inspect(event).unwrap(), None);
        let id = RequestId::new(0, 0, 1);
        let failed = format!(
            r#"{{"type":"rpc.response","payload":{{"id":"{id}","result":null,"error":{{"code":-32011}}}}}}"#
        );
        let refused = inspector.inspect(failed.as_bytes());
        assert!(matches!(refused, Err(LoadError::Altered(_))));
        let error = br#"{"type":"error","code":"invalidPayload","message":"m"}"#;
        let refused = inspector.inspect(error);
        assert!(matches!(refused, Err(LoadError::Unexpected(_))));
    }

    #[test]
    fn frames_are_whole() {
        let template = Template::request(200);
        let mut frame = Vec::new();
        template.append(&mut frame, RequestId::new(0, 0, 0));
        // As a server would send it: without mask bit and key.
        frame[1] &= 0x7F;
        frame.drain(4..8);
        let mut seen = 0;
        let pushed = Incoming::default().push(&frame, |received| match received {
            Received::Text(text) => {
                seen = text.len();
                Ok(())
            }
            _ => Err(()),
        });
        assert_eq!((pushed, seen), (Ok(()), 200));
    }
}
