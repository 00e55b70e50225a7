//! Measuring a relay under load, with the real frames: a client that costs almost nothing, the
//! loads that `docs/performance.md` names, and the comparison with the minimal relay (`floor`).
//!
//! The programs are `load` and `floor`; `tests/bench` runs them in turn.

mod big;
mod client;
mod comparison;
mod connect;
mod crowd;
mod devices;
mod enrol;
mod error;
mod exchange;
mod fanout;
mod figures;
mod fleet;
mod frames;
mod frozen;
mod histogram;
mod idle;
mod large;
mod meter;
mod phase;
mod process;
mod report;
mod rpc;
mod settle;
mod timeline;
mod traffic;

pub use big::BigLoad;
pub use client::Endpoint;
pub use connect::ConnectLoad;
pub use devices::Credentials;
pub use enrol::enrol;
pub use error::LoadError;
pub use fanout::FanoutLoad;
pub use figures::{Aim, Figure, Measured};
pub use frozen::FrozenLoad;
pub use idle::IdleLoad;
pub use large::Large;
pub use process::{MachineTime, Process};
pub use report::{ReportError, report};
pub use rpc::RpcLoad;
