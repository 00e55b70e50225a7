//! Measuring a relay under load, with the real frames: a client that costs almost nothing, the
//! loads that `docs/performance.md` names, and the comparison with the minimal relay (`floor`).
//!
//! The programs are `load` and `floor`; `tests/bench` runs them in turn.

mod big;
mod client;
mod connect;
mod devices;
mod enrol;
mod error;
mod exchange;
mod figures;
mod fleet;
mod frames;
mod histogram;
mod idle;
mod meter;
mod process;
mod report;
mod rpc;
mod settle;
mod traffic;

pub use big::BigLoad;
pub use client::Endpoint;
pub use connect::ConnectLoad;
pub use devices::Credentials;
pub use enrol::enrol;
pub use error::LoadError;
pub use figures::{Aim, Figure, Measured};
pub use idle::IdleLoad;
pub use process::{MachineTime, Process};
pub use report::{ReportError, report};
pub use rpc::RpcLoad;
