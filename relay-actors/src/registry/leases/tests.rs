//! Deadlines to the millisecond, who ends what, and any sequence of steps against a plain list.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use relay_model::limits::{Limits, TIMELINE_INTEREST_TTL};
use uuid::Uuid;

use super::*;
use crate::an_instant::start;

fn phone(number: u8) -> DeviceId {
    DeviceId::from_uuid(Uuid::from_u128(number.into()))
}

fn connection(number: u8) -> ConnectionId {
    ConnectionId::from_uuid(Uuid::from_u128(number.into()))
}

fn session(name: &str) -> BaseSession {
    BaseSession::read(name, &Limits::default()).unwrap()
}

fn leases() -> Leases {
    Leases::new(Arc::default())
}

const MOMENT: Duration = Duration::from_millis(1);

/// Phone `who` takes or renews the lease `number` of `name` for the usual time, on the connection
/// of the same number as the phone's.
fn take(leases: &mut Leases, who: u8, number: u64, name: &str, now: Instant) -> Vec<SessionState> {
    let deadline = now + TIMELINE_INTEREST_TTL;
    let changes = leases.interest(
        phone(who),
        connection(who),
        number,
        session(name),
        deadline,
        now,
    );
    changes.into_iter().collect()
}

/// The only state of a list: its session, generation and deadline.
#[track_caller]
fn only(states: impl IntoIterator<Item = SessionState>) -> (String, Option<u64>, Option<Instant>) {
    let states: Vec<_> = states.into_iter().collect();
    assert_eq!(states.len(), 1, "{states:?}");
    let state = &states[0];
    let generation = state.generation.map(AuthorizationGeneration::get);
    (state.session.to_string(), generation, state.latest_deadline)
}

/// TL-3, TL-4: a lease renewed 59.999 s after it began goes on with its generation; 60 s after, it is
/// gone and the renewal begins a new one.
#[test]
fn a_lease_ends_at_its_deadline() {
    for (wait, generation) in [
        (TIMELINE_INTEREST_TTL - MOMENT, 1),
        (TIMELINE_INTEREST_TTL, 2),
        (TIMELINE_INTEREST_TTL + MOMENT, 2),
    ] {
        let (mut leases, start) = (leases(), start());
        let told = take(&mut leases, 1, 1, "s", start);
        let deadline = start + TIMELINE_INTEREST_TTL;
        assert_eq!(only(told), ("s".to_owned(), Some(1), Some(deadline)));
        let now = start + wait;
        let expected = (wait < TIMELINE_INTEREST_TTL).then_some(1);
        let current = leases.current(&session("s"), now);
        assert_eq!(current.map(AuthorizationGeneration::get), expected);
        assert_eq!(
            leases.phones_of(&session("s"), now).count(),
            usize::from(expected.is_some())
        );
        assert_eq!(leases.states(now).is_empty(), expected.is_none());
        let told = take(&mut leases, 1, 1, "s", now);
        let deadline = now + TIMELINE_INTEREST_TTL;
        assert_eq!(
            only(told),
            ("s".to_owned(), Some(generation), Some(deadline))
        );
    }
}

/// TL-7: what ends by itself is told to nobody, and leaves nothing behind.
#[test]
fn a_deadline_passes_in_silence() {
    let (mut leases, start) = (leases(), start());
    let _ = take(&mut leases, 1, 1, "s", start);
    let end = start + TIMELINE_INTEREST_TTL;
    assert_eq!(leases.next_look(), Some(end));
    leases.expire(end - MOMENT);
    assert_eq!(leases.len(), 1);
    leases.expire(end);
    assert!(leases.len() == 0 && leases.next_look().is_none());
    assert_eq!(
        leases.end(phone(1), connection(1), 1, end),
        Changes::default()
    );
    assert_eq!(
        leases.phone_gone(phone(1), connection(1), end),
        Changes::default()
    );
}

