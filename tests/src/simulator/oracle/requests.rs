//! Requests and their ends (RPC-1 to RPC-8): a model of what each pair has pending, built from what
//! its devices say and hear.

mod rest;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use relay_actors::PairState;
use relay_model::wire::codes::RpcErrorCode;

use super::facts::Facts;
use super::{Findings, Invariant};
use crate::simulator::cast::{AccountNo, DeviceNo};
use crate::simulator::trace::{ConnectionNo, Removal};

/// One request frame.
struct Request {
    phone: DeviceNo,
    connection: ConnectionNo,
    id: String,
    target: Option<DeviceNo>,
    /// Where it goes if a resume before it was refused: the phone does not read, so nobody knows yet.
    target_if_refused: Option<DeviceNo>,
    sent_at: Duration,
    /// Its connection was none any more when it was sent.
    void: bool,
    forwarded: bool,
    /// The relay said that it was not delivered.
    called_undelivered: bool,
}

/// What a phone waits for: one id, perhaps asked more than once.
struct Ask {
    serials: Vec<u64>,
    connection: ConnectionNo,
    target: Option<DeviceNo>,
    sent_at: Duration,
    /// Its end may have been lost with a connection, or it expired: nothing need come any more.
    may_be_lost: bool,
}

/// A request that a desktop's connection has not answered finally.
struct Record {
    connection: ConnectionNo,
    phone: DeviceNo,
    /// When it was recorded or renewed: not before, and not after.
    renewed: (Duration, Duration),
}

/// One answer of a desktop.
struct Answer {
    connection: ConnectionNo,
    desktop: DeviceNo,
    id: String,
    is_final: bool,
    /// Its connection was none any more when it was sent.
    void: bool,
    /// Whom it is for, once it is known; `None` if there is no such record.
    receiver: Option<DeviceNo>,
    /// The record may have been over.
    may_be_dropped: bool,
    heard: bool,
    /// When the relay handles it, which is when nothing holds it back.
    at: Duration,
}

/// A request as a desktop hears it.
pub(super) struct Forwarded<'a> {
    pub(super) id: &'a str,
    pub(super) serial: u64,
    pub(super) phone: DeviceNo,
    pub(super) account: Option<AccountNo>,
}

/// The relay's own answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) retryable: bool,
    pub(super) delivered: bool,
}

/// A failure of this step, to be looked at when nothing moves.
struct Failed {
    id: String,
    failure: Failure,
    target: Option<DeviceNo>,
    /// It was asked in this step, and nothing held it back.
    fresh: bool,
    /// The desktop's connection at which the request was pending.
    pending_at: Option<ConnectionNo>,
}

/// The requests of a trace.
#[derive(Default)]
pub(super) struct Requests {
    requests: BTreeMap<u64, Request>,
    asks: BTreeMap<(DeviceNo, String), Ask>,
    records: BTreeMap<(DeviceNo, String), Record>,
    answers: BTreeMap<u64, Answer>,
    last_forwarded: BTreeMap<(ConnectionNo, ConnectionNo), u64>,
    last_answer: BTreeMap<(ConnectionNo, DeviceNo, String), u64>,
    /// Answers that wait for the registration of their connection.
    waiting: BTreeMap<ConnectionNo, Vec<u64>>,
    /// What happened in this step.
    due: Vec<u64>,
    failed: Vec<Failed>,
    /// What each registry said last, and which of them said it in this step.
    pairs: BTreeMap<DeviceNo, Option<PairState>>,
    probed: BTreeSet<DeviceNo>,
}

impl Requests {
    /// A phone asked.
    pub(super) fn asked(&mut self, facts: &Facts<'_>, number: ConnectionNo, id: &str, serial: u64) {
        let connection = facts.connection(number);
        let phone = connection.device;
        let target = match &connection.checking {
            Some(checking) => checking.target,
            None => connection.target,
        };
        let may_be_refused = connection.checking.as_ref().is_some_and(|checking| {
            checking.resume.is_some() && !connection.reading && checking.at < facts.now
        });
        let target_if_refused = connection.target.filter(|_| may_be_refused);
        let void = facts.is_superseded(number);
        let request = Request {
            phone,
            connection: number,
            id: id.to_owned(),
            target,
            target_if_refused,
            sent_at: facts.now,
            void,
            forwarded: false,
            called_undelivered: false,
        };
        self.requests.insert(serial, request);
        let mut heard_as = id.to_owned();
        heard_as.truncate(facts.limits.id_bytes);
        let ask = self.asks.entry((phone, heard_as)).or_insert(Ask {
            serials: Vec::new(),
            connection: number,
            target,
            sent_at: facts.now,
            may_be_lost: void,
        });
        ask.serials.push(serial);
    }

