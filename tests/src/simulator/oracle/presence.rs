//! Presence (PR-1 to PR-5, PR-7): what devices are told follows one another as it should, and is the
//! truth whenever nothing moves.

use std::collections::BTreeMap;
use std::time::Duration;

use relay_actors::RelayState;
use relay_model::limits::DESKTOP_RECONNECT_GRACE;
use relay_model::store::DeviceStatus;

use super::facts::{Facts, SLACK, Standing};
use super::{Findings, Invariant};
use crate::simulator::cast::{AccountNo, DeviceNo};
use crate::simulator::frames::Word;
use crate::simulator::trace::ConnectionNo;

type LiveDevices = BTreeMap<DeviceNo, (DeviceStatus, Duration)>;

/// The presence of a trace.
#[derive(Default)]
pub(super) struct Presence {
    /// Whose each generation is.
    generations: BTreeMap<u64, DeviceNo>,
    /// What the directory said in this step.
    live: BTreeMap<AccountNo, LiveDevices>,
    /// What the relay said of its state, and whether in this step.
    pub(super) state: Option<RelayState>,
    is_recent: bool,
    /// Desktops that somebody was told of as reconnecting in this step.
    dropped: Vec<DeviceNo>,
}

impl Presence {
    pub(super) fn probed(
        &mut self,
        account: AccountNo,
        devices: Vec<(DeviceNo, DeviceStatus, Duration)>,
    ) {
        let devices = devices
            .into_iter()
            .map(|(device, status, since)| (device, (status, since)));
        self.live.insert(account, devices.collect());
    }

    pub(super) fn counted(&mut self, state: RelayState) {
        self.state = Some(state);
        self.is_recent = true;
    }

    /// A `device-status` came.
    pub(super) fn told(
        &mut self,
        facts: &mut Facts<'_>,
        receiver: ConnectionNo,
        desktop: DeviceNo,
        word: Word,
        generation: u64,
        findings: &mut Findings,
    ) {
        if word == Word::Online {
            let owner = *self.generations.entry(generation).or_insert(desktop);
            findings.check(owner == desktop, Invariant::OneRoute, || {
                format!("generation {generation} is of {owner} and {desktop}")
            });
        }
        // What a device reads late may be old.
        if facts.connection(receiver).attentive {
            let closing = facts.closing_since.is_some_and(|since| facts.now > since);
            findings.check(!closing, Invariant::Presence, || {
                format!("{receiver} was told of {desktop} while a drain closes (DR-3)")
            });
            if word == Word::Reconnecting {
                self.dropped.push(desktop);
            }
            let removed = facts.device(desktop).exile.is_recent(facts.quiet_at);
            let may_be_at_the_next = facts.stopping && word == Word::Disconnected && !removed;
            findings.check(!may_be_at_the_next, Invariant::Presence, || {
                format!("{receiver} was told while the relay drains that {desktop} is gone (DR-5)")
            });
            let too_early = word == Word::Disconnected
                && !removed
                && facts.truth(facts.device(desktop).standing, facts.now)
                    == Some(DeviceStatus::Reconnecting);
            findings.check(!too_early, Invariant::Presence, || {
                format!("{receiver} was told before its time that {desktop} is gone")
            });
        }
        let connection = facts.connection_mut(receiver);
        let is_reply = connection.awaits_status && connection.target == Some(desktop);
        connection.awaits_status &= !is_reply;
        let before = connection.known.insert(desktop, (word, generation));
        let follows = match before {
            None => true,
            // A reply tells again what holds; of a desktop that is gone the relay knows no more than
            // that no generation so far is its.
            Some((was, of)) if is_reply => generation > of || generation == of && word >= was,
            Some((was, of)) if generation == of => word > was,
            Some((_, of)) => generation > of && word == Word::Online,
        };
        findings.check(follows, Invariant::Presence, || {
            format!(
                "{receiver} was told that {desktop} is {word:?} ({generation}) after {before:?}"
            )
        });
    }