/// TL-4, TL-7: two phones share a session's generation, the latest deadline counts, and the end of
/// one is told only if that moves. The next lease after the last end has another generation.
#[test]
fn two_phones_share_a_session() {
    let (mut leases, start) = (leases(), start());
    let later = start + Duration::from_secs(10);
    let (first, second) = (start + TIMELINE_INTEREST_TTL, later + TIMELINE_INTEREST_TTL);
    let _ = take(&mut leases, 1, 1, "s", start);
    let told = take(&mut leases, 2, 7, "s", later);
    assert_eq!(only(told), ("s".to_owned(), Some(1), Some(second)));
    let who: Vec<_> = leases.phones_of(&session("s"), later).collect();
    assert_eq!(
        who,
        [(phone(1), connection(1), 1), (phone(2), connection(2), 7)]
    );

    let told = leases.end(phone(2), connection(2), 7, later);
    assert_eq!(only(told), ("s".to_owned(), Some(1), Some(first)), "moved");
    let _ = take(&mut leases, 2, 8, "s", later);
    let told = leases.phone_gone(phone(1), connection(1), later);
    assert_eq!(told, Changes::default(), "the latest deadline stays");
    let told = leases.phone_gone(phone(2), connection(2), later);
    assert_eq!(only(told), ("s".to_owned(), None, None));
    assert!(leases.len() == 0);

    let told = take(&mut leases, 1, 2, "s", later);
    assert_eq!(only(told), ("s".to_owned(), Some(2), Some(second)));
}

/// TL-1, TL-7: another session ends the former lease; the desktop is told of the left session first.
#[test]
fn another_session_ends_the_former_lease() {
    let (mut leases, now) = (leases(), start());
    let deadline = Some(now + TIMELINE_INTEREST_TTL);
    let _ = take(&mut leases, 1, 1, "a", now);
    let mut told = take(&mut leases, 1, 2, "b", now).into_iter();
    assert_eq!(only(told.next()), ("a".to_owned(), None, None));
    assert_eq!(only(told.next()), ("b".to_owned(), Some(2), deadline));
    assert_eq!(told.next(), None);
    assert_eq!(leases.current(&session("a"), now), None);
    assert_eq!(leases.len(), 1);
}

/// TL-3: a lease belongs to a connection. A newer one of the same phone makes a new lease, which
/// neither an end nor the close of the older connection touches.
#[test]
fn a_replaced_connection_ends_nothing() {
    let (mut leases, now) = (leases(), start());
    let deadline = now + TIMELINE_INTEREST_TTL;
    let _ = take(&mut leases, 1, 1, "s", now);
    let told = leases.interest(phone(1), connection(9), 1, session("s"), deadline, now);
    assert_eq!(only(told), ("s".to_owned(), Some(2), Some(deadline)));
    for told in [
        leases.end(phone(1), connection(1), 1, now),
        leases.phone_gone(phone(1), connection(1), now),
        leases.end(phone(1), connection(9), 2, now),
        leases.end(phone(2), connection(9), 1, now),
    ] {
        assert_eq!(told, Changes::default());
    }
    let told = leases.end(phone(1), connection(9), 1, now);
    assert_eq!(only(told), ("s".to_owned(), None, None));
}

/// TL-3: an interest that was under way for longer than it holds takes nothing, and ends what the
/// phone had.
#[test]
fn an_interest_past_its_deadline_takes_nothing() {
    let (mut leases, now) = (leases(), start());
    let late = leases.interest(phone(1), connection(1), 1, session("a"), now, now);
    assert_eq!(late, Changes::default());
    let _ = take(&mut leases, 1, 1, "a", now);
    let late = leases.interest(phone(1), connection(1), 2, session("b"), now, now);
    assert_eq!(only(late), ("a".to_owned(), None, None));
    assert!(leases.len() == 0);
}

