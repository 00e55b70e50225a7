//! The page of figures as Prometheus reads it (OP-6).

use std::collections::BTreeMap;

use super::process::Relay;

/// The figures of a relay at a moment.
#[derive(Debug, Clone)]
pub struct Figures {
    /// The page as it came.
    pub text: String,
    series: BTreeMap<String, f64>,
}

impl Figures {
    fn read(text: String) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.filter_map(|line| line.rsplit_once(' '));
        let series = series.map(|(name, value)| {
            let value = value
                .parse()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            (name.to_owned(), value)
        });
        Self {
            series: series.collect(),
            text,
        }
    }

    /// A series by its name with its labels, as it stands on the page; one that is not there stands at
    /// nothing.
    pub fn of(&self, series: &str) -> f64 {
        self.series.get(series).copied().unwrap_or_default()
    }

    /// How far a series has moved since `before`.
    pub fn since(&self, before: &Self, series: &str) -> f64 {
        self.of(series) - before.of(series)
    }
}

impl Relay {
    /// The figures as they stand.
    ///
    /// # Panics
    /// When there is no page.
    pub async fn figures(&self) -> Figures {
        let url = self.url(self.address(), "/metrics");
        let asked = self.client.get(url).timeout(super::DEADLINE).send().await;
        let answer = asked.unwrap_or_else(|error| panic!("{error}{}", self.evidence().tail()));
        assert_eq!(answer.status(), 200);
        let kind = answer.headers()["content-type"].to_str().expect("ASCII");
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        Figures::read(answer.text().await.expect("the page arrives"))
    }

    /// Waits until a series stands at `value`: some figures follow their cause by a moment.
    pub async fn figure_becomes(&self, series: &str, value: f64) {
        let is_there = async || (self.figures().await.of(series) - value).abs() < f64::EPSILON;
        self.eventually(&format!("{series} {value}"), is_there)
            .await;
    }
}
