//! Who does what in the device relay: one folder an actor, typed messages between them, and pure
//! state in modules of its own.

mod api_keys;
pub mod credentials;
mod device_changes;
mod directory;
pub mod environment;
#[cfg(feature = "fault-hooks")]
mod fault_hooks;
mod mailbox;
mod presence;
pub mod push;
mod push_tokens;
mod registry;
mod relay;
mod sessions;
pub mod socket;
mod store;

pub use directory::{DirectoryState, LiveDevice};
#[cfg(feature = "fault-hooks")]
pub use fault_hooks::Duty;
pub use registry::{PairCounts, PairState};
pub use relay::{ConnectionOrigin, Relay, RelayState};
pub use store::StoreState;
