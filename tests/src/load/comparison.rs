//! Loads that differ in one thing, to see what that does to a figure.

use super::figures::{Aim, Figure};

/// Figures of one load over the same figures of another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison {
    /// The load with the thing.
    pub(super) load: &'static str,
    /// The load without it.
    pub(super) reference: &'static str,
    /// Which, and what their quotients should be.
    pub(super) figures: &'static [(Figure, Option<Aim>)],
}

impl Comparison {
    /// All of them, in the order of a report.
    pub(super) const ALL: [Self; 3] = [
        Self {
            load: "beside-own",
            reference: "beside-none",
            figures: &[(Figure::LatencyTail, None), (Figure::SlowestTail, None)],
        },
        Self {
            load: "beside-shared",
            reference: "beside-none",
            figures: &[(Figure::LatencyTail, None), (Figure::SlowestTail, None)],
        },
        Self {
            load: "frozen-one",
            reference: "frozen-none",
            figures: &[(Figure::EventTail, Some(Aim::AtMost(1.1)))],
        },
    ];
}
