//! What the tests above one crate, and the measurements, have in common.

pub mod blackbox;
pub mod load;
pub mod memory_store;
pub mod paused;
pub mod simulator;
pub mod store_suite;
