//! Runs seeds of the simulator, and replays one: see `relay_tests::simulator`.

use std::ops::Range;
use std::process::ExitCode;

use clap::Parser;
use relay_tests::simulator::{self, STEPS, trace};

/// Simulate a relay with its devices and judge what happened.
#[derive(Parser)]
#[command(after_help = "Example: simulate --seeds 0..500\nReplay:  simulate --seed 42 --trace")]
struct Cli {
    /// One seed; a failure prints its trace up to the first violation
    #[arg(long, required_unless_present = "seeds", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Seeds A to B, B not included
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    seeds: Option<Range<u64>>,
    /// How many things happen of themselves in a run
    #[arg(long, default_value_t = STEPS)]
    steps: usize,
    /// Threads on which seeds are run
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Print the whole trace of --seed, whatever came of it
    #[arg(long, requires = "seed")]
    trace: bool,
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let parse = |number: &str| number.parse().ok();
    text.split_once("..")
        .and_then(|(from, to)| Some(parse(from)?..parse(to)?))
        .filter(|range| !range.is_empty())
        .ok_or_else(|| "two numbers, the second one larger: 0..500".to_owned())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match (cli.seed, cli.seeds) {
        (Some(seed), _) => replay(seed, cli.steps, cli.trace),
        (None, Some(seeds)) => run_all(seeds, cli.steps, cli.threads),
        (None, None) => unreachable!("one of them is required"),
    }
}

fn replay(seed: u64, steps: usize, whole: bool) -> ExitCode {
    let run = simulator::run(seed, steps);
    let violations = run.violations();
    if whole {
        print!("{}", run.cast);
        run.trace.iter().for_each(|entry| println!("{entry}"));
        violations
            .iter()
            .for_each(|violation| println!("VIOLATION {violation}"));
    } else if !violations.is_empty() {
        print!("{}", run.report());
    }
    println!(
        "seed {seed}: {} entries, digest {:016x}, {} violations",
        run.trace.len(),
        trace::digest(&run.trace),
        violations.len()
    );
    exit_code(violations.is_empty())
}

fn run_all(seeds: Range<u64>, steps: usize, threads: usize) -> ExitCode {
    let failures = simulator::run_all(seeds.clone(), steps, threads);
    for failure in &failures {
        let simulator::Failure {
            seed,
            violation,
            count,
        } = failure;
        println!("seed {seed}: {count} violations, first {violation}");
    }
    let all = seeds.end - seeds.start;
    println!("{all} seeds, {} failed", failures.len());
    exit_code(failures.is_empty())
}

fn exit_code(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
