//! Who does what in the device relay: one folder an actor, typed messages between them, and pure
//! state in modules of its own.

#[cfg(test)]
mod an_instant;
mod api_keys;
pub mod credentials;
mod device_changes;
mod directory;
mod drain;
pub mod environment;
#[cfg(feature = "fault-hooks")]
mod fault_hooks;
mod live_limits;
mod mailbox;
pub mod metrics;
mod operators;
mod outcomes;
mod presence;
pub mod push;
mod push_tokens;
mod registry;
mod relay;
mod sessions;
pub mod socket;
mod store;
pub mod traces;

pub use directory::{DirectoryState, LiveDevice};
pub use drain::{DrainPhase, DrainSignal, DrainState, DrainWork};
#[cfg(feature = "fault-hooks")]
pub use fault_hooks::Duty;
pub use live_limits::LiveLimits;
pub use operators::{DeviceView, LeaseView, Overview, PushView, RouteView, Unanswered};
pub use outcomes::{DeviceOutcomes, LastClose, LastRefusal};
pub use registry::tally::PairTotals;
pub use registry::{HeldLease, PairCounts, PairState};
pub use relay::{ConnectionOrigin, Relay, RelayState, Telemetry};
pub use store::StoreState;
