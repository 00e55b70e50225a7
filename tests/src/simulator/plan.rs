//! What a seed decides beforehand and how often each thing happens: the odds of a run.

use std::time::Duration;

use relay_model::limits::{DESKTOP_RECONNECT_GRACE, Limits, TIMELINE_INTEREST_TTL};

use super::dice::Dice;

/// Devices act at whole multiples of this, so that the calls of the database, whose delays lie
/// between them, end at instants of their own.
pub const GRID: Duration = Duration::from_millis(8);

/// One kind of thing that happens of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A phone asks.
    Ask,
    /// A phone asks again what it still waits for (RPC-7).
    AskAgain,
    /// A phone asks with an id that is too long (RPC-5).
    AskOversize,
    /// A phone asks with an id that another one waits for (RPC-7).
    AskForeign,
    /// A phone asks a desktop that does not read more than there is room for (TR-10).
    Flood,
    /// A device sends an event to all (EV-1).
    Note,
    /// A phone takes, renews or ends an interest in a session (TL-1).
    Interest,
    /// A desktop publishes snapshots (TL-5).
    Publish,
    /// A device sends a heartbeat.
    Heartbeat,
    /// A device ends its connection, one way or another.
    Leave,
    /// A device vanishes: the connection is half open from then on.
    Vanish,
    /// A device stops reading for a while.
    Stall,
    /// A device connects although it is connected (REG-6).
    Replace,
    /// A device that is away comes back earlier than it meant to.
    Return,
    /// A device registers again on its connection, a phone perhaps for another desktop (REG-10).
    RegisterAgain,
    /// A user forgets a device (PR-4).
    Forget,
    /// A user signs out on a device, or on all of the account (SES-2).
    SignOut,
    /// The database gets slow or fails for a while.
    Weather,
    /// Several of these at one instant.
    Burst,
}

const ACTS: &[(u64, Act)] = &[
    (32, Act::Ask),
    (3, Act::AskAgain),
    (2, Act::AskOversize),
    (3, Act::AskForeign),
    (3, Act::Flood),
    (6, Act::Note),
    (14, Act::Interest),
    (22, Act::Publish),
    (6, Act::Heartbeat),
    (10, Act::Leave),
    (5, Act::Vanish),
    (7, Act::Stall),
    (7, Act::Replace),
    (7, Act::RegisterAgain),
    (4, Act::Forget),
    (3, Act::SignOut),
    (3, Act::Weather),
    (9, Act::Burst),
];

const ACTS_OF_A_BURST: &[(u64, Act)] = &[
    (40, Act::Ask),
    (10, Act::Note),
    (12, Act::Interest),
    (12, Act::Publish),
    (5, Act::Heartbeat),
    (15, Act::Leave),
    (5, Act::Vanish),
    (5, Act::Stall),
    (12, Act::Replace),
    (15, Act::Return),
    (8, Act::RegisterAgain),
    (5, Act::Forget),
    (4, Act::SignOut),
];

/// The next thing that happens of itself.
pub fn act(dice: &mut Dice) -> Act {
    dice.weighted(ACTS)
}

/// The parts of a burst; none of them is an answer or asks twice, so that what must come of each does
/// not depend on their order.
pub fn burst(dice: &mut Dice) -> Vec<Act> {
    (0..dice.between(2..=4))
        .map(|_| dice.weighted(ACTS_OF_A_BURST))
        .collect()
}

/// Some time between these milliseconds.
fn millis(dice: &mut Dice, from: u64, to: u64) -> Duration {
    Duration::from_millis(dice.between(from..=to))
}

/// How long nothing happens of itself.
pub fn pause(dice: &mut Dice) -> Duration {
    let (from, to) = dice.weighted(&[(45, (8, 200)), (50, (300, 3_000)), (5, (5_000, 30_000))]);
    millis(dice, from, to)
}

/// How long a device that lost its connection stays away: often a moment, sometimes just as long as
/// the grace, to the instant (PR-7).
pub fn absence(dice: &mut Dice) -> Duration {
    let around_grace = DESKTOP_RECONNECT_GRACE.as_millis() as u64;
    let (from, to) = dice.weighted(&[
        (50, (100, 2_000)),
        (25, (5_000, 60_000)),
        (10, (around_grace, around_grace)),
        (5, (around_grace - 16, around_grace + 16)),
        (10, (95_000, 150_000)),
    ]);
    millis(dice, from, to)
}

/// How long a forgotten device stays so.
pub fn exile(dice: &mut Dice) -> Duration {
    let (from, to) = dice.weighted(&[(50, (0, 500)), (50, (1_000, 60_000))]);
    millis(dice, from, to)
}

/// How long a user waits before trying again what failed: until what was called failed too early cannot
/// land any more, behind what was asked after it.
pub fn retry(dice: &mut Dice) -> Duration {
    millis(dice, 9_000, 15_000)
}

/// How long a device does not read.
pub fn stall(dice: &mut Dice) -> Duration {
    let (from, to) = dice.weighted(&[(60, (100, 8_000)), (40, (20_000, 100_000))]);
    millis(dice, from, to)
}

/// How long the network takes to reset a half-open connection.
pub fn half_open(dice: &mut Dice) -> Duration {
    millis(dice, 5_000, 300_000)
}