    /// A desktop heard a request.
    pub(super) fn forwarded(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        heard: &Forwarded<'_>,
        findings: &mut Findings,
    ) {
        let connection = facts.connection(number);
        let desktop = connection.device;
        let serial = heard.serial;
        let what = |what: String| format!("{number} of {desktop} heard request #{serial}{what}");
        let Some(request) = self.requests.get_mut(&serial) else {
            let what = what(" that nobody sent".to_owned());
            return findings.report(Invariant::NoSurprise, what);
        };
        let account = facts.cast.member(request.phone).account;
        let right = request.id == heard.id
            && request.phone == heard.phone
            && heard.account == Some(account)
            && [request.target, request.target_if_refused].contains(&Some(desktop));
        findings.check(right, Invariant::EndsOnce, || {
            let (phone, target) = (request.phone, request.target);
            what(format!(
                " as of {}, sent by {phone} for {target:?}",
                heard.phone
            ))
        });
        findings.check(!request.void, Invariant::NoLateEffect, || {
            what(format!(" of {}, which is no route", request.connection))
        });
        let again = std::mem::replace(&mut request.forwarded, true);
        findings.check(!again, Invariant::EndsOnce, || what(" twice".to_owned()));
        findings.check(!request.called_undelivered, Invariant::Delivered, || {
            what(" that was called undelivered".to_owned())
        });
        let order = (request.connection, number);
        let last = self
            .last_forwarded
            .insert(order, serial)
            .unwrap_or_default();
        findings.check(last < serial, Invariant::InOrder, || {
            what(format!(" behind #{last}"))
        });
        // What a forgotten phone had asked has ended with it, also if its desktop reads it later.
        let forgotten_at = facts.device(request.phone).exile.forgotten_at();
        if connection.left.is_some() || forgotten_at >= Some(request.sent_at) {
            return;
        }
        let record = Record {
            connection: number,
            phone: request.phone,
            renewed: (request.sent_at, facts.now),
        };
        let known = self.records.insert((desktop, heard.id.to_owned()), record);
        let pending = known.is_some_and(|known| !facts.may_have_expired(known.renewed.0));
        findings.check(!pending, Invariant::EndsOnce, || {
            what(" whose id was pending (RPC-7)".to_owned())
        });
    }

    /// A desktop answered.
    pub(super) fn answered(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        id: &str,
        serial: u64,
        is_final: bool,
    ) {
        let connection = facts.connection(number);
        let waits = connection.checking.is_some();
        // A desktop that does not read may have been answered already.
        let record = self
            .records
            .get(&(connection.device, id.to_owned()))
            .filter(|record| waits && !connection.reading && record.connection == number);
        let answer = Answer {
            connection: number,
            desktop: connection.device,
            id: id.to_owned(),
            is_final,
            void: facts.is_superseded(number),
            receiver: record.map(|record| record.phone),
            may_be_dropped: true,
            heard: false,
            at: facts.now,
        };
        self.answers.insert(serial, answer);
        if waits {
            self.waiting.entry(number).or_default().push(serial);
        } else {
            self.apply(facts, serial);
        }
    }

    /// The relay handles an answer.
    fn apply(&mut self, facts: &Facts<'_>, serial: u64) {
        let Some(answer) = self.answers.get_mut(&serial) else {
            return;
        };
        // It may have waited, and been handled before its desktop read that it waits no more.
        let sent_at = std::mem::replace(&mut answer.at, facts.now);
        let key = (answer.desktop, answer.id.clone());
        let Some(record) = self.records.get_mut(&key) else {
            return;
        };
        if record.connection != answer.connection || facts.has_expired(record.renewed.1) {
            return;
        }
        answer.receiver = Some(record.phone);
        answer.may_be_dropped = facts.may_have_expired(record.renewed.0);
        self.due.push(serial);
        if answer.is_final {
            self.records.remove(&key);
        } else {
            // A record that may be over is not renewed for certain.
            if !answer.may_be_dropped {
                record.renewed.0 = sent_at;
            }
            record.renewed.1 = facts.now;
        }
    }

    /// A registration was answered: what waited for it is handled, and a desktop's older connections
    /// are none any more.
    pub(super) fn released(&mut self, facts: &Facts<'_>, number: ConnectionNo) {
        let desktop = facts.connection(number).device;
        let superseded =
            |record: &Record| record.connection != number && facts.is_superseded(record.connection);
        self.records
            .retain(|(of, _), record| *of != desktop || !superseded(record));
        for serial in self.waiting.remove(&number).unwrap_or_default() {
            self.apply(facts, serial);
        }
    }

    /// A registration was refused: what waited for it is dropped (REG-1).
    pub(super) fn refused(&mut self, facts: &Facts<'_>, number: ConnectionNo) {
        self.waiting.remove(&number);
        if let Some(checking) = &facts.connection(number).checking {
            for ask in self.asks.values_mut() {
                ask.may_be_lost |= ask.connection == number && ask.sent_at >= checking.at;
            }
        }
    }

    /// A connection is over: a desktop's requests are ended by the relay (RPC-4).
    pub(super) fn ended(&mut self, number: ConnectionNo) {
        self.waiting.remove(&number);
        self.records.retain(|_, record| record.connection != number);
    }

