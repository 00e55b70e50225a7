//! The requests of a pair that have no final answer yet (RPC-1, RPC-2, RPC-6, RPC-7). Pure: time
//! comes as an argument, frames are the actor's business.

use std::collections::HashMap;
use std::time::Duration;

use indexmap::IndexMap;
use relay_model::ids::{ConnectionId, DeviceId};
use relay_model::limits::Limits;
use tokio::time::Instant;

/// Records for which a pair without any keeps room, so that one request at a time costs no allocation
/// of tables.
const KEPT_RECORDS: usize = 4;

/// One recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// The phone that asked, on whatever connection it is.
    pub(crate) phone: DeviceId,
    /// The desktop connection to which the request was forwarded.
    pub(crate) desktop: ConnectionId,
    /// The request's place among those forwarded to that connection, from 1.
    pub(crate) position: u64,
    deadline: Instant,
    /// How long before its deadline it was forwarded, in nanoseconds: half the size of a moment.
    age_at_deadline: u64,
}

impl Record {
    /// When the request was forwarded.
    fn forwarded(&self) -> Instant {
        let age = Duration::from_nanos(self.age_at_deadline);
        self.deadline.checked_sub(age).unwrap_or(self.deadline)
    }

    fn set_deadline(&mut self, deadline: Instant) {
        let age = deadline.saturating_duration_since(self.forwarded());
        self.age_at_deadline = nanos(age);
        self.deadline = deadline;
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Why a request is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotRecorded {
    /// This phone has it pending: the one answer serves both.
    Duplicate,
    /// Another phone has it pending.
    TakenByAnotherPhone,
    /// The pair or the phone has too many.
    TooMany,
}

/// What a response is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// A pending request.
    By {
        /// The phone that asked.
        phone: DeviceId,
        /// When the request was forwarded.
        forwarded: Instant,
    },
    /// No request of this connection.
    Unknown,
}

/// The pending requests of one pair.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    /// Indexed, so that what is done for many of them is done in a repeatable order.
    records: IndexMap<Box<str>, Record>,
    per_phone: HashMap<DeviceId, usize>,
}

impl PendingRequests {
    /// Whether a request with this id may be recorded for `phone`.
    pub(crate) fn admit(
        &self,
        id: &str,
        phone: DeviceId,
        limits: &Limits,
    ) -> Result<(), NotRecorded> {
        if let Some(record) = self.records.get(id) {
            return Err(if record.phone == phone {
                NotRecorded::Duplicate
            } else {
                NotRecorded::TakenByAnotherPhone
            });
        }
        let of_phone = self.per_phone.get(&phone).copied().unwrap_or(0);
        if self.records.len() >= limits.records_per_pair || of_phone >= limits.records_per_phone {
            return Err(NotRecorded::TooMany);
        }
        Ok(())
    }

    /// Records an admitted request that was forwarded.
    pub(crate) fn record(
        &mut self,
        id: Box<str>,
        phone: DeviceId,
        desktop: ConnectionId,
        position: u64,
        now: Instant,
        limits: &Limits,
    ) {
        let deadline = now + limits.record_lifetime;
        *self.per_phone.entry(phone).or_default() += 1;
        self.records.insert(
            id,
            Record {
                phone,
                desktop,
                position,
                deadline,
                age_at_deadline: nanos(limits.record_lifetime),
            },
        );
    }

    /// Takes a response from a desktop connection: a final one ends the record, another renews it.
    pub(crate) fn answer(
        &mut self,
        id: &str,
        desktop: ConnectionId,
        is_final: bool,
        now: Instant,
        limits: &Limits,
    ) -> Answered {
        let Some((index, _, record)) = self.records.get_full_mut(id) else {
            return Answered::Unknown;
        };
        if record.desktop != desktop {
            return Answered::Unknown;
        }
        let (phone, forwarded) = (record.phone, record.forwarded());
        if is_final {
            self.records.swap_remove_index(index);
            self.forget_one(phone);
        } else {
            record.set_deadline(now + limits.record_lifetime);
        }
        Answered::By { phone, forwarded }
    }

    /// Ends all requests that were forwarded to this connection, in the order of forwarding.
    pub(crate) fn end_of_desktop(&mut self, desktop: ConnectionId) -> Vec<(Box<str>, Record)> {
        let mut ended = self.remove(|record| record.desktop == desktop);
        ended.sort_unstable_by_key(|(_, record)| record.position);
        ended
    }

    /// Ends, silently, all requests of this phone.
    pub(crate) fn end_of_phone(&mut self, phone: DeviceId) {
        if self.has_of_phone(phone) {
            self.remove(|record| record.phone == phone);
        }
    }

    /// Ends, silently, what is past its deadline; returns how many.
    pub(crate) fn expire(&mut self, now: Instant) -> usize {
        self.remove(|record| record.deadline <= now).len()
    }

