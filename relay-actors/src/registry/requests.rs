//! The way of a request to the desktop and of its answers back (section 7).

use std::sync::Arc;

use actix::Handler;
use relay_model::ids::DeviceId;
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::RpcErrorCode;
use relay_model::wire::outbound::{self, RpcFailure};
use tokio::time::Instant;

use super::pending::{Answered, NotRecorded};
use super::{Desktop, RegistryActor, Request, Response};
use crate::metrics::Tally;
use crate::socket::SocketHandle;
use crate::socket::messages::CloseReason;
use crate::traces::{Moment, OpenTrace, TraceOutcome};

/// The trace of a request, if it has one.
type Trace = Option<Arc<OpenTrace>>;

impl RegistryActor {
    /// Answers a request that is not forwarded.
    fn refuse(&mut self, phone: DeviceId, id: &str, failure: RpcFailure, trace: Trace) {
        self.core.tallies().count(Tally::RpcRefused);
        self.fail(phone, id, failure, trace);
    }

    /// Answers a request itself.
    fn fail(&mut self, phone: DeviceId, id: &str, failure: RpcFailure, trace: Trace) {
        self.core.metrics.rpc_failed(failure.code);
        if let Some(trace) = &trace {
            trace.mark(Moment::Answered, Instant::now());
            trace.ends(TraceOutcome::Failed(failure.code));
        }
        if self.answer(phone, outbound::rpc_failure(id, failure), trace) {
            self.counts.failed += 1;
        }
    }

    /// Sends an answer to whatever connection the phone holds, and says whether it was sent. A phone
    /// that has no room for it is retired, so that no answer is ever lost in silence on a live
    /// connection (TR-10).
    fn answer(&mut self, phone: DeviceId, text: OutgoingText, trace: Trace) -> bool {
        let sent = self
            .phones
            .get(&phone)
            .map(|route| route.socket.answer(text, trace));
        if let Some(Err(_)) = sent
            && let Some(route) = self.phones.shift_remove(&phone)
        {
            route.socket.close(CloseReason::Congested);
            self.end_lease_of(phone, route.socket.connection);
        }
        let delivered = matches!(sent, Some(Ok(())));
        if !delivered {
            self.counts.undeliverable_responses += 1;
            self.core.tallies().count(Tally::RpcUndeliverable);
        }
        delivered
    }

    /// Ends what was forwarded to a connection that is gone (RPC-4). The seal comes first, so that
    /// what is called undelivered here can never leave afterwards (RPC-5).
    pub(super) fn end_requests_of(&mut self, socket: &SocketHandle) {
        let begun = socket.seal_requests();
        for (id, record) in self.pending.end_of_desktop(socket.connection) {
            let delivered = record.position <= begun;
            let trace = self.traced.take(&id);
            self.fail(
                record.phone,
                &id,
                RpcFailure::desktop_gone(delivered),
                trace,
            );
        }
    }
}

impl Handler<Request> for RegistryActor {
    type Result = ();

    fn handle(&mut self, request: Request, ctx: &mut Self::Context) {
        let Request {
            connection,
            phone,
            id,
            text,
            trace,
            permit: _permit,
        } = request;
        // A frame of a connection that was replaced meanwhile has no effect any more.
        let route = self.phones.get(&phone);
        if self.forgotten || route.is_none_or(|route| route.socket.connection != connection) {
            return;
        }
        match self.pending.admit(&id, phone, &self.core.limits()) {
            Ok(()) => {}
            Err(NotRecorded::Duplicate) => {
                self.counts.duplicate_requests += 1;
                self.core.tallies().count(Tally::RpcDuplicate);
                if let Some(trace) = trace {
                    trace.ends(TraceOutcome::Duplicate);
                }
                return;
            }
            Err(NotRecorded::TakenByAnotherPhone) => {
                let failure =
                    RpcFailure::invalid("another phone has a request with this id pending");
                return self.refuse(phone, &id, failure, trace);
            }
            Err(NotRecorded::TooMany) => {
                let failure = RpcFailure::undelivered(RpcErrorCode::DesktopCongested);
                return self.refuse(phone, &id, failure, trace);
            }
        }
        let failure = match &mut self.desktop {
            Desktop::Attached(route) => {
                let now = Instant::now();
                if route.socket.request(text, trace.clone()).is_ok() {
                    route.forwarded += 1;
                    self.counts.forwarded += 1;
                    self.core.tallies().count(Tally::RpcForwarded);
                    let (desktop, position) = (route.socket.connection, route.forwarded);
                    if let Some(trace) = trace {
                        trace.mark(Moment::Forwarded, now);
                        self.traced.keep(&id, trace);
                    }
                    self.pending
                        .record(id, phone, desktop, position, now, &self.core.limits());
                    self.meter();
                    return self.arm_timer(ctx);
                }
                RpcErrorCode::DesktopCongested
            }
            Desktop::Reconnecting => RpcErrorCode::DesktopReconnecting,
            Desktop::Offline => RpcErrorCode::DesktopOffline,
        };
        self.refuse(phone, &id, RpcFailure::undelivered(failure), trace);
    }
}

impl Handler<Response> for RegistryActor {
    type Result = ();

    fn handle(&mut self, response: Response, _: &mut Self::Context) {
        let Response {
            connection,
            id,
            is_final,
            is_error,
            read_at,
            text,
            permit: _permit,
        } = response;
        let now = Instant::now();
        let answered = self
            .pending
            .answer(&id, connection, is_final, now, &self.core.limits());
        match answered {
            Answered::By { phone, forwarded } => {
                let mut trace = None;
                if is_final {
                    trace = self.traced.take(&id);
                    let took = now.saturating_duration_since(forwarded);
                    self.core.metrics.rpc_duration.record(took);
                }
                if let Some(trace) = &trace {
                    trace.mark(Moment::Answered, read_at);
                    trace.ends(match is_error {
                        true => TraceOutcome::DesktopError,
                        false => TraceOutcome::Answered,
                    });
                }
                if self.answer(phone, text, trace) {
                    self.counts.answered += 1;
                    self.core.tallies().count(Tally::RpcDelivered);
                }
                self.report_if_idle();
            }
            Answered::Unknown => {
                self.counts.unknown_responses += 1;
                self.core.tallies().count(Tally::RpcUnknown);
            }
        }
    }
}
