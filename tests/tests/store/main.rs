//! The store's suite over each store, and the stores against each other on random stories.

mod history_row;
mod memory;
mod postgres;
mod sqlite;
mod stories;
