//! Keeps `docs/` true: tables that come from the code are generated, what tests cite is defined, and
//! what a reader copies or follows works. `UPDATE_DOCS=1` rewrites the tables instead of comparing
//! them.

mod code_tables;
mod examples;
mod links;
mod metric_table;
mod pages;
mod rules;
mod why_offline_tables;
