//! How much of a test is run: enough to fail when something breaks, or enough to trust a release.

use std::env;

/// The variable that asks for the long form of the tests that have one; `tests/run --long` sets it.
const LONG: &str = "RELAY_TEST_LONG";

/// Whether this run of the tests is a long one.
pub fn is_long() -> bool {
    env::var(LONG).is_ok_and(|value| !value.is_empty() && value != "0")
}

/// What a test takes in its short form, or in its long one.
pub fn by_length<T>(short: T, long: T) -> T {
    if is_long() { long } else { short }
}
