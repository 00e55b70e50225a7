//! Replays the seeds of the fuzz target, so that what was once found stays found without a fuzzer.

#[path = "../../tests/fuzz/reader_contract.rs"]
mod reader_contract;

/// TR-3, TR-4: the reader keeps its contract for every seed.
#[test]
fn the_reader_keeps_its_contract_for_every_seed() {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../tests/fuzz/corpus/websocket_reader"
    );
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        reader_contract::check(&std::fs::read(&path).unwrap());
        seeds += 1;
    }
    assert!(seeds >= 30, "the corpus is there: {seeds} seeds");
}
