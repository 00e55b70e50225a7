//! The table of `docs/operations/metrics.md`, from the enum of the metrics (OP-6).

use std::fmt::Write as _;

use relay_actors::metrics::Metric;

use crate::pages;

#[test]
fn every_metric_is_described() {
    pages::keep_current("operations/metrics.md", &[("metrics", metrics())]);
}

fn metrics() -> String {
    let mut table = "| metric | kind | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in Metric::ALL {
        let labels: Vec<_> = metric
            .labels()
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let (name, kind) = (metric.name(), metric.kind().name());
        let _ = writeln!(
            table,
            "| `{name}` | {kind} | {} | {} |",
            labels.join(", "),
            metric.meaning()
        );
    }
    table
}