    /// Devices were taken away: what a desktop was asked is ended by the relay, what a forgotten phone has
    /// asked ends with it.
    pub(super) fn removed(&mut self, removal: Removal, devices: &[DeviceNo]) {
        self.records.retain(|(desktop, _), record| {
            let asked_by_it = removal == Removal::Forget && devices.contains(&record.phone);
            !devices.contains(desktop) && !asked_by_it
        });
        for ask in self.asks.iter_mut().filter(|_| removal == Removal::Forget) {
            let ((phone, _), ask) = ask;
            ask.may_be_lost |= devices.contains(phone);
        }
    }

    /// A phone heard a desktop's answer.
    pub(super) fn answer_heard(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        id: &str,
        serial: u64,
        is_final: bool,
        findings: &mut Findings,
    ) {
        let phone = facts.connection(number).device;
        let what = |what: String| format!("{number} of {phone} heard answer #{serial}{what}");
        let Some(answer) = self.answers.get_mut(&serial) else {
            let what = what(" that nobody sent".to_owned());
            return findings.report(Invariant::NoSurprise, what);
        };
        findings.check(!answer.void, Invariant::NoLateEffect, || {
            what(format!(" of {}, which is no route", answer.connection))
        });
        let right = answer.receiver == Some(phone) && answer.id == id;
        findings.check(right, Invariant::EndsOnce, || {
            what(format!(
                " to {}, which is for {:?}",
                answer.id, answer.receiver
            ))
        });
        let again = std::mem::replace(&mut answer.heard, true);
        findings.check(!again, Invariant::EndsOnce, || what(" twice".to_owned()));
        findings.check(answer.is_final == is_final, Invariant::EndsOnce, || {
            what(" with another isFinal".to_owned())
        });
        let order = (number, answer.desktop, id.to_owned());
        let last = self.last_answer.insert(order, serial).unwrap_or_default();
        findings.check(last <= serial, Invariant::InOrder, || {
            what(format!(" behind #{last}"))
        });
        let key = (phone, id.to_owned());
        let open = if is_final {
            self.asks.remove(&key).is_some()
        } else {
            self.asks.contains_key(&key)
        };
        // What comes in parts may end on a newer connection before the older one is read.
        let may_be_late = !is_final && !facts.connection(number).attentive;
        findings.check(open || may_be_late, Invariant::EndsOnce, || {
            what(format!(" to {id}, which it does not wait for"))
        });
    }

    /// A phone heard the relay's own answer.
    pub(super) fn failure_heard(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        id: &str,
        failure: Failure,
        findings: &mut Findings,
    ) {
        let connection = facts.connection(number);
        let phone = connection.device;
        let what = |what: &str| format!("{number} of {phone} heard {failure:?} of {id}{what}");
        let Some(ask) = self.asks.remove(&(phone, id.to_owned())) else {
            let what = what(", which it does not wait for");
            return findings.report(Invariant::EndsOnce, what);
        };
        findings.check(is_consistent(failure), Invariant::Delivered, || {
            what(", which cannot be (RPC-5)")
        });
        for serial in &ask.serials {
            if let Some(request) = self.requests.get_mut(serial).filter(|_| !failure.delivered) {
                request.called_undelivered = true;
                findings.check(!request.forwarded, Invariant::Delivered, || {
                    what(", which its desktop had heard")
                });
            }
        }
        let record = ask
            .target
            .and_then(|target| self.records.get(&(target, id.to_owned())))
            .filter(|record| record.phone == phone);
        let fresh = ask.sent_at > facts.quiet_at
            && ask.connection == number
            && connection.attentive
            && connection
                .registered
                .is_some_and(|registered| registered.at < ask.sent_at);
        self.failed.push(Failed {
            id: id.to_owned(),
            failure,
            target: ask.target,
            fresh,
            pending_at: record.map(|record| record.connection),
        });
    }

    pub(super) fn probed(&mut self, desktop: DeviceNo, pair: Option<PairState>) {
        self.pairs.insert(desktop, pair);
        self.probed.insert(desktop);
    }

    /// The pairs that lived when they were asked for last.
    pub(super) fn pairs_left(&self) -> Vec<DeviceNo> {
        let left = self.pairs.iter().filter(|(_, pair)| pair.is_some());
        left.map(|(desktop, _)| *desktop).collect()
    }
}

/// `retryable` and `delivered` go together with the code as the table says (RPC-5).
fn is_consistent(failure: Failure) -> bool {
    let code = RpcErrorCode::ALL
        .iter()
        .find(|code| i64::from(code.code()) == failure.code);
    let Failure {
        retryable,
        delivered,
        ..
    } = failure;
    match code {
        Some(RpcErrorCode::DesktopReconnecting) => retryable != delivered,
        Some(RpcErrorCode::DesktopCongested | RpcErrorCode::RateLimited) => retryable && !delivered,
        Some(
            RpcErrorCode::DesktopOffline | RpcErrorCode::InvalidRequest | RpcErrorCode::NotAllowed,
        ) => !retryable && !delivered,
        None => false,
    }
}
