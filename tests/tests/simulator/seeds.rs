//! Runs of the simulator.

use relay_tests::simulator::{self, Failure, STEPS, trace};

/// As many as fit into a minute and a half of CPU time, unoptimised.
const SEEDS: u64 = 500;

/// The invariants of the architecture hold through every run: REG-4, REG-6, REG-10, REG-11, RPC-1 to
/// RPC-8, PR-1 to PR-7, EV-1, TR-5, TR-10, SES-1, TL-1 to TL-8, TL-10 to TL-14.
#[test]
fn invariants_hold_in_every_run() {
    let failures = simulator::run_all(0..SEEDS, STEPS, 2);
    for Failure {
        seed,
        violation,
        count,
    } in &failures
    {
        eprintln!("seed {seed}: {count} violations, first {violation}");
    }
    if let Some(first) = failures.first() {
        let report = simulator::run(first.seed, STEPS).report();
        let lines: Vec<_> = report.lines().collect();
        let tail = lines.len().saturating_sub(200);
        panic!(
            "{} of {SEEDS} seeds failed; the end of the first one, which `cargo run -p relay-tests \
             --bin simulate -- --seed {}` replays:\n{}",
            failures.len(),
            first.seed,
            lines[tail..].join("\n")
        );
    }
}

/// One seed, one trace, to the byte; also beside another run and on another thread.
#[test]
fn a_seed_determines_its_trace() {
    let digest = |seed| trace::digest(&simulator::run(seed, STEPS).trace);
    for seed in [1, 2, 3] {
        let elsewhere =
            std::thread::spawn(move || trace::digest(&simulator::run(seed, STEPS).trace));
        let here = digest(seed);
        assert_eq!(here, elsewhere.join().expect("no panic"), "seed {seed}");
        assert_ne!(here, digest(seed + 100), "seed {seed}");
    }
}

/// A reset loses what is on its way: in these runs a snapshot and an interest that nobody is to hear of.
#[test]
fn what_a_reset_loses_is_not_asked_for() {
    for seed in [700_202, 702_978] {
        assert_eq!(simulator::run(seed, STEPS).violations(), [], "seed {seed}");
    }
}
