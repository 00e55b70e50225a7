//! What only a database in a file can do to the relay.

mod busy;
mod full;
mod locked;
mod read_only;
mod start;
