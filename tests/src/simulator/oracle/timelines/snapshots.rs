//! Snapshots on their way from a desktop to its phones (TL-5, TL-8, TL-12, TL-13): each was published
//! under the current generation and reaches only those whose lease lives, never behind a newer one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::leases::{Leases, Life, Stamp};
use super::told::Told;
use crate::simulator::cast::DeviceNo;
use crate::simulator::oracle::facts::Facts;
use crate::simulator::oracle::{Findings, Invariant};
use crate::simulator::timeline_frames::{Snapshot, Version, Window};
use crate::simulator::trace::ConnectionNo;

struct Publication {
    snapshot: Snapshot,
    at: Duration,
    desktop: DeviceNo,
    /// When the desktop sent the registration under which it published.
    era: Duration,
    /// The relay may pass it on.
    allowed: bool,
}

impl Publication {
    fn stamp(&self) -> Stamp {
        (self.era, self.snapshot.version)
    }
}

/// All that was published.
#[derive(Default)]
pub(super) struct Snapshots {
    by_serial: BTreeMap<u64, Vec<Publication>>,
    /// The serial numbers of each desktop's windows.
    by_window: BTreeMap<(DeviceNo, Window), Vec<u64>>,
}

impl Snapshots {
    pub(super) fn published(
        &mut self,
        facts: &Facts<'_>,
        leases: &mut Leases,
        told: &Told,
        number: ConnectionNo,
        snapshot: Snapshot,
    ) {
        let connection = facts.connection(number);
        let Some(registered) = connection.registered else {
            return;
        };
        let desktop = connection.device;
        let session = snapshot.window.session;
        let owner = (desktop, session);
        let first_told = snapshot
            .proof
            .and_then(|proof| told.first_told(proof, owner));
        let allowed = !facts.is_superseded(number)
            && first_told.is_some_and(|at| leases.dead_at(desktop, session) <= Some(at))
            && snapshot
                .proof
                .is_some_and(|proof| !told.knows_newer(facts, proof, owner));
        let publication = Publication {
            snapshot,
            at: facts.now,
            desktop,
            era: registered.sent_at,
            allowed,
        };
        let certain = allowed
            && facts.is_undisputed(number)
            && told.current(number, session) == snapshot.proof
            && registered.at < facts.quiet_at;
        if certain {
            for lease in leases.open_at_mut(desktop, session) {
                let held = lease.from < facts.quiet_at && lease.life(facts) == Life::Live;
                if held && !lease.blurred {
                    lease.owe(snapshot.window.thread, publication.stamp(), facts.now);
                }
            }
        }
        let serials = self
            .by_window
            .entry((desktop, snapshot.window))
            .or_default();
        serials.push(snapshot.serial);
        self.by_serial
            .entry(snapshot.serial)
            .or_default()
            .push(publication);
    }

    pub(super) fn heard(
        &self,
        facts: &Facts<'_>,
        leases: &mut Leases,
        number: ConnectionNo,
        from: DeviceNo,
        snapshot: Snapshot,
        findings: &mut Findings,
    ) {
        let thread = snapshot.window.thread;
        let what = |what: &str| {
            let serial = snapshot.serial;
            format!(
                "{number} heard snapshot #{serial} of {}{what}",
                snapshot.window
            )
        };
        let publications = self.by_serial.get(&snapshot.serial).into_iter().flatten();
        let same = |published: &&Publication| {
            let without_proof = Snapshot {
                proof: None,
                ..published.snapshot
            };
            without_proof == snapshot && published.desktop == from
        };
        let published: Vec<_> = publications.filter(same).collect();
        if published.is_empty() {
            return findings.report(Invariant::Authorized, what(", which nobody published"));
        }
        let allowed: Vec<_> = published
            .iter()
            .filter(|published| published.allowed)
            .collect();
        if allowed.is_empty() {
            return findings.report(
                Invariant::Authorized,
                what(", which had no right to be sent"),
            );
        }
        let mut held = false;
        for published in allowed {
            // A lease under which it was published, the latest of them.
            let lease = leases.of(number).rev().find(|lease| {
                lease.desktop == from
                    && lease.session == snapshot.window.session
                    && lease.from <= published.at
            });
            let Some(lease) = lease.filter(|lease| lease.may_have_been_live_at_send(facts)) else {
                continue;
            };
            held = true;
            if lease.blurred || !lease.has_heard(thread, published.stamp()) {
                return lease.hear(thread, published.stamp());
            }
        }
        findings.check(held, Invariant::Authorized, || what(" without a lease"));
        findings.check(!held, Invariant::Rises, || what(" behind a newer one"));
    }

    pub(super) fn stale(
        &self,
        facts: &Facts<'_>,
        leases: &mut Leases,
        number: ConnectionNo,
        window: Window,
        version: Version,
        findings: &mut Findings,
    ) {
        let what = |what: &str| format!("{number} was told that {window} {version} is stale{what}");
        for lease in leases.of(number).rev() {
            if lease.session != window.session || !lease.may_have_been_live_at_send(facts) {
                continue;
            }
            let serials = self
                .by_window
                .get(&(lease.desktop, window))
                .into_iter()
                .flatten();
            let published = serials
                .filter_map(|serial| self.by_serial.get(serial))
                .flatten()
                .filter(|published| {
                    let under = lease.from <= published.at && published.allowed;
                    under && published.snapshot.version == version
                })
                .map(Publication::stamp)
                .max();
            if let Some(stamp) = published {
                let heard = !lease.blurred && lease.has_heard(window.thread, stamp);
                lease.miss(window.thread, stamp);
                return findings.check(!heard, Invariant::Newest, || what(", and has heard it"));
            }
        }
        findings.report(
            Invariant::Authorized,
            what(", which was never to be sent to it"),
        );
    }
}
