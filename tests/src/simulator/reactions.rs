//! What devices do about what they hear.

use std::time::Duration;

use super::frames::Heard;
use super::plan;
use super::trace::{ConnectionNo, What};
use super::world::{Due, Phase, World};

impl World {
    /// Looks at what was heard since the last time.
    pub(super) fn absorb(&mut self) {
        while let Some(entry) = self.log.next() {
            match entry.what {
                What::Heard(connection, heard, _) => self.react(connection, heard),
                What::Removed(removal, devices, done) => self.removed(removal, &devices, done),
                What::Rejoined(device, done) => self.rejoined(device, done),
                _ => {}
            }
        }
    }

    fn react(&mut self, connection: ConnectionNo, heard: Heard) {
        let device = self.side(connection).device;
        match heard {
            Heard::Registered(session) => {
                self.touch(device);
                self.side_mut(connection).phase = Phase::Registered;
                let memory = &mut self.memories[device.0];
                memory.former_session = memory.session.replace(session);
                self.admitted(connection);
            }
            Heard::Resumed(_) => {
                self.touch(device);
                self.side_mut(connection).phase = Phase::Registered;
                self.admitted(connection);
            }
            Heard::Leases(state) => self.learn(connection, state),
            Heard::Error(code) if code == "invalidResume" => {
                let side = self.side_mut(connection);
                let again = matches!(side.phase, Phase::Checking { again: true, .. });
                side.phase = if again {
                    Phase::Registered
                } else {
                    Phase::Fresh
                };
                self.memories[device.0].session = None;
                self.memories[device.0].former_session = None;
                self.plan(Duration::from_millis(1), Due::Register(connection));
            }
            Heard::Request { id, phone, .. } => {
                let mut after = Duration::ZERO;
                for part in plan::answer(&mut self.dice) {
                    after += part.after;
                    let answer = Due::Answer {
                        connection,
                        id: id.clone(),
                        client: phone,
                        is_final: part.is_final,
                    };
                    self.plan(after, answer);
                }
            }
            Heard::Answer {
                id, is_final: true, ..
            }
            | Heard::Failure { id, .. } => {
                self.memories[device.0]
                    .asked
                    .retain(|(asked, ..)| *asked != id);
            }
            Heard::Close(_) | Heard::End => self.closed(connection),
            Heard::AllStale
            | Heard::Answer { .. }
            | Heard::Error(_)
            | Heard::Note { .. }
            | Heard::Pong
            | Heard::Snapshot { .. }
            | Heard::Stale { .. }
            | Heard::Status { .. }
            | Heard::Strange(_)
            | Heard::Unlinked(_) => {}
        }
    }
}
