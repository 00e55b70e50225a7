//! Random histories of an outbox, compared byte for byte with an oracle that decides anew at each frame
//! which one is next (RPC-9, TR-3), and with a plain count of what waits (TR-10).

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::tests::{Bench, Pipe};
use super::*;
use crate::socket::lanes::LaneLoad;

const FRAGMENT: usize = 8;
const LANE_MESSAGES: usize = 4;
const LANE_BYTES: usize = 60;
/// The place of pongs in the oracle, beside 0 to 2 for the lanes and 3 for the snapshot.
const PONG: usize = 4;

/// A message of the oracle: what is left of it, in frames.
#[derive(Debug, Clone)]
struct Waiting {
    frames: VecDeque<Vec<u8>>,
    /// Bytes of its text.
    len: usize,
    is_close: bool,
}

impl Waiting {
    fn text(text: &str) -> Self {
        let bytes = text.as_bytes();
        let parts: Vec<&[u8]> = bytes.chunks(FRAGMENT).collect();
        let last = parts.len() - 1;
        let frame = |(index, part): (usize, &&[u8])| {
            let opcode = if index == 0 { 0x01 } else { 0x00 };
            let fin = if index == last { 0x80 } else { 0x00 };
            let mut frame = vec![fin | opcode, part.len() as u8];
            frame.extend_from_slice(part);
            frame
        };
        Self {
            frames: parts.iter().enumerate().map(frame).collect(),
            len: text.len(),
            is_close: false,
        }
    }
}

/// Every frame in the order in which a peer may expect them.
#[derive(Default)]
struct Oracle {
    /// At most one: a later one takes its place until it has begun.
    pongs: VecDeque<Waiting>,
    lanes: [VecDeque<Waiting>; 3],
    snapshot: Option<Waiting>,
    /// The place of a message that has begun and is not finished: 0 to 2 a lane, 3 the snapshot.
    begun: Option<usize>,
    /// What is left of the frame that is being written.
    current: Option<(VecDeque<u8>, usize)>,
    held: bool,
    closing: bool,
    written: Vec<u8>,
}

impl Oracle {
    fn place(&mut self, place: usize) -> Option<&mut Waiting> {
        match place {
            PONG => self.pongs.front_mut(),
            3 => self.snapshot.as_mut(),
            lane => self.lanes[lane].front_mut(),
        }
    }

    /// The place whose frame is next: a pong, what has begun, then by urgency.
    fn next_place(&self) -> Option<usize> {
        if !self.pongs.is_empty() {
            return Some(PONG);
        }
        if self.begun.is_some() && (self.begun == Some(0) || !self.closing) {
            return self.begun;
        }
        if !self.lanes[0].is_empty() {
            return Some(0);
        }
        if self.held || self.closing {
            return None;
        }
        let waits = |place: &usize| match place {
            3 => self.snapshot.is_some(),
            lane => !self.lanes[*lane].is_empty(),
        };
        [1, 2, 3].into_iter().find(waits)
    }

    fn write(&mut self, mut bytes: usize) {
        while bytes > 0 {
            if self.current.is_none() {
                let Some(place) = self.next_place() else {
                    return;
                };
                let frame = self.place(place).and_then(|it| it.frames.pop_front());
                let frame = frame.expect("a message has a frame left while it waits");
                self.current = Some((frame.into(), place));
                if place != PONG {
                    self.begun = Some(place);
                }
            }
            let Some((frame, place)) = &mut self.current else {
                return;
            };
            let place = *place;
            self.written.extend(frame.pop_front());
            bytes -= 1;
            if frame.is_empty() {
                self.current = None;
                let done = self.place(place).is_some_and(|it| it.frames.is_empty());
                if done {
                    match place {
                        PONG => _ = self.pongs.pop_front(),
                        3 => self.snapshot = None,
                        lane => _ = self.lanes[lane].pop_front(),
                    }
                    if place != PONG {
                        self.begun = None;
                    }
                }
            }
        }
    }

    fn load(&self, lane: usize) -> LaneLoad {
        let counted = self.lanes[lane].iter().filter(|waiting| !waiting.is_close);
        LaneLoad {
            messages: counted.clone().count() as u64,
            bytes: counted.map(|waiting| waiting.len as u64).sum(),
        }
    }

    /// Whether a message fits into its lane (TR-10).
    fn fits(&self, lane: usize, len: usize) -> bool {
        let LaneLoad { messages, bytes } = self.load(lane);
        let (messages, bytes) = (messages as usize, bytes as usize);
        let within = lane == 0 || bytes + len <= LANE_BYTES;
        messages == 0 || (messages < LANE_MESSAGES && within)
    }

    fn is_idle(&self) -> bool {
        let lanes = self.lanes.iter().all(VecDeque::is_empty);
        lanes && self.pongs.is_empty() && self.snapshot.is_none()
    }

