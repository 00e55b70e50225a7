//! Timelines (section 8): who may hear which snapshot, in which order and when, and what desktops are
//! told of the leases.

mod leases;
mod pacing;
mod snapshots;
mod told;

use std::collections::BTreeMap;

use super::facts::Facts;
use super::{Findings, Invariant};
use crate::simulator::cast::DeviceNo;
use crate::simulator::timeline_frames::{LeaseState, SessionNo, Snapshot, Version, Window};
use crate::simulator::trace::ConnectionNo;
use leases::Leases;
use pacing::Pacing;
use snapshots::Snapshots;
use told::Told;

/// The timelines of a trace.
#[derive(Default)]
pub(super) struct Timelines {
    leases: Leases,
    told: Told,
    snapshots: Snapshots,
    pacing: Pacing,
    /// The leases that pairs said they hold, in this step.
    counted: BTreeMap<DeviceNo, usize>,
}

impl Timelines {
    /// A phone said that it takes an interest, or ends it.
    pub(super) fn interest(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        session: SessionNo,
        active: bool,
    ) {
        self.leases.interest(facts, number, session, active);
    }

    /// A registration was answered.
    pub(super) fn registered(&mut self, facts: &Facts<'_>, number: ConnectionNo) {
        if facts.cast.is_desktop(facts.connection(number).device) {
            self.told.registered(number);
        } else {
            self.leases.registered(facts, number);
        }
    }

    /// A connection is over.
    pub(super) fn ended(&mut self, facts: &Facts<'_>, number: ConnectionNo) {
        self.leases.ended(facts, number);
    }

    /// A desktop was told of the leases of a session.
    pub(super) fn told(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        state: LeaseState,
        findings: &mut Findings,
    ) {
        self.told.told(facts, &self.leases, number, state, findings);
    }

    /// A desktop published.
    pub(super) fn published(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        snapshot: Snapshot,
    ) {
        let Self {
            leases,
            told,
            snapshots,
            ..
        } = self;
        snapshots.published(facts, leases, told, number, snapshot);
    }

    /// A snapshot came.
    pub(super) fn snapshot(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        from: DeviceNo,
        snapshot: Snapshot,
        findings: &mut Findings,
    ) {
        self.snapshots
            .heard(facts, &mut self.leases, number, from, snapshot, findings);
        self.pacing.heard(facts, number, snapshot.pad, findings);
    }

    /// A window was called stale.
    pub(super) fn stale(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        window: Window,
        version: Version,
        findings: &mut Findings,
    ) {
        self.snapshots
            .stale(facts, &mut self.leases, number, window, version, findings);
        self.pacing.heard(facts, number, 0, findings);
    }

    /// All windows were called stale.
    pub(super) fn all_stale(
        &mut self,
        facts: &Facts<'_>,
        number: ConnectionNo,
        findings: &mut Findings,
    ) {
        self.leases.all_stale(facts, number, findings);
        self.pacing.heard(facts, number, 0, findings);
    }

    /// A pair said how many leases it holds.
    pub(super) fn counted(&mut self, desktop: DeviceNo, leases: usize) {
        self.counted.insert(desktop, leases);
    }

    /// Nothing moves.
    pub(super) fn quiet(&mut self, facts: &Facts<'_>, findings: &mut Findings) {
        self.leases.settle(facts);
        for (desktop, counted) in std::mem::take(&mut self.counted) {
            let live = self.leases.live_at(facts, desktop);
            let right = live.is_none_or(|live| live == counted);
            findings.check(right, Invariant::NothingLeft, || {
                format!("the pair of {desktop} holds {counted} leases, but there are {live:?}")
            });
        }
        self.told.quiet(facts, &mut self.leases, findings);
        for lease in self.leases.owed(facts) {
            self.pacing.check_progress(facts, lease, findings);
        }
    }
}
