//! The figures that loads produce, and what the relay aims at.

use std::fmt;

/// What a number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Round trips per second, phone to desktop and back.
    RequestsPerSecond,
    /// Half of the round trips took at most this many µs.
    LatencyMedian,
    /// 99 of 100 round trips took at most this many µs.
    LatencyTail,
    /// The same of the pair of which it is largest.
    SlowestTail,
    /// The server's CPU time per round trip, in µs.
    CpuPerRoundTrip,
    /// Answers of 12 MiB per second to the phone that loads them beside the round trips.
    LargePerSecond,
    /// Snapshots per second that reached all phones.
    SnapshotsPerSecond,
    /// Half of the snapshots were with the last phone within this many µs.
    FanoutMedian,
    /// 99 of 100 snapshots were with the last phone within this many µs.
    FanoutTail,
    /// The server's CPU time per snapshot and phone, in µs.
    CpuPerDelivery,
    /// Half of the events were with a phone within this many µs.
    EventMedian,
    /// 99 of 100 events were with a phone within this many µs.
    EventTail,
    /// KiB of memory per registered socket that has carried nothing else.
    IdleMemory,
    /// KiB of memory per registered socket after one 64 KiB message in each direction.
    UsedMemory,
    /// KiB of memory per registered socket after that and one 64 KiB snapshot to each phone.
    TimelineMemory,
    /// Sockets connected, upgraded and registered per second.
    ConnectionsPerSecond,
    /// Half of the sockets were registered within this many µs.
    ConnectMedian,
    /// 99 of 100 sockets were registered within this many µs.
    ConnectTail,
    /// The server's CPU time per registration, in µs.
    CpuPerConnection,
    /// The whole process's peak while it passes one large request on, in sizes of the message.
    RequestPeak,
    /// The same for one large answer.
    ResponsePeak,
    /// The server's memory before the large messages, in sizes of the message.
    RestingMemory,
    /// CPUs that the server kept busy.
    ServerCores,
    /// CPUs that the load program kept busy.
    LoadCores,
    /// CPUs that anything else kept busy.
    OtherCores,
}

impl Figure {
    /// All figures, in the order of a report.
    pub const ALL: [Self; 25] = [
        Self::RequestsPerSecond,
        Self::LatencyMedian,
        Self::LatencyTail,
        Self::SlowestTail,
        Self::CpuPerRoundTrip,
        Self::LargePerSecond,
        Self::SnapshotsPerSecond,
        Self::FanoutMedian,
        Self::FanoutTail,
        Self::CpuPerDelivery,
        Self::EventMedian,
        Self::EventTail,
        Self::IdleMemory,
        Self::UsedMemory,
        Self::TimelineMemory,
        Self::ConnectionsPerSecond,
        Self::ConnectMedian,
        Self::ConnectTail,
        Self::CpuPerConnection,
        Self::RequestPeak,
        Self::ResponsePeak,
        Self::RestingMemory,
        Self::ServerCores,
        Self::LoadCores,
        Self::OtherCores,
    ];

