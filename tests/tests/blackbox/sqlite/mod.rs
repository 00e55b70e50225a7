//! What only a database in a file can do to the relay.

mod busy;
mod locked;
mod start;
