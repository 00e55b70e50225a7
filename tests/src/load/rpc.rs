//! The closed-loop load: every phone keeps a fixed number of requests open and sends the next one
//! when an answer arrives, so the server is as busy as it can be and never swamped.

use std::convert::Infallible;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::client::{Client, Endpoint};
use super::devices::Pair;
use super::error::LoadError;
use super::figures::{Figure, Measured};
use super::fleet::{self, Linked, failure, outcome};
use super::histogram::Histogram;
use super::large::{Large, Loader};
use super::meter::Meter;
use super::phase::Phase;
use super::process::Process;
use super::traffic::{Inspector, RequestId, Template};

/// How long a phone may wait for its last answers once the load has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// Sockets opened at a time.
const OPENED_AT_ONCE: usize = 16;

/// Round trips of phones and desktops.
#[derive(Debug, Clone, Copy)]
pub struct RpcLoad {
    /// Desktops, each with one phone.
    pub pairs: usize,
    /// Bytes of every request and every answer, envelope included.
    pub size: usize,
    /// Requests that each phone keeps open.
    pub in_flight: usize,
    /// Load before the measurement begins.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub measured: Duration,
    /// Who loads large answers beside it, if that is the question.
    pub beside: Option<Large>,
}

impl RpcLoad {
    /// Runs the load against a server.
    ///
    /// # Errors
    /// When a connection breaks, an answer is lost, altered or foreign, or a phone gets none.
    pub async fn run(
        self,
        endpoint: &Endpoint,
        server: Process,
    ) -> Result<Vec<Measured>, LoadError> {
        let (fleet, _) = fleet::open(endpoint, (0..self.pairs).map(Pair), OPENED_AT_ONCE).await?;
        let phase = Phase::warm_up();
        let mut desktops = JoinSet::new();
        let mut phones = JoinSet::new();
        let mut shared = None;
        for Linked {
            pair,
            desktop,
            phone,
        } in fleet
        {
            if self.beside == Some(Large::Shared) && pair == Pair(0) {
                shared = Some(desktop);
            } else {
                desktops.spawn(Desktop::new(desktop, pair, self.size).serve());
            }
            phones.spawn(ask_measured(phone, pair, self, phase.clone()));
        }
        let pair = match self.beside {
            None | Some(Large::None) => None,
            Some(Large::Own) => Some(Pair(self.pairs)),
            Some(Large::Shared) => Some(Pair(0)),
        };
        let mut loader = match pair {
            Some(pair) => {
                Some(Loader::start(endpoint, pair, shared, self.size, phase.clone()).await?)
            }
            None => None,
        };
        let loader_fails = async {
            match &mut loader {
                Some(loader) => loader.failure().await,
                None => std::future::pending().await,
            }
        };
        let measurement = async {
            sleep(self.warm_up).await;
            let meter = Meter::start(server)?;
            phase.set(Phase::MEASURED);
            sleep(self.measured).await;
            phase.set(Phase::OVER);
            meter.stop()
        };
        // A desktop never ends by itself, and a phone not before the end: whichever does has failed.
        let stretch = tokio::select! {
            biased;
            Some(failed) = desktops.join_next() => return Err(failure(failed)),
            Some(failed) = phones.join_next() => return Err(failure(failed)),
            failed = loader_fails => return Err(failed),
            stretch = measurement => stretch?,
        };
        let mut durations = Histogram::default();
        let mut slowest = 0.0_f64;
        let collected = async {
            while let Some(finished) = phones.join_next().await {
                let of_pair = outcome(finished)?;
                durations.add(&of_pair);
                slowest = slowest.max(of_pair.quantile(0.99));
            }
            match loader {
                Some(loader) => loader.end().await.map(Some),
                None => Ok(None),
            }
        };
        let large = timeout(LAST_ANSWERS, collected)
            .await
            .unwrap_or(Err(LoadError::TimedOut {
                what: "the last answer to a phone",
                limit: LAST_ANSWERS,
            }))?;
        let round_trips = durations.count() as f64;
        let mut figures = vec![
            Figure::RequestsPerSecond.of(round_trips / stretch.seconds),
            Figure::LatencyMedian.of(durations.quantile(0.5)),
            Figure::LatencyTail.of(durations.quantile(0.99)),
            Figure::CpuPerRoundTrip.of(stretch.server * 1e6 / round_trips),
        ];
        if self.beside.is_some() {
            figures.push(Figure::SlowestTail.of(slowest));
        }
        figures.extend(
            large.map(|large| Figure::LargePerSecond.of(large.count() as f64 / stretch.seconds)),
        );
        figures.extend(stretch.surroundings());
        Ok(figures)
    }
}

/// A desktop: answers every request, all requests of one read in one write.
pub(super) struct Desktop {
    client: Client,
    requests: Inspector,
    answer: Template,
    /// What the phone of this number gets instead.
    large: Option<(usize, Template)>,
}