    /// Its name in result files.
    pub fn key(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests_per_second",
            Self::LatencyMedian => "latency_p50_us",
            Self::LatencyTail => "latency_p99_us",
            Self::SlowestTail => "slowest_p99_us",
            Self::CpuPerRoundTrip => "cpu_us_per_round_trip",
            Self::LargePerSecond => "large_per_second",
            Self::SnapshotsPerSecond => "snapshots_per_second",
            Self::FanoutMedian => "fanout_p50_us",
            Self::FanoutTail => "fanout_p99_us",
            Self::CpuPerDelivery => "cpu_us_per_delivery",
            Self::EventMedian => "event_p50_us",
            Self::EventTail => "event_p99_us",
            Self::IdleMemory => "idle_kib_per_socket",
            Self::UsedMemory => "used_kib_per_socket",
            Self::TimelineMemory => "timeline_kib_per_socket",
            Self::ConnectionsPerSecond => "connections_per_second",
            Self::ConnectMedian => "connect_p50_us",
            Self::ConnectTail => "connect_p99_us",
            Self::CpuPerConnection => "cpu_us_per_connection",
            Self::RequestPeak => "request_peak_sizes",
            Self::ResponsePeak => "response_peak_sizes",
            Self::RestingMemory => "resting_sizes",
            Self::ServerCores => "server_cores",
            Self::LoadCores => "load_cores",
            Self::OtherCores => "other_cores",
        }
    }

    /// Its name in reports, with the unit.
    pub fn label(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests/s",
            Self::LatencyMedian => "round trip p50, µs",
            Self::LatencyTail => "round trip p99, µs",
            Self::SlowestTail => "round trip p99 of the slowest pair, µs",
            Self::CpuPerRoundTrip => "CPU per round trip, µs",
            Self::LargePerSecond => "answers/s of 12 MiB beside",
            Self::SnapshotsPerSecond => "snapshots/s, each to all phones",
            Self::FanoutMedian => "publish to the last phone p50, µs",
            Self::FanoutTail => "publish to the last phone p99, µs",
            Self::CpuPerDelivery => "CPU per delivered snapshot, µs",
            Self::EventMedian => "publish to receipt of an event p50, µs",
            Self::EventTail => "publish to receipt of an event p99, µs",
            Self::IdleMemory => "memory per idle registered socket, KiB",
            Self::UsedMemory => "memory per socket after 64 KiB each way, KiB",
            Self::TimelineMemory => {
                "memory per socket after a snapshot of 64 KiB to each phone, KiB"
            }
            Self::ConnectionsPerSecond => "registrations/s",
            Self::ConnectMedian => "connect and register p50, µs",
            Self::ConnectTail => "connect and register p99, µs",
            Self::CpuPerConnection => "CPU per registration, µs",
            Self::RequestPeak => "peak memory for one request, times its size",
            Self::ResponsePeak => "peak memory for one answer, times its size",
            Self::RestingMemory => "memory before, times that size",
            Self::ServerCores => "CPUs busy with the server",
            Self::LoadCores => "CPUs busy with the load",
            Self::OtherCores => "CPUs busy otherwise",
        }
    }

    /// The figure with this key.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.key() == key)
    }

    /// This figure with a value.
    pub(super) fn of(self, value: f64) -> Measured {
        Measured {
            figure: self,
            value,
        }
    }

    /// What the relay aims at under the load of this name, if at anything.
    pub fn aim(self, load: &str) -> Option<Aim> {
        Some(match (self, load) {
            (Self::RequestsPerSecond, load) if load.starts_with("rpc-") => Aim::RatioAtLeast(1.0),
            (Self::ConnectionsPerSecond, "connect") => Aim::RatioAtLeast(0.7),
            (Self::CpuPerRoundTrip, "rpc-256") => Aim::RatioAtMost(1.0),
            (Self::CpuPerRoundTrip, "rpc-16384") => Aim::RatioAtMost(0.75),
            (Self::IdleMemory, _) => Aim::AtMost(4.0),
            (Self::UsedMemory | Self::TimelineMemory, _) => Aim::AtMost(6.0),
            (Self::RequestPeak | Self::ResponsePeak, _) => Aim::AtMost(2.5),
            _ => return None,
        })
    }
}

/// What a figure should be. Ratios are the relay's value over the minimal relay's in the same run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// The relay's own value, at most.
    AtMost(f64),
    /// The ratio, at most.
    RatioAtMost(f64),
    /// The ratio, at least.
    RatioAtLeast(f64),
}

impl Aim {
    /// Whether the relay's value and its ratio meet the aim; without a ratio, an aim for one is not
    /// met.
    pub fn is_met(self, value: f64, ratio: Option<f64>) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::RatioAtMost(limit) => ratio.is_some_and(|ratio| ratio <= limit),
            Self::RatioAtLeast(limit) => ratio.is_some_and(|ratio| ratio >= limit),
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "≤ {limit}"),
            Self::RatioAtMost(limit) => write!(f, "ratio ≤ {limit:.2}"),
            Self::RatioAtLeast(limit) => write!(f, "ratio ≥ {limit:.2}"),
        }
    }
}

/// A figure and its value in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// What.
    pub figure: Figure,
    /// How much, in the figure's unit.
    pub value: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{:.4}", self.figure.key(), self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_one_figure_each() {
        for figure in Figure::ALL {
            assert_eq!(Figure::from_key(figure.key()), Some(figure));
        }
    }

    #[test]
    fn aims_are_met_at_their_limit_and_not_beyond() {
        let Some(aim) = Figure::CpuPerRoundTrip.aim("rpc-16384") else {
            panic!("no aim")
        };
        assert!(aim.is_met(100.0, Some(0.75)) && !aim.is_met(1.0, Some(0.76)));
        assert!(!aim.is_met(1.0, None));
        assert!(Aim::RatioAtLeast(1.0).is_met(5.0, Some(1.0)));
        assert!(!Aim::RatioAtLeast(1.0).is_met(5.0, Some(0.99)));
        assert!(Aim::AtMost(4.0).is_met(4.0, None) && !Aim::AtMost(4.0).is_met(4.1, Some(0.1)));
    }
}
