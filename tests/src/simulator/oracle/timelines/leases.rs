//! The leases as the phones' own messages make them (TL-1, TL-3).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::simulator::cast::DeviceNo;
use crate::simulator::oracle::facts::{Facts, SLACK};
use crate::simulator::oracle::{Findings, Invariant};
use crate::simulator::timeline_frames::{SESSIONS, SessionNo, Version};
use crate::simulator::trace::ConnectionNo;

/// What orders the snapshots of a window: when the desktop sent the registration under which it
/// published, and the version (TL-8).
pub(super) type Stamp = (Duration, Version);

/// Whether a lease lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// Certainly.
    Live,
    /// Nobody but the relay can know.
    Doubtful,
    /// Certainly not.
    Over,
}

/// A phone's lease.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) connection: ConnectionNo,
    pub(super) desktop: DeviceNo,
    pub(super) session: SessionNo,
    pub(super) from: Duration,
    renewed: Duration,
    pub(super) ended: Option<Duration>,
    /// Whether the relay took it, or ended it, cannot be known.
    doubtful: bool,
    /// It may be several, one after the other.
    pub(super) blurred: bool,
    /// Of each thread the newest that the phone is to have, that it has heard, and that it was told
    /// that it missed.
    newest: BTreeMap<u8, Stamp>,
    heard: BTreeMap<u8, Stamp>,
    stale: BTreeMap<u8, Stamp>,
    /// Since when the phone is to have something that it has not.
    pub(super) owed_since: Option<Duration>,
}

impl Lease {
    fn new(connection: ConnectionNo, desktop: DeviceNo, session: SessionNo, at: Duration) -> Self {
        Self {
            connection,
            desktop,
            session,
            from: at,
            renewed: at,
            ended: None,
            doubtful: false,
            blurred: false,
            newest: BTreeMap::new(),
            heard: BTreeMap::new(),
            stale: BTreeMap::new(),
            owed_since: None,
        }
    }

    pub(super) fn deadline(&self, facts: &Facts<'_>) -> Duration {
        self.renewed + facts.limits.timeline_interest_ttl
    }

    pub(super) fn life(&self, facts: &Facts<'_>) -> Life {
        let deadline = self.deadline(facts);
        let connection = self.connection;
        if self.ended.is_some()
            || facts.now > deadline + SLACK
            || !facts.connection(connection).is_open()
            || facts.is_superseded(connection)
        {
            Life::Over
        } else if self.doubtful || facts.now + SLACK > deadline || !facts.is_undisputed(connection)
        {
            Life::Doubtful
        } else {
            Life::Live
        }
    }

    /// It may be another one from now on, and nothing that waited be waiting still.
    fn blur(&mut self) {
        self.blurred = true;
        self.forgive();
    }

    /// What its desktop published last may not have reached the relay.
    fn forgive(&mut self) {
        self.newest.clear();
        self.owed_since = None;
    }

    /// The phone is to have this.
    pub(super) fn owe(&mut self, thread: u8, stamp: Stamp, at: Duration) {
        let newest = self.newest.entry(thread).or_insert(stamp);
        *newest = stamp.max(*newest);
        if self.owed_since.is_none() && self.owes() {
            self.owed_since = Some(at);
        }
    }

    /// Whether it was ever heard of this or something newer of its thread.
    pub(super) fn has_heard(&self, thread: u8, stamp: Stamp) -> bool {
        self.heard.get(&thread).is_some_and(|heard| *heard >= stamp)
    }

    pub(super) fn hear(&mut self, thread: u8, stamp: Stamp) {
        self.heard.insert(thread, stamp);
        self.settle_debt();
    }

    pub(super) fn miss(&mut self, thread: u8, stamp: Stamp) {
        // An older one may have been evicted after it.
        let stale = self.stale.entry(thread).or_insert(stamp);
        *stale = stamp.max(*stale);
        self.settle_debt();
    }