/// REG-7: a desktop that registers gets every live session once, each as an event of its own number.
#[test]
fn every_live_session_is_listed() {
    let (mut leases, start) = (leases(), start());
    let now = start + Duration::from_secs(30);
    let _ = take(&mut leases, 1, 1, "over", start);
    for (who, name) in [(2, "a"), (3, "b"), (4, "a")] {
        let _ = take(&mut leases, who, 1, name, now);
    }
    let states = leases.states(start + TIMELINE_INTEREST_TTL);
    let names: BTreeSet<_> = states.iter().map(|state| state.session.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["a", "b"]));
    assert_eq!(states.len(), 2);
    let until = Some(now + TIMELINE_INTEREST_TTL);
    assert!(states.iter().all(|state| state.latest_deadline == until));
    assert!(states[0].revision < states[1].revision);
}

/// A lease as the oracle keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Plain {
    phone: u8,
    connection: u8,
    number: u64,
    session: u8,
    deadline: Instant,
}

/// One pair as a list of leases, from which everything is worked out anew each time.
#[derive(Debug, Default)]
struct Oracle {
    leases: Vec<Plain>,
    generations: BTreeMap<u8, AuthorizationGeneration>,
}

impl Oracle {
    fn expire(&mut self, now: Instant) {
        self.leases.retain(|lease| lease.deadline > now);
        self.forget_generations();
    }

    fn forget_generations(&mut self) {
        let leases = &self.leases;
        self.generations
            .retain(|session, _| leases.iter().any(|lease| lease.session == *session));
    }

    fn latest(&self, session: u8) -> Option<Instant> {
        let of_session = self.leases.iter().filter(|lease| lease.session == session);
        of_session.map(|lease| lease.deadline).max()
    }

    /// The deadlines that the desktop is to know, of all sessions.
    fn deadlines(&self) -> BTreeMap<u8, Option<Instant>> {
        (0..SESSIONS)
            .map(|session| (session, self.latest(session)))
            .collect()
    }
}

const SESSIONS: u8 = 3;

fn name(session: u8) -> BaseSession {
    self::session(&format!("s{session}"))
}

#[derive(Debug, Clone)]
enum Act {
    Interest { number: u64, session: u8, ttl: u64 },
    End { number: u64 },
    Gone,
    Expire,
    List,
}

#[derive(Debug, Clone)]
struct Step {
    /// Time that passes before it.
    wait: u64,
    pair: usize,
    phone: u8,
    connection: u8,
    act: Act,
}