    pub(super) fn quiet(&mut self, facts: &Facts<'_>, findings: &mut Findings) {
        for desktop in std::mem::take(&mut self.dropped) {
            let device = facts.device(desktop);
            if let Standing::Online(route) = device.before {
                let connection = facts.connection(route);
                let lives = connection.reading && device.only_replaced;
                findings.check(!lives, Invariant::NoLateEffect, || {
                    format!("{desktop} was called reconnecting but lost no route (PR-3)")
                });
            }
        }
        for (account, live) in &self.live {
            for device in facts.cast.of_account(*account) {
                let is = live.get(&device).map(|(status, _)| *status);
                check_truth(facts, device, is, findings);
            }
            check_knowledge(facts, *account, live, findings);
        }
        if std::mem::take(&mut self.is_recent) {
            self.check_counts(facts, findings);
        }
        self.live.clear();
    }

    /// The directory's counts are those of its devices, when all of them are known.
    fn check_counts(&self, facts: &Facts<'_>, findings: &mut Findings) {
        let (Some(state), true) = (self.state, self.live.len() == facts.cast.accounts.len()) else {
            return;
        };
        let count = |wanted| {
            let live = self.live.values().flat_map(BTreeMap::values);
            live.filter(|(status, _)| *status == wanted).count()
        };
        let online = count(DeviceStatus::Online);
        let reconnecting = count(DeviceStatus::Reconnecting);
        let directory = state.directory;
        findings.check(
            directory.routes == online && directory.devices == online + reconnecting,
            Invariant::OneRoute,
            || format!("{online} online and {reconnecting} reconnecting, but {directory:?}"),
        );
        findings.check(state.graces == reconnecting, Invariant::Presence, || {
            format!("{reconnecting} reconnecting, but {} graces", state.graces)
        });
    }
}

/// The directory knows what is true.
fn check_truth(
    facts: &Facts<'_>,
    device: DeviceNo,
    is: Option<DeviceStatus>,
    findings: &mut Findings,
) {
    let standing = facts.device(device).standing;
    let truth = if facts.cast.is_desktop(device) {
        facts.truth(standing, facts.now)
    } else {
        match standing {
            Standing::Online(_) => Some(DeviceStatus::Online),
            Standing::Never | Standing::Removed | Standing::Gone { .. } => {
                Some(DeviceStatus::Offline)
            }
            Standing::Doubtful { .. } => None,
        }
    };
    let is = is.unwrap_or(DeviceStatus::Offline);
    findings.check(
        truth.is_none_or(|truth| truth == is),
        Invariant::Presence,
        || format!("{device} is {is:?}, but must be {truth:?}: {standing:?}"),
    );
}

/// Every route that reads knows what the directory knows, and all know the same generation.
fn check_knowledge(
    facts: &Facts<'_>,
    account: AccountNo,
    live: &LiveDevices,
    findings: &mut Findings,
) {
    let mut generations: BTreeMap<DeviceNo, u64> = BTreeMap::new();
    for device in facts.cast.of_account(account) {
        let Standing::Online(receiver) = facts.device(device).standing else {
            continue;
        };
        let connection = facts.connection(receiver);
        for desktop in facts
            .cast
            .desktops_of(account)
            .filter(|desktop| *desktop != device)
        {
            let word = match live.get(&desktop) {
                Some((DeviceStatus::Online, _)) => Word::Online,
                Some((DeviceStatus::Reconnecting, _)) => Word::Reconnecting,
                Some((DeviceStatus::Offline, _)) | None => Word::Disconnected,
            };
            let since = live.get(&desktop).map(|(_, since)| *since);
            let grace_ends = since.is_some_and(|since| {
                word == Word::Reconnecting && facts.now + SLACK > since + DESKTOP_RECONNECT_GRACE
            });
            if grace_ends {
                // The probe may have come in the middle of it.
                continue;
            }
            let happened_here = since.is_some_and(|since| {
                connection
                    .registered
                    .is_some_and(|registered| since > registered.at)
            });
            let must_know = happened_here || connection.target == Some(desktop);
            let known = connection.known.get(&desktop);
            let right = known.map_or(!must_know, |(known, _)| *known == word);
            findings.check(right, Invariant::Presence, || {
                format!("{desktop} is {word:?}, but {receiver} of {device} knows {known:?}")
            });
            if let Some((Word::Online | Word::Reconnecting, generation)) = known {
                let first = *generations.entry(desktop).or_insert(*generation);
                findings.check(first == *generation, Invariant::OneRoute, || {
                    format!("generations {first} and {generation} of {desktop} are current")
                });
            }
        }
    }
}
