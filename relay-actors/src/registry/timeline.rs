//! What a pair does with interests and snapshots (section 8): it keeps the leases, tells the desktop of
//! their changes, and passes a snapshot on to the phones that hold one.

use std::sync::Arc;

use actix::{Context, Handler};
use relay_model::ids::{ConnectionId, DeviceId};
use relay_model::wire::OutgoingText;
use relay_model::wire::timeline::notices::{LeaseState, timeline_interest_updated};
use tokio::time::Instant;

use super::leases::{Changes, SessionState};
use super::{Desktop, InterestEnded, InterestTaken, RegistryActor, TimelineUpdate};
use crate::metrics::Tally;
use crate::socket::messages::{CloseReason, Offer};
use crate::socket::timeline::SharedSnapshot;

impl RegistryActor {
    /// A desktop registered: its phones forget what a former one sent, and it gets the state of every
    /// live lease (REG-7, TL-8).
    pub(super) fn restart_timelines(&mut self) -> Vec<OutgoingText> {
        let now = Instant::now();
        let states = self.leases.states(now);
        for state in &states {
            for (phone, connection, _) in self.leases.phones_of(&state.session, now) {
                if let Some(route) = self.phones.get(&phone)
                    && route.socket.connection == connection
                {
                    route.socket.desktop_registered();
                }
            }
        }
        states
            .into_iter()
            .map(|state| self.frame(state, now))
            .collect()
    }

    /// A phone's connection is gone or registered anew.
    pub(super) fn end_lease_of(&mut self, phone: DeviceId, connection: ConnectionId) {
        let changes = self.leases.phone_gone(phone, connection, Instant::now());
        self.tell_desktop(changes);
    }

    /// Tells the desktop what has changed (TL-7). One that has no room for it is retired (TR-10).
    fn tell_desktop(&mut self, changes: Changes) {
        let now = Instant::now();
        for state in changes {
            let Desktop::Attached(route) = &self.desktop else {
                return;
            };
            if route.socket.event(self.frame(state, now)).is_err() {
                let socket = route.socket.clone();
                socket.close(CloseReason::Congested);
                return self.detach_desktop(socket.connection);
            }
        }
    }

    fn frame(&self, state: SessionState, now: Instant) -> OutgoingText {
        let wall = self.core.environment.now();
        let expires_at = state
            .latest_deadline
            .map(|deadline| wall.plus(deadline.saturating_duration_since(now)));
        let state = LeaseState {
            session: state.session,
            expires_at,
            generation: state.generation,
            revision: state.revision,
        };
        timeline_interest_updated(&state, self.core.instance, wall)
    }

    fn is_route(&self, phone: DeviceId, connection: ConnectionId) -> bool {
        self.phones
            .get(&phone)
            .is_some_and(|route| route.socket.connection == connection && route.targets_this)
    }
}

impl Handler<InterestTaken> for RegistryActor {
    type Result = ();

    fn handle(&mut self, taken: InterestTaken, ctx: &mut Context<Self>) {
        let InterestTaken {
            connection,
            phone,
            lease,
            session,
            deadline,
            permit: _permit,
        } = taken;
        // A replaced connection has no effect any more (REG-6).
        if self.is_route(phone, connection) {
            let now = Instant::now();
            let changes = self
                .leases
                .interest(phone, connection, lease, session, deadline, now);
            self.tell_desktop(changes);
            self.meter();
            self.arm_timer(ctx);
        }
    }
}

impl Handler<InterestEnded> for RegistryActor {
    type Result = ();

    fn handle(&mut self, ended: InterestEnded, _: &mut Context<Self>) {
        let InterestEnded {
            connection,
            phone,
            lease,
            permit: _permit,
        } = ended;
        let changes = self.leases.end(phone, connection, lease, Instant::now());
        self.tell_desktop(changes);
        self.meter();
    }
}

impl Handler<TimelineUpdate> for RegistryActor {
    type Result = ();

    fn handle(&mut self, update: TimelineUpdate, _: &mut Context<Self>) {
        let is_route = matches!(
            &self.desktop,
            Desktop::Attached(route) if route.socket.connection == update.connection
        );
        if !is_route {
            // A replaced connection has no effect any more (REG-6).
            return;
        }
        let now = Instant::now();
        let authorized = update.authorized.filter(|(generation, snapshot)| {
            self.leases.current(&snapshot.key.session, now) == Some(*generation)
        });
        let Some((_, snapshot)) = authorized else {
            self.counts.unauthorized_snapshots += 1;
            self.core.tallies().count(Tally::TimelineUnauthorized);
            return;
        };
        let charge = self.core.ceilings.outbound.charge(snapshot.text.len());
        let session = snapshot.key.session.clone();
        let snapshot = Arc::new(SharedSnapshot {
            snapshot,
            _charge: charge,
        });
        let permit = Arc::new(update.permit);
        for (phone, connection, lease) in self.leases.phones_of(&session, now) {
            if let Some(route) = self.phones.get(&phone)
                && route.socket.connection == connection
            {
                self.counts.snapshots += 1;
                route.socket.offer(Offer {
                    lease,
                    snapshot: Arc::clone(&snapshot),
                    _permit: Arc::clone(&permit),
                });
            }
        }
    }
}
