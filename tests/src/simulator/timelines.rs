//! What phones and desktops do about timelines (section 8).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::dice::Dice;
use super::frames::Said;
use super::plan::{self, Age, Proof};
use super::timeline_frames::{DRESSES, LeaseState, SESSIONS, SessionNo, Snapshot, Version, Window};
use super::trace::ConnectionNo;
use super::world::{Due, Memory, Side, World};

/// Threads of a session, and of one that is published all at once.
const THREADS: u64 = 3;
const MANY_THREADS: u64 = 24;

/// What a desktop remembers of the timelines that it publishes.
#[derive(Debug, Default)]
pub(super) struct Display {
    /// The current proof of each session that phones look at.
    proofs: BTreeMap<SessionNo, u64>,
    /// Proofs that it was told at any time.
    former: Vec<u64>,
    newest: BTreeMap<Window, Version>,
    /// Versions in use: no two different snapshots have the same one (TL-9).
    used: BTreeSet<(Window, Version)>,
    last: Option<Snapshot>,
}

impl Display {
    /// A registration was answered: the desktop will be told the proofs anew. Some desktops count from
    /// the start then.
    fn restart(&mut self, from_start: bool) {
        self.proofs.clear();
        self.last = None;
        if from_start {
            self.newest.clear();
            self.used.clear();
        }
    }

    /// A version for a window; `None` if there is none of the wanted age.
    fn version(&mut self, window: Window, age: Age) -> Option<Version> {
        let newest = self.newest.get(&window).copied();
        let (epoch, revision) = newest.map_or((1, 0), |newest| (newest.epoch, newest.revision));
        let version = match age {
            Age::New | Age::Same => Version {
                epoch,
                revision: revision + 2,
            },
            Age::NextEpoch => Version {
                epoch: epoch + 1,
                revision: 0,
            },
            Age::Old => Version {
                epoch,
                revision: revision.checked_sub(1)?,
            },
        };
        self.newest.insert(window, newest.max(Some(version))?);
        self.used.insert((window, version)).then_some(version)
    }
}

impl World {
    /// A registration was answered.
    pub(super) fn admitted(&mut self, connection: ConnectionNo) {
        let side = self.side_mut(connection);
        side.target = side.asked_target;
        side.interest = None;
        let device = side.device;
        if self.cast.is_desktop(device) {
            let from_start = self.dice.chance(50);
            self.memories[device.0].display.restart(from_start);
        }
    }

    /// A desktop was told of the leases of a session, and may publish what it shows.
    pub(super) fn learn(&mut self, connection: ConnectionNo, state: LeaseState) {
        let device = self.side(connection).device;
        let display = &mut self.memories[device.0].display;
        let before = match state.generation {
            Some(generation) => {
                display.former.push(generation);
                display.proofs.insert(state.session, generation)
            }
            None => display.proofs.remove(&state.session),
        };
        let begins = state.active && before != state.generation;
        if begins && !self.calm && self.dice.chance(60) {
            let after = plan::publication(&mut self.dice);
            self.plan(after, Due::Publish(connection));
        }
    }

    /// Some phone takes, renews or ends an interest.
    pub(super) fn take_interest(&mut self) {
        let settled = |side: &Side| side.is_settled() && side.target.is_some();
        if let Some(connection) = self.pick_phone(settled) {
            self.look(connection);
        }
    }

    /// A phone takes, renews or ends an interest.
    pub(super) fn look(&mut self, connection: ConnectionNo) {
        let side = self.side(connection);
        if !side.is_settled() || side.target.is_none() {
            return;
        }
        let interest = side.interest;
        let any = any_session(&mut self.dice);
        let (session, active) = match (interest, self.dice.between(0..=99)) {
            (Some(session), 0..45) => (session, true),
            (Some(session), 45..65) => (session, false),
            (_, 65..70) => (any, false),
            _ => (any, true),
        };
        self.say_interest(connection, session, active);
    }

    /// A phone renews its interest, if it still has it.
    pub(super) fn renew(&mut self, connection: ConnectionNo, session: SessionNo) {
        let side = self.side(connection);
        if side.is_settled() && side.target.is_some() && side.interest == Some(session) {
            self.say_interest(connection, session, true);
        }
    }

