//! Whose connections are counted together, and what is remembered of each: bounded, whoever connects
//! from however many addresses.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use relay_model::limits::CONNECT_SOURCES;

/// Addresses that count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// One address.
    Ipv4(Ipv4Addr),
    /// The upper half of an IPv6 address: the smallest network that anybody gets, in which devices
    /// choose their addresses themselves and change them at will.
    Ipv6(u64),
}

impl Source {
    /// What `address` counts as. An IPv4 address that IPv6 carries is that IPv4 address: all of those
    /// lie in one /64.
    pub(super) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::Ipv4(address),
            IpAddr::V6(address) => Self::Ipv6((address.to_bits() >> 64) as u64),
        }
    }
}

/// What is remembered: for each source the time at which it will be as good as new.
///
/// A source is remembered only as long as its connections take to be forgiven, so what an attacker
/// with very many addresses can fill is the number of connections that the relay accepts in that
/// time. Above [`CONNECT_SOURCES`] nobody is added: who is known stays limited, and who is not comes
/// in, as somebody who is new would. To turn them away instead would let that attacker shut the door
/// for everybody else.
#[derive(Debug, Default)]
pub(super) struct Sources(Mutex<HashMap<Source, Nanos>>);

impl Sources {
    fn map(&self) -> MutexGuard<'_, HashMap<Source, Nanos>> {
        // An entry is never half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateStore for Sources {
    type Key = Source;

    fn measure_and_replace<T, F, E>(&self, source: &Source, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let mut map = self.map();
        let (outcome, state) = f(map.get(source).copied())?;
        if map.len() < CONNECT_SOURCES || map.contains_key(source) {
            map.insert(*source, state);
        }
        Ok(outcome)
    }
}

impl ShrinkableKeyedStateStore<Source> for Sources {
    fn retain_recent(&self, drop_below: Nanos) {
        self.map().retain(|_, state| *state > drop_below);
    }

    fn len(&self) -> usize {
        self.map().len()
    }

    fn is_empty(&self) -> bool {
        self.map().is_empty()
    }
}