    fn settle_debt(&mut self) {
        if !self.owes() {
            self.owed_since = None;
        }
    }

    fn owes(&self) -> bool {
        self.newest.iter().any(|(thread, newest)| {
            let known = self.heard.get(thread).max(self.stale.get(thread));
            known < Some(newest)
        })
    }
}

/// All leases of a trace.
#[derive(Default)]
pub(super) struct Leases {
    all: Vec<Lease>,
    /// Those of a connection that are not over, by their places; of connections that are.
    of_connection: BTreeMap<ConnectionNo, Vec<usize>>,
    /// When a desktop's session certainly had no lease, the last time.
    dead_at: BTreeMap<(DeviceNo, SessionNo), Duration>,
    /// What desktops are to be told in this step.
    pub(super) due: BTreeMap<DeviceNo, Vec<SessionNo>>,
    /// The connections that changed leases of a desktop in this step, and those desktops of which it
    /// cannot be known what they are told.
    actors: BTreeMap<DeviceNo, BTreeSet<ConnectionNo>>,
    pub(super) unclear: BTreeSet<DeviceNo>,
}

impl Leases {
    pub(super) fn interest(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        session: SessionNo,
        active: bool,
    ) {
        let Some(desktop) = facts.connection(number).target else {
            return;
        };
        if facts.is_superseded(number) {
            return;
        }
        let certain = facts.is_undisputed(number);
        self.acts(desktop, number);
        if !certain {
            self.unclear.insert(desktop);
        }
        let mut renewed = false;
        for place in self.open_of(number) {
            let lease = &mut self.all[place];
            let same = lease.session == session;
            let deadline = lease.deadline(facts);
            let at_deadline = facts.now + SLACK > deadline && facts.now < deadline + SLACK;
            if lease.doubtful || at_deadline {
                self.unclear.insert(desktop);
            }
            if facts.now >= deadline + SLACK {
                lease.ended = Some(facts.now);
            } else if same && active {
                if at_deadline || lease.doubtful || !certain {
                    lease.blur();
                }
                lease.doubtful = !certain;
                lease.renewed = facts.now;
                renewed = true;
            } else if same || active {
                if certain {
                    let former = lease.session;
                    lease.ended = Some(facts.now);
                    if former != session || !active {
                        self.left(facts, place);
                    }
                } else {
                    lease.doubtful = true;
                }
            }
        }
        if active {
            if !renewed {
                let mut lease = Lease::new(number, desktop, session, facts.now);
                lease.doubtful = !certain;
                lease.blurred = !certain;
                self.of_connection
                    .entry(number)
                    .or_default()
                    .push(self.all.len());
                self.all.push(lease);
            }
            self.due.entry(desktop).or_default().push(session);
        }
        self.drop_ended(number);
    }

    /// A phone's registration was answered: all its leases of before are over (TL-3, REG-10).
    pub(super) fn registered(&mut self, facts: &Facts<'_>, number: ConnectionNo) {
        let registered = facts.connection(number);
        let sent_at = registered.registered.map(|registered| registered.sent_at);
        let at_once = registered.attentive && sent_at >= Some(facts.quiet_at);
        let connections: Vec<_> = self.of_connection.keys().copied().collect();
        for other in connections {
            let connection = facts.connection(other);
            let before = other == number || connection.register_at() <= sent_at;
            if connection.device == registered.device && before {
                self.end_all(facts, other, at_once);
            }
        }
    }

    /// A connection is over, and so are its leases.
    pub(super) fn ended(&mut self, facts: &Facts<'_>, number: ConnectionNo) {
        let connection = facts.connection(number);
        let cut_short = connection.is_cut_short(facts.quiet_at);
        self.end_all(facts, number, connection.attentive && !cut_short);
        if cut_short {
            self.all
                .iter_mut()
                .filter(|lease| lease.desktop == connection.device && lease.ended.is_none())
                .for_each(Lease::forgive);
        }
    }