impl Desktop {
    pub(super) fn new(client: Client, pair: Pair, size: usize) -> Self {
        Self {
            client,
            requests: Inspector::of_requests(&Template::request(size)),
            answer: Template::response(size, pair.phone().id()),
            large: None,
        }
    }

    /// Lets requests of the phone with this number have another answer.
    pub(super) fn with_large(self, phone: usize, answer: Template) -> Self {
        Self {
            large: Some((phone, answer)),
            ..self
        }
    }

    pub(super) async fn serve(mut self) -> Result<Infallible, LoadError> {
        let mut out = Vec::new();
        loop {
            out.clear();
            self.client
                .read(|message| {
                    if let Some(id) = self.requests.inspect(message)? {
                        match &self.large {
                            Some((phone, large)) if id.phone() == Some(*phone) => {
                                large.append(&mut out, id);
                            }
                            _ => self.answer.append(&mut out, id),
                        }
                    }
                    Ok(())
                })
                .await?;
            if !out.is_empty() {
                self.client.send(&out).await?;
            }
        }
    }
}

/// A phone of a pair, which must get an answer in the measured time.
async fn ask_measured(
    phone: Client,
    pair: Pair,
    load: RpcLoad,
    phase: Phase,
) -> Result<Histogram, LoadError> {
    let request = Template::request(load.size);
    let answers = Inspector::of_responses(&Template::response(load.size, pair.phone().id()));
    let slots = Slots::new(pair.0, load.in_flight);
    let durations = ask(phone, request, answers, slots, phase).await?;
    if durations.count() == 0 {
        return Err(LoadError::Starved(pair.0));
    }
    Ok(durations)
}

/// A phone: fills its slots, and a slot again as soon as its answer is there, until the run is over
/// and the answers that it then waits for have come.
pub(super) async fn ask(
    mut phone: Client,
    request: Template,
    mut answers: Inspector,
    mut slots: Slots,
    phase: Phase,
) -> Result<Histogram, LoadError> {
    let mut durations = Histogram::default();
    let mut out = Vec::new();
    loop {
        if !phase.is(Phase::OVER) {
            out.clear();
            slots.fill(|id| request.append(&mut out, id));
            if !out.is_empty() {
                phone.send(&out).await?;
            }
        }
        if slots.are_free() {
            return Ok(durations);
        }
        phone
            .read(|message| {
                if let Some(id) = answers.inspect(message)? {
                    let duration = slots.free(id)?;
                    if phase.is(Phase::MEASURED) {
                        durations.record(duration);
                    }
                }
                Ok(())
            })
            .await?;
    }
}

/// The open requests of one phone.
pub(super) struct Slots {
    phone: usize,
    sent: u64,
    open: Vec<Option<(RequestId, Instant)>>,
    free: Vec<usize>,
}

impl Slots {
    pub(super) fn new(phone: usize, count: usize) -> Self {
        Self {
            phone,
            sent: 0,
            open: vec![None; count],
            free: (0..count).collect(),
        }
    }

    fn are_free(&self) -> bool {
        self.free.len() == self.open.len()
    }

    /// Opens a request in every free slot and calls `send` with its id.
    fn fill(&mut self, mut send: impl FnMut(RequestId)) {
        for slot in self.free.drain(..) {
            self.sent += 1;
            let id = RequestId::new(self.phone, slot, self.sent);
            send(id);
            self.open[slot] = Some((id, Instant::now()));
        }
    }

    /// Ends the request with this id; tells how long it was open.
    fn free(&mut self, id: RequestId) -> Result<Duration, LoadError> {
        let unknown = || LoadError::UnknownId(id.to_string());
        let slot = id.slot().ok_or_else(unknown)?;
        let open = self.open.get_mut(slot).ok_or_else(unknown)?;
        match *open {
            Some((expected, since)) if expected == id => {
                *open = None;
                self.free.push(slot);
                Ok(since.elapsed())
            }
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RPC-2: an answer counts once, and only for the phone and the request that it belongs to.
    #[test]
    fn every_answer_must_have_its_request() {
        let mut slots = Slots::new(5, 2);
        let mut sent = Vec::new();
        slots.fill(|id| sent.push(id));
        assert_eq!(sent.len(), 2);
        slots.free(sent[1]).unwrap();
        for foreign in [sent[1], RequestId::new(6, 0, 1), RequestId::new(5, 9, 1)] {
            let refused = slots.free(foreign);
            assert!(matches!(refused, Err(LoadError::UnknownId(_))), "{foreign}");
        }
        let mut next = Vec::new();
        slots.fill(|id| next.push(id));
        assert_eq!(next, [RequestId::new(5, 1, 3)]);
    }
}
