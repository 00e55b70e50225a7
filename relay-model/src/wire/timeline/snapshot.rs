//! A desktop's `chat:timeline-updated` as phones get it, prepared once for all of them.

use bytes::Bytes;

use super::Update;
use crate::ids::DeviceId;
use crate::time::Timestamp;
use crate::timeline::{TimelineKey, TimelineVersion};
use crate::wire::message::{OutgoingText, Text};

/// An update that may wait for a phone (TL-8). Clones share their bytes.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The window that it shows.
    pub key: TimelineKey,
    /// Its version.
    pub version: TimelineVersion,
    /// The whole frame.
    pub text: OutgoingText,
    /// Where the desktop's payload begins in the frame, and its length.
    payload: (usize, usize),
}

impl Snapshot {
    /// Whether both carry the same payload, byte for byte. The rest of the frame, which tells when
    /// the relay got it, does not count (TL-9).
    pub fn same_payload(&self, other: &Self) -> bool {
        self.text
            .same_part(self.payload, &other.text, other.payload)
    }
}

/// The event that phones get of `update`, without the proof that was between the desktop and the
/// relay (TL-5, ENV-1). `source` is the message that `update` was read from; of a large payload the
/// longer side of the cut stays a slice of it.
pub fn timeline_update(
    update: &Update<'_>,
    source: &Bytes,
    sender: DeviceId,
    now: Timestamp,
) -> Snapshot {
    let head = Text::with_capacity(192)
        .raw(r#"{"type":"event","sourceDeviceId":""#)
        .display(sender)
        .raw(r#"","timestamp":""#)
        .display(now)
        .raw(r#"","payload":{"eventType":"chat:timeline-updated","payload":"#);
    let payload = (head.0.len(), update.cut.len());
    Snapshot {
        key: update.key.clone(),
        version: update.version,
        text: OutgoingText::around_pieces(head.0, source, update.cut.pieces(), "}}"),
        payload,
    }
}