/// What a large frame carries beside what it says.
pub const LARGE: usize = 6 * 1024;

/// Large requests of a flood: more than a pipe and a narrow lane hold.
pub const FLOOD: usize = 14;

/// Devices that leave for good at the end of a run.
pub fn leavers(dice: &mut Dice) -> usize {
    dice.between(0..=6) as usize
}

/// How long the database does badly.
pub fn bad_weather(dice: &mut Dice) -> Duration {
    millis(dice, 500, 20_000)
}

/// What a frame carries beside what it says.
pub fn pad(dice: &mut Dice) -> usize {
    if dice.chance(25) { LARGE } else { 0 }
}

/// When a phone renews its interest: usually well in time, sometimes at the very deadline (TL-3), or not
/// at all.
pub fn renewal(dice: &mut Dice) -> Option<Duration> {
    let ttl = TIMELINE_INTEREST_TTL.as_millis() as u64;
    let (from, to) = dice.weighted(&[
        (65, (20_000, 20_000)),
        (10, (ttl - 16, ttl + 16)),
        (5, (ttl - 2_000, ttl - 100)),
        (20, (0, 0)),
    ]);
    (to > 0).then(|| millis(dice, from, to))
}

/// How long after an interest it is over before a snapshot that waits can leave (TL-10).
pub fn last_moment(dice: &mut Dice) -> Duration {
    let ttl = TIMELINE_INTEREST_TTL.as_millis() as u64;
    millis(dice, ttl - 240, ttl - 8)
}

/// How long after it learned of an interest a desktop publishes.
pub fn publication(dice: &mut Dice) -> Duration {
    millis(dice, 8, 2_000)
}

/// Snapshots that a desktop publishes at once.
pub fn publications(dice: &mut Dice) -> u64 {
    let (from, to) = dice.weighted(&[(60, (1, 1)), (28, (2, 4)), (12, (6, 24))]);
    dice.between(from..=to)
}

/// What a snapshot carries beside what it says; a few are oversized (TL-11).
pub fn snapshot_pad(dice: &mut Dice) -> usize {
    let (from, to) = dice.weighted(&[
        (500, (0, 200)),
        (300, (3_000, 7_000)),
        (150, (7_500, 20_000)),
        (6, (524_000, 525_000)),
        (4, (525_000, 700_000)),
    ]);
    dice.between(from..=to) as usize
}

/// Which proof a snapshot carries (TL-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The last one that the desktop was told for the session.
    Current,
    /// One of former leases.
    Former,
    /// One of another session.
    Foreign,
    /// None.
    Missing,
}

/// The proof of a snapshot.
pub fn proof(dice: &mut Dice) -> Proof {
    dice.weighted(&[
        (82, Proof::Current),
        (8, Proof::Former),
        (6, Proof::Foreign),
        (4, Proof::Missing),
    ])
}

/// Which version a snapshot carries (TL-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// A newer one than all before.
    New,
    /// The first one of a newer epoch.
    NextEpoch,
    /// An older one that was not used.
    Old,
    /// The very snapshot that was sent last.
    Same,
}

/// The version of a snapshot.
pub fn age(dice: &mut Dice) -> Age {
    dice.weighted(&[
        (68, Age::New),
        (10, Age::NextEpoch),
        (14, Age::Old),
        (8, Age::Same),
    ])
}

/// One part of what a desktop answers.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// How long after the one before.
    pub after: Duration,
    /// Whether it ends the request.
    pub is_final: bool,
}

/// How a desktop answers a request: at once, late, in parts, twice or not at all.
pub fn answer(dice: &mut Dice) -> Vec<Part> {
    let (parts, finals) = dice.weighted(&[
        (60, (0, 1)),
        (15, (3, 1)),
        (12, (0, 2)),
        (5, (2, 2)),
        (6, (0, 0)),
        (2, (2, 0)),
    ]);
    let mut part = |is_final| {
        let (from, to) = dice.weighted(&[(60, (0, 16)), (30, (100, 3_000)), (10, (5_000, 30_000))]);
        let after = millis(dice, from, to);
        Part { after, is_final }
    };
    let mut answer: Vec<_> = (0..parts).map(|_| part(false)).collect();
    answer.extend((0..finals).map(|_| part(true)));
    answer
}

/// The limits of a run: the defaults, but for a session that is over soon enough to see its end, and
/// in some runs narrow lanes and short-lived records.
pub fn limits(dice: &mut Dice) -> Limits {
    let mut limits = Limits {
        session_lifetime: Duration::from_secs(60 * 60),
        ..Limits::default()
    };
    if dice.chance(40) {
        limits.rpc_lane_bytes = 48 * 1024;
        limits.event_lane_bytes = 32 * 1024;
    }
    if dice.chance(50) {
        limits.timeline_buffer_keys = 3;
        limits.timeline_buffer_bytes = 20 * 1024;
        limits.timeline_block = 8 * 1024;
        // With the keys that wait, as many last versions are remembered as there are threads.
        limits.timeline_stale_keys = 8;
    }
    if dice.chance(30) {
        limits.record_lifetime = Duration::from_secs(60);
    }
    limits
}
