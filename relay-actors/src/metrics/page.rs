//! What is asked of the actors when somebody reads the figures, and where it goes. A message each, no
//! more: figures of many pairs and sockets are tallies.

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, MailboxError, Message};
use tokio::time::Instant;

use super::{Metric, MetricKind, Metrics, NO_LABELS, Series, Tally};
use crate::credentials::CountKeySockets;
use crate::directory::ReadDirectoryState;
use crate::presence::CountGraces;
use crate::relay::Relay;
use crate::sessions::CountSessions;
use crate::store::{ReadPool, ReadStoreState};

impl Metrics {
    /// Hands what the threads counted to the recorder.
    fn publish_tallies(&self) {
        let series = self.series();
        for &tally in Tally::ALL {
            let key = Series::key(tally.metric(), tally.values().iter().copied());
            let sum = self.tallies.read(tally);
            match tally.metric().kind() {
                MetricKind::Counter => {
                    series
                        .0
                        .register_counter(&key, &super::METADATA)
                        .absolute(sum);
                }
                MetricKind::Gauge | MetricKind::Histogram(_) => {
                    // Two readings of one moment may differ, and so be less than nothing.
                    let sum = sum.cast_signed().max(0);
                    series
                        .0
                        .register_gauge(&key, &super::METADATA)
                        .set(sum as f64);
                }
            }
        }
    }
}

impl Relay {
    /// The figures of this relay.
    pub fn metrics(&self) -> &Metrics {
        &self.core().metrics
    }

    /// Brings the figures that are not counted as they change up to date, in the recorder that the relay
    /// was started with.
    ///
    /// # Errors
    /// When one of the relay's actors is gone.
    pub async fn publish_metrics(&self) -> Result<(), MailboxError> {
        let metrics = self.metrics();
        let series = metrics.series();
        let set = |metric, number: usize| series.gauge(metric, NO_LABELS).set(number as f64);

        let directory = self
            .ask("directory", self.directory(), ReadDirectoryState)
            .await?;
        set(Metric::Sockets, directory.sockets);
        set(Metric::Accounts, directory.accounts);
        set(Metric::Pairs, directory.pairs);
        for (client_type, routes) in [
            ("desktop", directory.desktops),
            ("mobile", directory.phones),
        ] {
            series
                .gauge(Metric::Routes, [client_type])
                .set(routes as f64);
        }
        let graces = self.ask("presence", self.presence(), CountGraces).await?;
        set(Metric::PresenceGraces, graces);
        let sessions = self.ask("sessions", self.sessions(), CountSessions).await?;
        set(Metric::Sessions, sessions);
        let key_sockets = self
            .ask("credentials", self.credentials(), CountKeySockets)
            .await?;
        set(Metric::KeySockets, key_sockets);

        let store = self.ask("store", self.store(), ReadStoreState).await?;
        series
            .gauge(Metric::MailboxDepth, ["store"])
            .set(store.calls as f64);
        let pool = self.store().send(ReadPool).await?;
        for (state, number) in [("busy", pool.busy), ("idle", pool.idle)] {
            series
                .gauge(Metric::DatabasePool, [state])
                .set(number as f64);
        }
        let ceilings = &self.core().ceilings;
        set(
            Metric::OutboundBytes,
            usize::try_from(ceilings.outbound.held()).unwrap_or(usize::MAX),
        );
        set(
            Metric::UnfinishedBytes,
            usize::try_from(ceilings.unfinished.held()).unwrap_or(usize::MAX),
        );
        self.publish_push().await;
        self.publish_drain().await?;
        metrics.publish_tallies();
        Ok(())
    }

    async fn publish_push(&self) {
        let (series, push) = (self.metrics().series(), self.push_state().await);
        for (service, kind, outcome, count) in push.counts.iter() {
            let labels = [service.as_str(), kind.as_str(), outcome.as_str()];
            let key = Series::key(Metric::Push, labels);
            let counter = series.0.register_counter(&key, &super::METADATA);
            counter.absolute(count);
        }
        for (state, number) in [("queued", push.queued), ("in_flight", push.in_flight)] {
            series
                .gauge(Metric::PushPending, [state])
                .set(number as f64);
        }
    }

    async fn publish_drain(&self) -> Result<(), MailboxError> {
        let (series, drain) = (self.metrics().series(), self.drain_state().await?);
        series
            .gauge(Metric::Draining, NO_LABELS)
            .set(u8::from(self.drain_signal().refuses()));
        let work = drain.work.unwrap_or_default();
        for (kind, number) in [
            ("requests", work.requests as f64),
            ("frames", work.frames as f64),
            ("database", work.database as f64),
            ("push", work.push as f64),
            ("sockets", drain.sockets_left.unwrap_or_default() as f64),
        ] {
            series.gauge(Metric::DrainWork, [kind]).set(number);
        }
        Ok(())
    }

    /// Asks an actor, and takes note of how long the question waited.
    async fn ask<A, M>(
        &self,
        name: &'static str,
        actor: &Addr<A>,
        question: M,
    ) -> Result<M::Result, MailboxError>
    where
        A: Actor + Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let asked = Instant::now();
        let answer = actor.send(question).await?;
        let series = self.metrics().series();
        series
            .gauge(Metric::MailboxWait, [name])
            .set(asked.elapsed().as_secs_f64());
        Ok(answer)
    }
}