    fn end_all(&mut self, facts: &Facts<'_>, number: ConnectionNo, certain: bool) {
        for place in self.open_of(number) {
            let desktop = self.all[place].desktop;
            self.acts(desktop, number);
            let lease = &mut self.all[place];
            let deadline = lease.deadline(facts);
            let at_deadline = facts.now + SLACK > deadline && facts.now < deadline + SLACK;
            if !certain || lease.doubtful || at_deadline {
                self.unclear.insert(desktop);
            }
            let over = facts.now >= deadline + SLACK;
            lease.ended = Some(facts.now);
            if !over {
                self.left(facts, place);
            }
        }
        self.drop_ended(number);
    }

    /// A lease has ended before its time: the desktop is told if the latest deadline of its session has
    /// moved (TL-7).
    fn left(&mut self, facts: &Facts<'_>, place: usize) {
        let (desktop, session) = (self.all[place].desktop, self.all[place].session);
        let deadline = self.all[place].deadline(facts);
        let others: Vec<_> = self
            .open_at(desktop, session)
            .map(|lease| (lease.life(facts), lease.deadline(facts)))
            .collect();
        if others.iter().any(|(life, _)| *life == Life::Doubtful) {
            self.unclear.insert(desktop);
        }
        let stays = others
            .iter()
            .any(|(life, other)| *life == Life::Live && *other >= deadline);
        if !stays {
            self.due.entry(desktop).or_default().push(session);
        }
    }

    fn acts(&mut self, desktop: DeviceNo, number: ConnectionNo) {
        let actors = self.actors.entry(desktop).or_default();
        actors.insert(number);
        if actors.len() > 1 {
            self.unclear.insert(desktop);
        }
    }

    /// Nothing moves: finds out which sessions have no lease.
    pub(super) fn settle(&mut self, facts: &Facts<'_>) {
        self.unclear.extend(self.doubtful(facts));
        let connections: Vec<_> = self.of_connection.keys().copied().collect();
        for number in connections {
            for place in self.open_of(number) {
                if self.all[place].life(facts) == Life::Over {
                    self.all[place].ended.get_or_insert(facts.now);
                }
            }
            self.drop_ended(number);
        }
        let mut alive = BTreeSet::new();
        for lease in self.open() {
            alive.insert((lease.desktop, lease.session));
        }
        for desktop in facts
            .cast
            .devices()
            .filter(|device| facts.cast.is_desktop(*device))
        {
            for session in (0..SESSIONS).map(SessionNo) {
                if !alive.contains(&(desktop, session)) {
                    self.dead_at.insert((desktop, session), facts.now);
                }
            }
        }
    }

    /// The desktops with a lease that may end unseen.
    fn doubtful(&self, facts: &Facts<'_>) -> BTreeSet<DeviceNo> {
        self.open()
            .filter(|lease| lease.life(facts) == Life::Doubtful)
            .map(|lease| lease.desktop)
            .collect()
    }

    /// Begins the next step. A lease that may have ended unseen in this one may do so in the next.
    pub(super) fn next_step(&mut self, facts: &Facts<'_>) {
        self.due.clear();
        self.actors.clear();
        self.unclear = self.doubtful(facts);
    }

    /// How many live at a desktop, if that is known.
    pub(super) fn live_at(&self, facts: &Facts<'_>, desktop: DeviceNo) -> Option<usize> {
        let lives = self.open().filter(|lease| lease.desktop == desktop);
        let lives: Vec<_> = lives.map(|lease| lease.life(facts)).collect();
        let known = !lives.contains(&Life::Doubtful);
        known.then(|| lives.iter().filter(|life| **life == Life::Live).count())
    }