fn any_step() -> impl Strategy<Value = Step> {
    let ttl = prop_oneof![8 => Just(60_000u64), 1 => Just(20_000), 1 => Just(0)];
    let act = prop_oneof![
        6 => (1u64..3, 0..SESSIONS, ttl)
            .prop_map(|(number, session, ttl)| Act::Interest { number, session, ttl }),
        2 => (1u64..3).prop_map(|number| Act::End { number }),
        1 => Just(Act::Gone),
        1 => Just(Act::Expire),
        1 => Just(Act::List),
    ];
    let wait = prop_oneof![
        4 => Just(0u64),
        4 => Just(20_000),
        1 => Just(19_999),
        1 => Just(39_999),
        1 => Just(40_000),
        1 => Just(60_000),
    ];
    (wait, 0usize..2, 1u8..4, 1u8..3, act).prop_map(|(wait, pair, phone, connection, act)| Step {
        wait,
        pair,
        phone,
        connection,
        act,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    /// TL-1, TL-3, TL-4, TL-7, REG-7, with two pairs of one process: leases are those of the plain
    /// list; a session's generation stays while it has a lease and is above all others when it gets
    /// its first; revisions rise; what is told is what changed, and every renewal.
    #[test]
    fn leases_are_those_of_a_plain_list(steps in prop::collection::vec(any_step(), 0..24)) {
        let numbers = Arc::new(TimelineNumbers::default());
        let mut pairs = [0, 1].map(|_| (Leases::new(numbers.clone()), Oracle::default()));
        let mut now = start();
        let (mut last_generation, mut last_revision) = (0, 0);
        for step in steps {
            now += Duration::from_millis(step.wait);
            let (leases, oracle) = &mut pairs[step.pair];
            let (who, on) = (phone(step.phone), connection(step.connection));
            oracle.expire(now);
            let before = oracle.deadlines();
            let held = oracle.leases.iter().position(|lease| lease.phone == step.phone);
            let held_as = held.map(|index| oracle.leases[index].clone());
            // What has to be told although it may look as before.
            let mut renewed = BTreeSet::new();
            let told: Vec<_> = match step.act {
                Act::Interest { number, session, ttl } => {
                    let deadline = now + Duration::from_millis(ttl);
                    let lease = Plain {
                        phone: step.phone,
                        connection: step.connection,
                        number,
                        session,
                        deadline,
                    };
                    if let (Some(index), Some(held)) = (held, &held_as) {
                        oracle.leases.remove(index);
                        let renewal = Plain { deadline: held.deadline, ..lease.clone() };
                        if *held != renewal || ttl == 0 {
                            oracle.forget_generations();
                        }
                    }
                    if ttl > 0 {
                        oracle.leases.push(lease);
                        renewed.insert(session);
                    }
                    let told = leases.interest(who, on, number, name(session), deadline, now);
                    told.into_iter().collect()
                }
                Act::End { number } => {
                    oracle.leases.retain(|lease| {
                        (lease.phone, lease.connection, lease.number)
                            != (step.phone, step.connection, number)
                    });
                    oracle.forget_generations();
                    leases.end(who, on, number, now).into_iter().collect()
                }
                Act::Gone => {
                    oracle.leases.retain(|lease| {
                        (lease.phone, lease.connection) != (step.phone, step.connection)
                    });
                    oracle.forget_generations();
                    leases.phone_gone(who, on, now).into_iter().collect()
                }
                Act::Expire => {
                    leases.expire(now);
                    prop_assert_eq!(leases.len(), oracle.leases.len());
                    let deadlines = oracle.leases.iter().map(|lease| lease.deadline);
                    let (look, next) = (leases.next_look(), deadlines.min());
                    prop_assert_eq!(look.is_some(), next.is_some());
                    prop_assert!(look <= next && look.is_none_or(|look| look > now));
                    Vec::new()
                }
                Act::List => {
                    renewed.extend(oracle.leases.iter().map(|lease| lease.session));
                    leases.states(now)
                }
            };

            let after = oracle.deadlines();
            let changed = (0..SESSIONS)
                .filter(|session| before[session] != after[session] || renewed.contains(session));
            let changed: BTreeSet<_> = changed.map(name).collect();
            let told_of: BTreeSet<_> = told.iter().map(|state| state.session.clone()).collect();
            prop_assert_eq!(&told_of, &changed);
            prop_assert_eq!(told.len(), changed.len(), "each session once");
            for state in &told {
                prop_assert!(state.revision > last_revision);
                last_revision = state.revision;
            }
            for session in 0..SESSIONS {
                let current = leases.current(&name(session), now);
                prop_assert_eq!(current.is_some(), after[&session].is_some());
                if let Some(current) = current {
                    match oracle.generations.get(&session) {
                        Some(known) => prop_assert_eq!(current, *known, "it stays"),
                        None => {
                            prop_assert!(current.get() > last_generation);
                            last_generation = current.get();
                            oracle.generations.insert(session, current);
                        }
                    }
                }
                if let Some(state) = told.iter().find(|state| state.session == name(session)) {
                    prop_assert_eq!(state.latest_deadline, after[&session]);
                    prop_assert_eq!(state.generation, current);
                }
                let phones: BTreeSet<_> = leases.phones_of(&name(session), now).collect();
                let of_session = oracle.leases.iter().filter(|lease| lease.session == session);
                let expected = of_session
                    .map(|lease| (phone(lease.phone), connection(lease.connection), lease.number));
                prop_assert_eq!(phones, expected.collect::<BTreeSet<_>>());
            }
        }
        for (leases, _) in &mut pairs {
            leases.expire(now + TIMELINE_INTEREST_TTL);
            prop_assert!(leases.len() == 0);
            prop_assert_eq!(leases.leases.capacity() + leases.sessions.capacity(), 0);
        }
    }
}
