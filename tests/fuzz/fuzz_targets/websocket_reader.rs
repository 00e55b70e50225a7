//! Whatever a peer sends, the reader keeps its contract.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../reader_contract.rs"]
mod reader_contract;

fuzz_target!(|data: &[u8]| reader_contract::check(data));
