//! What the relay holds for a connection and for all of them stays within its budgets (TR-10, TL-8,
//! TL-11).

use relay_actors::RelayState;
use relay_actors::socket::SocketState;
use relay_actors::socket::lanes::LaneLoad;

use super::facts::Facts;
use super::{Findings, Invariant};
use crate::simulator::cast::DeviceNo;

/// The largest snapshot of a run, with what stands around it.
const LARGEST_SNAPSHOT: u64 = 720_000;

pub(super) fn socket(
    facts: &Facts<'_>,
    device: DeviceNo,
    state: &SocketState,
    findings: &mut Findings,
) {
    let limits = facts.limits;
    // One that alone exceeds the bytes may wait alone.
    let within = |load: LaneLoad, messages: usize, bytes: usize| {
        load.messages <= messages as u64 && (load.messages <= 1 || load.bytes <= bytes as u64)
    };
    let snapshots = state.snapshots;
    // One more waits in the slot for oversized ones, and one is being written.
    let snapshot_bytes = limits.timeline_buffer_bytes as u64 + 2 * LARGEST_SNAPSHOT;
    let right = within(state.control, limits.control_lane_messages, usize::MAX)
        && within(state.rpc, limits.rpc_lane_messages, limits.rpc_lane_bytes)
        && within(
            state.event,
            limits.event_lane_messages,
            limits.event_lane_bytes,
        )
        && within(state.inbound, limits.inbound_messages, limits.inbound_bytes)
        && snapshots.messages <= limits.timeline_buffer_keys as u64 + 1
        && snapshots.bytes <= snapshot_bytes
        && state.unfinished <= limits.max_message;
    findings.check(right, Invariant::Bounded, || {
        format!("the connection of {device} holds too much: {state:?}")
    });
}

pub(super) fn relay(facts: &Facts<'_>, state: &RelayState, findings: &mut Findings) {
    let limits = facts.limits;
    let right = state.outbound_bytes <= limits.outbound_total as u64
        && state.unfinished_bytes <= (limits.inbound_total + limits.max_message) as u64;
    findings.check(right, Invariant::Bounded, || {
        format!("the relay holds too much: {state:?}")
    });
}
