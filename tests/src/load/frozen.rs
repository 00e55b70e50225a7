//! One phone of many that does not read: whether the others get their events later for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::client::{Client, Endpoint};
use super::crowd::{Crowd, Looker};
use super::devices::Pair;
use super::error::LoadError;
use super::figures::{Figure, Measured};
use super::fleet::{failure, outcome};
use super::frames::append_text;
use super::histogram::Histogram;
use super::meter::{Meter, Stretch};
use super::process::Process;
use super::timeline::{Event, Heard, Inspector, Interest, Snapshots, Version};

/// At each tick the desktop publishes a snapshot and, in the same write behind it, an event.
const TICK: Duration = Duration::from_micros(62_500);
/// Bytes of a snapshot: with sixteen ticks a second, 1 MiB a second.
const SNAPSHOT: usize = 64 * 1024;
/// Each tick's snapshot is of the next of so many windows.
const THREADS: usize = 16;
/// The type of the events, which the relay does not know: they go to all phones (EV-1).
const EVENT_TYPE: &str = "load:tick";
/// How long a phone may wait for the last event once the load has ended.
const LAST_EVENTS: Duration = Duration::from_secs(10);

/// Events beside snapshots, with or without a phone that does not read.
#[derive(Debug, Clone, Copy)]
pub struct FrozenLoad {
    /// Phones with a lease. The first is never measured.
    pub phones: usize,
    /// Whether the first one stops reading.
    pub frozen: bool,
    /// Load before the measurement begins.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub measured: Duration,
}

impl FrozenLoad {
    /// Runs the load against a server.
    ///
    /// # Errors
    /// When a connection breaks, a phone gets anything altered or in another order, an event does not
    /// reach each of them, the frozen one included once it reads, or that one was not frozen at all.
    pub async fn run(
        self,
        endpoint: &Endpoint,
        server: Process,
    ) -> Result<Vec<Measured>, LoadError> {
        let crowd = Crowd::open(endpoint, Pair(0), self.phones).await?;
        let snapshots = Snapshots::new(SNAPSHOT, crowd.generation);
        let course = Course::new(self);
        let mut frozen = None;
        let mut phones = JoinSet::new();
        for (number, phone) in crowd.phones.into_iter().enumerate() {
            let inspector = snapshots.inspector();
            if number == 0 && self.frozen {
                frozen = Some((phone, inspector));
            } else {
                phones.spawn(async move {
                    let watched = watch(phone, inspector, course).await?;
                    Ok((number, watched))
                });
            }
        }
        let desktop = publish(crowd.desktop, crowd.interest, snapshots, course, server);
        let keep = async {
            match &mut frozen {
                Some((phone, _)) => only_renew(phone).await,
                None => std::future::pending().await,
            }
        };
        // A phone ends when it has the last event, and so after the desktop: one that does before has
        // failed.
        let (stretch, _desktop) = tokio::select! {
            biased;
            published = desktop => published?,
            Some(failed) = phones.join_next() => return Err(failure(failed)),
            failed = keep => return Err(failed),
        };
        let mut durations = Histogram::default();
        let mut most_snapshots = 0;
        let collected = async {
            while let Some(finished) = phones.join_next().await {
                let (number, watched) = outcome(finished)?;
                most_snapshots = most_snapshots.max(watched.snapshots);
                if number > 0 {
                    durations.add(&watched.durations);
                }
            }
            if let Some((phone, inspector)) = frozen {
                let watched = watch(phone, inspector, course).await?;
                if 2 * watched.snapshots > most_snapshots {
                    return Err(LoadError::NotFrozen {
                        got: watched.snapshots,
                        others: most_snapshots,
                    });
                }
            }
            Ok(())
        };
        timeout(LAST_EVENTS, collected)
            .await
            .unwrap_or(Err(LoadError::TimedOut {
                what: "the last event at a phone",
                limit: LAST_EVENTS,
            }))?;
        let mut figures = vec![
            Figure::EventMedian.of(durations.quantile(0.5)),
            Figure::EventTail.of(durations.quantile(0.99)),
        ];
        figures.extend(stretch.surroundings());
        Ok(figures)
    }
}

/// The ticks of a run.
#[derive(Debug, Clone, Copy)]
struct Course {
    /// What times within the run are counted from.
    origin: Instant,
    /// Ticks before the measurement.
    warm_up: u64,
    /// All ticks, numbered from 1.
    all: u64,
}

impl Course {
    fn new(load: FrozenLoad) -> Self {
        let ticks = |time: Duration| (time.as_micros() / TICK.as_micros()).max(1) as u64;
        let warm_up = ticks(load.warm_up);
        Self {
            origin: Instant::now(),
            warm_up,
            all: warm_up + ticks(load.measured),
        }
    }
}

/// The payload of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tick {
    number: u64,
    /// Microseconds of the run.
    sent: u64,
}

impl Tick {
    fn append(self, out: &mut Vec<u8>) {
        let event = format!(
            r#"{{"type":"event","payload":{{"eventType":"{EVENT_TYPE}","payload":{}}}}}"#,
            self.payload()
        );
        append_text(out, event.as_bytes());
    }

