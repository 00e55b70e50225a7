//! From the results of many runs to the tables of `docs/performance.md`: medians over the runs, and
//! per figure the median of the ratios of neighbouring runs, which a slow drift of the machine does
//! not disturb. Loads that differ in one thing are compared in the same way.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::comparison::Comparison;
use super::figures::{Aim, Figure};

/// The contender that the report is about.
const RELAY: &str = "relay";
/// The contender that ratios refer to.
const FLOOR: &str = "floor";

/// Why there is no report.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// A line is not of the form `load contender run figure value`, with tabs between.
    #[error("line {0} of the results is no result; start with an empty file")]
    BadLine(usize),
    /// There is nothing to report.
    #[error("the results hold no run of the relay")]
    Empty,
}

/// Values by run number.
type Runs = BTreeMap<usize, f64>;

/// Runs of one load, by figure and contender.
type Values<'a> = BTreeMap<(Figure, &'a str), Runs>;

/// Writes one Markdown table per load, and one per comparison of two loads, from lines of `load`, contender (`relay` or `floor`), run
/// number, figure and value, with tabs between.
///
/// # Errors
/// When a line is no result, or none is the relay's.
pub fn report(results: &str) -> Result<String, ReportError> {
    let mut loads: BTreeMap<&str, Values<'_>> = BTreeMap::new();
    for (index, line) in results.lines().enumerate() {
        let (load, contender, run, figure, value) =
            parse(line).ok_or(ReportError::BadLine(index + 1))?;
        loads
            .entry(load)
            .or_default()
            .entry((figure, contender))
            .or_default()
            .insert(run, value);
    }
    let mut text = String::new();
    for (load, values) in &loads {
        let figures = Figure::ALL.map(|figure| (figure, figure.aim(load)));
        append_table(&mut text, load, values, &figures);
    }
    for comparison in Comparison::ALL {
        let (Some(load), Some(reference)) =
            (loads.get(comparison.load), loads.get(comparison.reference))
        else {
            continue;
        };
        let title = format!("{} over {}", comparison.load, comparison.reference);
        let values = quotients(load, reference);
        append_table(&mut text, &title, &values, comparison.figures);
    }
    if text.is_empty() {
        return Err(ReportError::Empty);
    }
    Ok(text)
}

/// Appends a table with a row for each of these figures that the relay has values of.
fn append_table(
    text: &mut String,
    title: &str,
    values: &Values<'_>,
    figures: &[(Figure, Option<Aim>)],
) {
    let nothing = Runs::new();
    let mut rows = String::new();
    let mut counted = 0;
    for &(figure, aim) in figures {
        let Some(relay) = values.get(&(figure, RELAY)) else {
            continue;
        };
        let floor = values.get(&(figure, FLOOR)).unwrap_or(&nothing);
        counted = counted.max(relay.len());
        // Writing to a string cannot fail.
        let _ = writeln!(rows, "{}", row(figure, aim, relay, floor));
    }
    if counted == 0 {
        return;
    }
    let _ = write!(
        text,
        "### {title}, {counted} runs of each\n\n\
         | figure | relay | minimal relay | ratio | aim | |\n|---|---|---|---|---|---|\n{rows}\n"
    );
}

/// Every value of a load over the one of the reference in the same run of the same contender.
fn quotients<'a>(load: &Values<'a>, reference: &Values<'_>) -> Values<'a> {
    load.iter()
        .filter_map(|(key, runs)| {
            let reference = reference.get(key)?;
            let quotients = runs
                .iter()
                .filter_map(|(run, value)| Some((*run, value / reference.get(run)?)))
                .filter(|(_, quotient)| quotient.is_finite());
            Some((*key, quotients.collect::<Runs>()))
        })
        .collect()
}

fn parse(line: &str) -> Option<(&str, &str, usize, Figure, f64)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [load, contender @ (RELAY | FLOOR), run, figure, value] = fields[..] else {
        return None;
    };
    let value: f64 = value.parse().ok()?;
    Some((
        load,
        contender,
        run.parse().ok()?,
        Figure::from_key(figure)?,
        value.is_finite().then_some(value)?,
    ))
}

fn row(figure: Figure, aim: Option<Aim>, relay: &Runs, floor: &Runs) -> String {
    let ratios = relay
        .iter()
        .filter_map(|(run, value)| Some(value / floor.get(run)?))
        .filter(|ratio| ratio.is_finite());
    let ratio = median(ratios);
    let own = median(relay.values().copied());
    let verdict = match (aim, own) {
        (Some(aim), Some(own)) if aim.is_met(own, ratio) => "met",
        (Some(_), _) => "**missed**",
        (None, _) => "",
    };
    format!(
        "| {} | {} | {} | {} | {} | {verdict} |",
        figure.label(),
        spread(relay),
        spread(floor),
        match ratio {
            Some(ratio) if compares(figure) => format!("{ratio:.2}"),
            _ => "–".to_owned(),
        },
        aim.as_ref().map(Aim::to_string).unwrap_or_default(),
    )
}