    fn close(&mut self) {
        if std::mem::replace(&mut self.closing, true) {
            return;
        }
        for lane in [1, 2] {
            let kept = usize::from(self.begun == Some(lane));
            self.lanes[lane].truncate(kept);
        }
        let in_last_frame = self
            .current
            .as_ref()
            .is_some_and(|(_, place)| Some(*place) == self.begun && self.last_frame_of(*place));
        if self.begun.is_some_and(|place| place != 0) && !in_last_frame {
            self.lanes[0].clear();
        }
        self.lanes[0].push_back(Waiting {
            frames: [vec![0x88, 0]].into(),
            len: 0,
            is_close: true,
        });
    }

    fn last_frame_of(&self, place: usize) -> bool {
        let message = match place {
            3 => self.snapshot.as_ref(),
            lane => self.lanes[lane].front(),
        };
        message.is_some_and(|message| message.frames.is_empty())
    }

    fn pong(&mut self, text: &str) {
        if self.closing {
            return;
        }
        let writing = matches!(self.current, Some((_, PONG)));
        self.pongs.truncate(usize::from(writing));
        let mut frame = vec![0x8a, text.len() as u8];
        frame.extend_from_slice(text.as_bytes());
        self.pongs.push_back(Waiting {
            frames: [frame].into(),
            len: text.len(),
            is_close: false,
        });
    }
}

/// One step of a history, as a number.
fn run(
    bench: &mut Bench,
    oracle: &mut Oracle,
    word: u64,
    number: usize,
) -> Result<(), TestCaseError> {
    let (kind, size) = (word % 16, (word >> 8) as usize % 30 + 1);
    let text: String = format!("{number}|").chars().cycle().take(size).collect();
    match kind {
        0..=7 => {
            let lane = [0, 1, 1, 1, 2, 2, 2, 2][kind as usize];
            let reserved = bench
                .room
                .reserve([Lane::Control, Lane::Rpc, Lane::Event][lane], size);
            prop_assert_eq!(reserved.is_some(), oracle.fits(lane, size));
            if let Some(permit) = reserved {
                bench
                    .outbox
                    .push(OutgoingText::new(text.clone()), permit, false);
                if !oracle.closing {
                    oracle.lanes[lane].push_back(Waiting::text(&text));
                }
            }
        }
        8 | 9 => {
            if bench.outbox.is_empty() && !bench.outbox.is_held() && !oracle.closing {
                prop_assert!(oracle.is_idle());
                bench.outbox.offer_snapshot(OutgoingText::new(text.clone()));
                let accepted = (word >> 16) as usize % 40;
                write(bench, accepted);
                let taken_back = bench.outbox.take_back_snapshot();
                prop_assert_eq!(taken_back, accepted == 0);
                if !taken_back {
                    oracle.snapshot = Some(Waiting::text(&text));
                    oracle.write(accepted);
                }
            }
        }
        10..=13 => {
            write(bench, size);
            oracle.write(size);
        }
        14 => {
            let held = word & (1 << 40) != 0;
            bench.outbox.hold(held);
            oracle.held = held;
        }
        _ if word & (7 << 40) == 0 => {
            bench.outbox.close(Bytes::new());
            oracle.close();
        }
        _ => {
            bench
                .outbox
                .push_control(OpCode::Pong, Bytes::from(text.clone()));
            oracle.pong(&text);
        }
    }
    for (index, lane) in [Lane::Control, Lane::Rpc, Lane::Event]
        .into_iter()
        .enumerate()
    {
        prop_assert_eq!(bench.room.load(lane), oracle.load(index));
    }
    prop_assert_eq!(&bench.pipe.written, &oracle.written);
    prop_assert_eq!(bench.outbox.writes_snapshot(), oracle.begun == Some(3));
    Ok(())
}

fn write(bench: &mut Bench, accepts: usize) {
    bench.pipe.accepts = accepts;
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let pipe: &mut Pipe = &mut bench.pipe;
    bench.outbox.write(Pin::new(pipe), &mut cx).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100_000))]

    /// RPC-9, TR-3, TR-10: whatever is sent and however little the peer takes, the bytes are those of
    /// the oracle: an urgent frame waits for one other at most, a message is never cut, no message is
    /// lost, and a lane refuses exactly what does not fit and is unchanged by it.
    #[test]
    fn an_outbox_keeps_its_order(words in vec(any::<u64>(), 1..40)) {
        let mut bench = Bench::bounded(FRAGMENT, LANE_MESSAGES, LANE_BYTES);
        let mut oracle = Oracle::default();
        for (number, word) in words.into_iter().enumerate() {
            run(&mut bench, &mut oracle, word, number)?;
        }
        bench.outbox.hold(false);
        oracle.held = false;
        write(&mut bench, usize::MAX);
        oracle.write(1_000_000);
        prop_assert_eq!(&bench.pipe.written, &oracle.written);
        if !oracle.closing {
            prop_assert!(bench.outbox.is_empty());
        }
    }
}