    /// The first deadline. All records live equally long, so no later record can come before it.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.records.values().map(|record| record.deadline).min()
    }

    /// Whether a request with this id is pending.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.records.contains_key(id)
    }

    /// Whether this phone waits for an answer.
    pub(crate) fn has_of_phone(&self, phone: DeviceId) -> bool {
        self.per_phone.contains_key(&phone)
    }

    /// How many each phone has, in the order of their ids.
    pub(crate) fn by_phone(&self) -> Vec<(DeviceId, usize)> {
        let mut counts: Vec<_> = self
            .per_phone
            .iter()
            .map(|(phone, count)| (*phone, *count))
            .collect();
        counts.sort_unstable();
        counts
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn remove(&mut self, ends: impl Fn(&Record) -> bool) -> Vec<(Box<str>, Record)> {
        let mut ended = Vec::new();
        self.records.retain(|id, record| {
            let keep = !ends(record);
            if !keep {
                ended.push((id.clone(), *record));
            }
            keep
        });
        for (_, record) in &ended {
            self.forget_one(record.phone);
        }
        ended
    }

    fn forget_one(&mut self, phone: DeviceId) {
        if let Some(count) = self.per_phone.get_mut(&phone) {
            *count -= 1;
            if *count == 0 {
                self.per_phone.remove(&phone);
            }
        }
        if self.records.is_empty() && self.records.capacity() > KEPT_RECORDS {
            // An idle pair owns small tables only.
            self.records = IndexMap::new();
            self.per_phone = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::an_instant::start;

    fn phone(number: u128) -> DeviceId {
        DeviceId::from_uuid(Uuid::from_u128(number))
    }

    fn connection(number: u128) -> ConnectionId {
        ConnectionId::from_uuid(Uuid::from_u128(number))
    }

    fn by(number: u128, forwarded: Instant) -> Answered {
        let phone = phone(number);
        Answered::By { phone, forwarded }
    }

    fn limits() -> Limits {
        Limits {
            records_per_pair: 3,
            records_per_phone: 2,
            ..Limits::default()
        }
    }

    fn ask(
        pending: &mut PendingRequests,
        id: &str,
        who: u128,
        now: Instant,
    ) -> Option<NotRecorded> {
        let refused = pending.admit(id, phone(who), &limits()).err();
        if refused.is_none() {
            let position = pending.len() as u64 + 1;
            pending.record(
                id.into(),
                phone(who),
                connection(9),
                position,
                now,
                &limits(),
            );
        }
        refused
    }

    /// RPC-7: an id that is pending is never recorded again, and the first phone keeps it.
    #[test]
    fn a_pending_id_is_not_recorded_twice() {
        let (mut pending, now) = (PendingRequests::default(), start());
        assert_eq!(ask(&mut pending, "a", 1, now), None);
        assert_eq!(ask(&mut pending, "a", 1, now), Some(NotRecorded::Duplicate));
        assert_eq!(
            ask(&mut pending, "a", 2, now),
            Some(NotRecorded::TakenByAnotherPhone)
        );
        let answered = pending.answer("a", connection(9), true, now, &limits());
        assert_eq!(answered, by(1, now));
        assert_eq!(ask(&mut pending, "a", 2, now), None, "an ended id is free");
    }

    /// OP-6: a request's time counts from its forwarding, whatever was answered in between.
    #[test]
    fn partial_answers_keep_the_moment_of_forwarding() {
        let (mut pending, start) = (PendingRequests::default(), start());
        ask(&mut pending, "a", 1, start);
        for seconds in [1, 700, 1_400] {
            let now = start + Duration::from_secs(seconds);
            let answered = pending.answer("a", connection(9), false, now, &limits());
            assert_eq!(answered, by(1, start));
        }
        let last = start + Duration::from_secs(2_100);
        let answered = pending.answer("a", connection(9), true, last, &limits());
        assert_eq!(answered, by(1, start));
    }

    /// RPC-6: limits a phone and a pair.
    #[test]
    fn records_are_limited() {
        let (mut pending, now) = (PendingRequests::default(), start());
        assert_eq!(ask(&mut pending, "a", 1, now), None);
        assert_eq!(ask(&mut pending, "b", 1, now), None);
        assert_eq!(
            ask(&mut pending, "c", 1, now),
            Some(NotRecorded::TooMany),
            "the phone's"
        );
        assert_eq!(ask(&mut pending, "c", 2, now), None);
        assert_eq!(
            ask(&mut pending, "d", 2, now),
            Some(NotRecorded::TooMany),
            "the pair's"
        );
    }

    /// RPC-2, RPC-3: only the connection that got the request answers it; an answer that is not
    /// final keeps it; after the final one there is nothing left to answer.
    #[test]
    fn only_the_right_connection_answers() {
        let (mut pending, now) = (PendingRequests::default(), start());
        ask(&mut pending, "a", 1, now);
        let mut answer =
            |desktop, is_final| pending.answer("a", connection(desktop), is_final, now, &limits());
        assert_eq!(answer(8, true), Answered::Unknown);
        assert_eq!(answer(9, false), by(1, now));
        assert_eq!(answer(9, false), by(1, now));
        assert_eq!(answer(9, true), by(1, now));
        assert_eq!(answer(9, true), Answered::Unknown);
        assert_eq!(answer(9, false), Answered::Unknown);
    }

    /// RPC-6: a record ends 15 minutes after it was forwarded or last answered, at the deadline and
    /// not before.
    #[test]
    fn records_expire() {
        let (mut pending, start) = (PendingRequests::default(), start());
        let lifetime = limits().record_lifetime;
        let moment = Duration::from_nanos(1);
        ask(&mut pending, "a", 1, start);
        ask(&mut pending, "b", 1, start);
        let later = start + Duration::from_secs(60);
        pending.answer("b", connection(9), false, later, &limits());
        assert_eq!(pending.next_deadline(), Some(start + lifetime));
        assert_eq!(pending.expire(start + lifetime - moment), 0);
        assert_eq!(pending.expire(start + lifetime), 1);
        assert_eq!(pending.next_deadline(), Some(later + lifetime));
        assert_eq!(pending.expire(later + lifetime), 1);
        assert_eq!(pending.next_deadline(), None);
    }

    /// RPC-4: a desktop's end takes its own requests, in order, and no others.
    #[test]
    fn the_end_of_a_connection_ends_its_requests() {
        let (mut pending, now) = (PendingRequests::default(), start());
        for (position, (id, desktop)) in [("a", 9), ("b", 8), ("c", 9)].into_iter().enumerate() {
            let position = position as u64 + 1;
            let (id, desktop) = (id.into(), connection(desktop));
            pending.record(id, phone(1), desktop, position, now, &Limits::default());
        }
        let ended: Vec<_> = pending
            .end_of_desktop(connection(9))
            .into_iter()
            .map(|(id, _)| id)
            .collect();
        assert_eq!(ended, ["a".into(), "c".into()]);
        assert_eq!(pending.len(), 1);
    }

    proptest! {
        /// Invariant 2: against a plain map, every recorded request ends exactly once, and the
        /// counts of the phones always match the records.
        #[test]
        fn every_request_ends_once(
            steps in prop::collection::vec((0u8..4, 0u8..6, 1u128..4, 1u128..3), 0..300),
        ) {
            let (limits, now) = (limits(), start());
            let mut pending = PendingRequests::default();
            let mut oracle: BTreeMap<String, (DeviceId, ConnectionId)> = BTreeMap::new();
            for (step, id, who, desktop) in steps {
                let (id, who, desktop) = (format!("id{id}"), phone(who), connection(desktop));
                match step {
                    0 => {
                        let of_phone = oracle.values().filter(|(phone, _)| *phone == who).count();
                        let expected = match oracle.get(&id) {
                            Some((owner, _)) if *owner == who => Err(NotRecorded::Duplicate),
                            Some(_) => Err(NotRecorded::TakenByAnotherPhone),
                            None if oracle.len() >= 3 || of_phone >= 2 => {
                                Err(NotRecorded::TooMany)
                            }
                            None => Ok(()),
                        };
                        prop_assert_eq!(pending.admit(&id, who, &limits), expected);
                        if expected.is_ok() {
                            let boxed = id.as_str().into();
                            pending.record(boxed, who, desktop, 1, now, &limits);
                            oracle.insert(id, (who, desktop));
                        }
                    }
                    1 | 2 => {
                        let is_final = step == 1;
                        let owner = oracle.get(&id).filter(|(_, to)| *to == desktop);
                        let expected = owner.map_or(Answered::Unknown, |(who, _)| {
                            let (phone, forwarded) = (*who, now);
                            Answered::By { phone, forwarded }
                        });
                        let got = pending.answer(&id, desktop, is_final, now, &limits);
                        prop_assert_eq!(got, expected);
                        if is_final && got != Answered::Unknown {
                            oracle.remove(&id);
                        }
                    }
                    _ => {
                        let ended = pending.end_of_desktop(desktop).len();
                        let before = oracle.len();
                        oracle.retain(|_, (_, to)| *to != desktop);
                        prop_assert_eq!(ended, before - oracle.len());
                    }
                }
                prop_assert_eq!(pending.len(), oracle.len());
                let counted: usize = pending.per_phone.values().sum();
                prop_assert_eq!(counted, oracle.len());
            }
        }
    }
}