/// How busy the machine was says nothing about one contender in terms of the other.
fn compares(figure: Figure) -> bool {
    !matches!(
        figure,
        Figure::ServerCores | Figure::LoadCores | Figure::OtherCores
    )
}

/// The median, with the smallest and the largest value behind it.
fn spread(runs: &Runs) -> String {
    let smallest = runs.values().copied().reduce(f64::min);
    let largest = runs.values().copied().reduce(f64::max);
    match (median(runs.values().copied()), smallest, largest) {
        (Some(median), Some(smallest), Some(largest)) => format!(
            "{} ({} to {})",
            rounded(median),
            rounded(smallest),
            rounded(largest)
        ),
        _ => "–".to_owned(),
    }
}

/// Three digits that mean something.
fn rounded(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = *values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(rows: &[(&str, usize, &str, f64)]) -> String {
        rows.iter()
            .map(|(contender, run, figure, value)| {
                format!("rpc-256\t{contender}\t{run}\t{figure}\t{value}\n")
            })
            .collect()
    }

    #[test]
    fn ratios_are_taken_run_by_run() {
        // Every second run is slow for both; each pair of runs has the same ratio.
        let table = report(&results(&[
            ("floor", 1, "requests_per_second", 100.0),
            ("relay", 1, "requests_per_second", 90.0),
            ("floor", 2, "requests_per_second", 10.0),
            ("relay", 2, "requests_per_second", 9.0),
            ("relay", 3, "requests_per_second", 90.0),
            ("floor", 3, "requests_per_second", 100.0),
        ]))
        .unwrap();
        let row = table
            .lines()
            .find(|line| line.contains("requests/s"))
            .unwrap();
        assert_eq!(
            row,
            "| requests/s | 90.0 (9.00 to 90.0) | 100 (10.0 to 100) | 0.90 | ratio ≥ 1.00 | **missed** |"
        );
    }

    #[test]
    fn aims_are_judged_by_the_median() {
        let table = report(&results(&[
            ("floor", 1, "cpu_us_per_round_trip", 20.0),
            ("relay", 1, "cpu_us_per_round_trip", 19.0),
            ("floor", 2, "cpu_us_per_round_trip", 20.0),
            ("relay", 2, "cpu_us_per_round_trip", 20.6),
            ("relay", 1, "other_cores", 0.1),
        ]))
        .unwrap();
        assert!(table.contains("| 0.99 | ratio ≤ 1.00 | met |"), "{table}");
        assert!(table.contains("| CPUs busy otherwise | 0.10 (0.10 to 0.10) | – | – |  |  |"));
        assert!(table.starts_with("### rpc-256, 2 runs of each"));
    }

    /// A disturbance that lasts for a round meets both loads and leaves their quotient alone.
    #[test]
    fn loads_are_compared_within_a_round() {
        let mut results = String::new();
        for (run, speed) in [(1, 1.0), (2, 10.0), (3, 2.0)] {
            for (load, value) in [("frozen-none", 50.0), ("frozen-one", 54.0)] {
                let value = value * speed;
                results.push_str(&format!("{load}\trelay\t{run}\tevent_p99_us\t{value}\n"));
            }
        }
        let table = report(&results).unwrap();
        let expected = "### frozen-one over frozen-none, 3 runs of each\n\n\
            | figure | relay | minimal relay | ratio | aim | |\n|---|---|---|---|---|---|\n\
            | publish to receipt of an event p99, µs | 1.08 (1.08 to 1.08) | – | – | ≤ 1.1 | met |\n";
        assert!(table.contains(expected), "{table}");
    }

    #[test]
    fn nonsense_is_named_by_its_line() {
        let good = results(&[("relay", 1, "other_cores", 0.1)]);
        for bad in [
            "rpc-256\trelay\t1\tother_cores\tNaN",
            "x",
            "a\tnats\t1\tother_cores\t1",
        ] {
            let refused = report(&format!("{good}{bad}\n"));
            assert_eq!(refused, Err(ReportError::BadLine(2)), "{bad}");
        }
        assert_eq!(report(""), Err(ReportError::Empty));
        let floor_only = results(&[("floor", 1, "other_cores", 0.1)]);
        assert_eq!(report(&floor_only), Err(ReportError::Empty));
    }
}