    fn payload(self) -> String {
        format!(r#"{{"number":{},"sent":{}}}"#, self.number, self.sent)
    }

    /// The event's tick, if it is one and intact.
    fn read(event: &Event<'_>) -> Option<Self> {
        let tick: Self = serde_json::from_str(event.payload).ok()?;
        (event.event_type == EVENT_TYPE && event.payload == tick.payload()).then_some(tick)
    }
}

/// The desktop, until the last tick. It is returned, for its phones would hear if it went.
async fn publish(
    mut desktop: Client,
    mut interest: Interest,
    mut snapshots: Snapshots,
    course: Course,
    server: Process,
) -> Result<(Stretch, Client), LoadError> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut meter = Meter::start(server)?;
    let mut number = 0;
    let mut out = Vec::new();
    while number < course.all {
        tokio::select! {
            _ = ticks.tick() => {
                number += 1;
                if number == course.warm_up + 1 {
                    meter = Meter::start(server)?;
                }
                let thread = (number % THREADS as u64) as usize;
                out.clear();
                out.extend_from_slice(snapshots.frame(Version { thread, number }));
                let sent = course.origin.elapsed().as_micros() as u64;
                Tick { number, sent }.append(&mut out);
                desktop.send(&out).await?;
            }
            read = desktop.read(|message| interest.hear(message)) => read?,
        }
    }
    Ok((meter.stop()?, desktop))
}

/// What the frozen phone does; returns why it no longer can.
async fn only_renew(phone: &mut Looker) -> LoadError {
    loop {
        sleep_until(phone.renewal()).await;
        if let Err(error) = phone.renew_if_due().await {
            return error;
        }
    }
}

/// What a phone got.
struct Watched {
    durations: Histogram,
    snapshots: u64,
}

/// A phone, until the last event: it gets every event in order, and of each window snapshots of rising
/// versions, some of which a newer one may have replaced (TL-8).
async fn watch(
    mut phone: Looker,
    mut inspector: Inspector,
    course: Course,
) -> Result<Watched, LoadError> {
    let mut watched = Watched {
        durations: Histogram::default(),
        snapshots: 0,
    };
    let mut last_event = 0;
    let mut last_snapshots = [0; THREADS];
    while last_event < course.all {
        phone
            .read(|message| {
                let (what, got, last) = match inspector.inspect(message)? {
                    Heard::Snapshot(version) => {
                        watched.snapshots += 1;
                        let last = last_snapshots
                            .get_mut(version.thread)
                            .ok_or_else(|| LoadError::altered(message))?;
                        if version.number > *last {
                            *last = version.number;
                            return Ok(());
                        }
                        ("snapshot", version.number, *last)
                    }
                    Heard::Other(event) => {
                        let Some(tick) = Tick::read(&event) else {
                            return may_come(&event, message);
                        };
                        if tick.number == last_event + 1 {
                            last_event = tick.number;
                            if tick.number > course.warm_up {
                                let sent = Duration::from_micros(tick.sent);
                                let taken = course.origin.elapsed().saturating_sub(sent);
                                watched.durations.record(taken);
                            }
                            return Ok(());
                        }
                        ("event", tick.number, last_event)
                    }
                };
                Err(LoadError::OutOfOrder { what, got, last })
            })
            .await?;
    }
    Ok(watched)
}

/// Presence, and word of a snapshot that was evicted (TL-13).
fn may_come(event: &Event<'_>, message: &[u8]) -> Result<(), LoadError> {
    if event.is_presence() || event.event_type == "chat:timeline-stale" {
        Ok(())
    } else {
        Err(LoadError::unexpected(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event<'a>(event_type: &'static str, payload: &'a str) -> Event<'a> {
        Event {
            event_type: event_type.into(),
            payload,
        }
    }

    /// TR-8: a payload that was written anew is not the one that was sent.
    #[test]
    fn only_intact_events_are_ticks() {
        let tick = Tick {
            number: 3,
            sent: 70_000,
        };
        assert_eq!(Tick::read(&event(EVENT_TYPE, &tick.payload())), Some(tick));
        for payload in [
            r#"{"number":3, "sent":70000}"#,
            r#"{"sent":70000,"number":3}"#,
            r#"{"number":3,"sent":70000,"more":1}"#,
            r#"{"number":3}"#,
        ] {
            assert_eq!(Tick::read(&event(EVENT_TYPE, payload)), None, "{payload}");
        }
        assert_eq!(Tick::read(&event("device-status", &tick.payload())), None);
    }

    #[test]
    fn a_run_has_whole_ticks() {
        let course = |warm_up, measured| {
            let load = FrozenLoad {
                phones: 2,
                frozen: false,
                warm_up: Duration::from_secs_f64(warm_up),
                measured: Duration::from_secs_f64(measured),
            };
            let course = Course::new(load);
            (course.warm_up, course.all)
        };
        assert_eq!(course(3.0, 9.0), (48, 192));
        assert_eq!(course(0.01, 0.07), (1, 2));
    }
}