    fn say_interest(&mut self, connection: ConnectionNo, session: SessionNo, active: bool) {
        let dress = self.dice.between(0..=u64::from(DRESSES) - 1) as u8;
        let side = self.side_mut(connection);
        if active {
            side.interest = Some(session);
        } else {
            side.interest = side.interest.filter(|looked_at| *looked_at != session);
        }
        let interest = Said::Interest {
            session,
            dress,
            active,
        };
        self.say(connection, interest);
        if active && !self.calm {
            match plan::renewal(&mut self.dice) {
                Some(after) => self.plan(after, Due::Renew(connection, session)),
                None => self.publish_at_the_end(connection),
            }
        }
    }

    /// What is published just before a deadline waits when it passes (TL-5).
    fn publish_at_the_end(&mut self, connection: ConnectionNo) {
        let last_moment = plan::last_moment(&mut self.dice);
        if let Some(desktop) = self.desktop_of(connection) {
            self.plan(last_moment, Due::Publish(desktop));
        }
    }

    /// The connection of the desktop that a phone looks at.
    fn desktop_of(&self, connection: ConnectionNo) -> Option<ConnectionNo> {
        let target = self.side(connection).target?;
        let settled = self.connections(|side| side.device == target && side.is_settled());
        settled.last().copied()
    }

    /// Some desktop publishes, more often than not one that somebody looks at.
    pub(super) fn publish_something(&mut self) {
        let looked_at = self.dice.chance(90);
        let fits = |device: usize, memories: &[Memory]| {
            !looked_at || !memories[device].display.proofs.is_empty()
        };
        let desktops: Vec<_> = self
            .cast
            .devices()
            .filter(|device| self.cast.is_desktop(*device) && fits(device.0, &self.memories))
            .collect();
        let settled = |side: &Side| side.is_settled() && desktops.contains(&side.device);
        if let Some(connection) = self.pick(settled) {
            self.publish(connection);
        }
    }

    /// A desktop publishes one snapshot or several.
    pub(super) fn publish(&mut self, connection: ConnectionNo) {
        if !self.side(connection).is_settled() {
            return;
        }
        let count = plan::publications(&mut self.dice);
        let threads = if count > 4 { MANY_THREADS } else { THREADS };
        for _ in 0..count {
            if let Some(snapshot) = self.draw_snapshot(connection, threads) {
                self.say(connection, Said::Snapshot(snapshot));
            }
        }
    }

    fn draw_snapshot(&mut self, connection: ConnectionNo, threads: u64) -> Option<Snapshot> {
        let device = self.side(connection).device;
        let serial = self.next_serial();
        let dice = &mut self.dice;
        let display = &mut self.memories[device.0].display;
        let age = plan::age(dice);
        if let (Age::Same, Some(last)) = (age, display.last) {
            return Some(last);
        }
        let known: Vec<_> = display.proofs.keys().copied().collect();
        let any = any_session(dice);
        let session = dice.pick(&known).filter(|_| dice.chance(95)).unwrap_or(any);
        let window = Window {
            session,
            thread: dice.between(0..=threads - 1) as u8,
        };
        let current = display.proofs.get(&session).copied();
        let proof = match plan::proof(dice) {
            Proof::Current => current,
            Proof::Former => dice.pick(&display.former),
            Proof::Foreign => {
                let others = display
                    .proofs
                    .iter()
                    .filter(|(other, _)| **other != session);
                dice.pick(&others.map(|(_, proof)| *proof).collect::<Vec<_>>())
            }
            Proof::Missing => None,
        };
        let snapshot = Snapshot {
            serial,
            window,
            dress: dice.between(0..=u64::from(DRESSES) - 1) as u8,
            version: display.version(window, age)?,
            proof,
            pad: plan::snapshot_pad(dice),
        };
        display.last = Some(snapshot);
        Some(snapshot)
    }

    /// While a phone does not read, its desktop goes on publishing (TL-14).
    pub(super) fn pile_up(&mut self, connection: ConnectionNo) {
        if self.side(connection).interest.is_none() {
            return;
        }
        let Some(desktop) = self.desktop_of(connection) else {
            return;
        };
        for _ in 0..self.dice.between(0..=5) {
            let after = Duration::from_millis(self.dice.between(8..=6_000));
            self.plan(after, Due::Publish(desktop));
        }
    }
}

fn any_session(dice: &mut Dice) -> SessionNo {
    SessionNo(dice.between(0..=u64::from(SESSIONS) - 1) as u8)
}