    /// The latest deadline of a session's leases, `None` inside if it has none; `None` if that is not
    /// known.
    #[expect(clippy::option_option, reason = "known, and whether there is one")]
    pub(super) fn latest_at(
        &self,
        facts: &Facts<'_>,
        desktop: DeviceNo,
        session: SessionNo,
    ) -> Option<Option<Duration>> {
        let mut latest = None;
        for lease in self.open_at(desktop, session) {
            match lease.life(facts) {
                Life::Doubtful => return None,
                Life::Live => latest = latest.max(Some(lease.deadline(facts))),
                Life::Over => {}
            }
        }
        Some(latest)
    }

    /// Whether a lease of the session has certainly lived since `at`.
    pub(super) fn lived_since(
        &self,
        facts: &Facts<'_>,
        (desktop, session): (DeviceNo, SessionNo),
        at: Duration,
    ) -> bool {
        self.open_at(desktop, session)
            .any(|lease| !lease.blurred && lease.from < at && lease.life(facts) == Life::Live)
    }

    /// When the session certainly had no lease, the last time.
    pub(super) fn dead_at(&self, desktop: DeviceNo, session: SessionNo) -> Option<Duration> {
        self.dead_at.get(&(desktop, session)).copied()
    }

    /// The leases that a connection has or had.
    pub(super) fn of(
        &mut self,
        number: ConnectionNo,
    ) -> impl DoubleEndedIterator<Item = &mut Lease> {
        self.all
            .iter_mut()
            .filter(move |lease| lease.connection == number)
    }

    /// The leases of a session that are not over.
    pub(super) fn open_at_mut(
        &mut self,
        desktop: DeviceNo,
        session: SessionNo,
    ) -> impl Iterator<Item = &mut Lease> {
        self.all.iter_mut().filter(move |lease| {
            lease.ended.is_none() && lease.desktop == desktop && lease.session == session
        })
    }

    /// The live leases under which a phone that reads is to have something that it has not.
    pub(super) fn owed(&self, facts: &Facts<'_>) -> impl Iterator<Item = &Lease> {
        self.open().filter(|lease| {
            let reads = facts.connection(lease.connection).hears_at_once();
            lease.owed_since.is_some() && reads && lease.life(facts) == Life::Live
        })
    }

    /// All windows were called stale: whatever a phone misses it knows of.
    pub(super) fn all_stale(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        findings: &mut Findings,
    ) {
        let mut any = false;
        for lease in self.of(number) {
            any |= lease.may_have_been_live_at_send(facts);
            lease.stale = lease.newest.clone();
            lease.owed_since = None;
        }
        findings.check(any, Invariant::Authorized, || {
            format!("{number} was told that all is stale, and holds no lease")
        });
    }

    fn open(&self) -> impl Iterator<Item = &Lease> {
        let places = self.of_connection.values().flatten();
        places.map(|place| &self.all[*place])
    }

    fn open_at(&self, desktop: DeviceNo, session: SessionNo) -> impl Iterator<Item = &Lease> {
        self.open().filter(move |lease| {
            lease.ended.is_none() && lease.desktop == desktop && lease.session == session
        })
    }

    fn open_of(&self, number: ConnectionNo) -> Vec<usize> {
        self.of_connection.get(&number).cloned().unwrap_or_default()
    }

    fn drop_ended(&mut self, number: ConnectionNo) {
        if let Some(places) = self.of_connection.get_mut(&number) {
            places.retain(|place| self.all[*place].ended.is_none());
            if places.is_empty() {
                self.of_connection.remove(&number);
            }
        }
    }
}

impl Lease {
    /// Whether it may have lived when something left that is heard now.
    pub(super) fn may_have_been_live_at_send(&self, facts: &Facts<'_>) -> bool {
        let connection = facts.connection(self.connection);
        // What a device reads late may have been sent at any time since it stopped reading.
        let at_once = connection.reading && connection.reads_since < facts.quiet_at;
        let (since, deadline_since) = if at_once {
            (facts.quiet_at, facts.now)
        } else {
            (connection.away_since, connection.away_since)
        };
        self.ended.is_none_or(|ended| ended >= since)
            && deadline_since <= self.deadline(facts) + SLACK
    }
}
