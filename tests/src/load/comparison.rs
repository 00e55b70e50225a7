//! Loads that differ in one thing, to see what that does to a figure.

use super::figures::{Aim, Figure};

/// A figure under one load over the same figure under another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison {
    /// The load with the thing.
    pub(super) load: &'static str,
    /// The load without it.
    pub(super) reference: &'static str,
    pub(super) figure: Figure,
    /// What the quotient should be.
    pub(super) aim: Option<Aim>,
}

impl Comparison {
    /// All of them, in the order of a report.
    pub(super) const ALL: [Self; 3] = [
        Self {
            load: "beside-own",
            reference: "beside-none",
            figure: Figure::LatencyTail,
            aim: None,
        },
        Self {
            load: "beside-shared",
            reference: "beside-none",
            figure: Figure::LatencyTail,
            aim: None,
        },
        Self {
            load: "frozen-one",
            reference: "frozen-none",
            figure: Figure::EventTail,
            aim: Some(Aim::AtMost(1.1)),
        },
    ];
}
