//! What a socket does with a text frame: answers it, or hands it on, rebuilt, to the pair or the
//! directory.

use std::sync::Arc;

use actix::Context;
use bytes::Bytes;
use bytestring::ByteString;
use relay_model::credentials::Scope;
use relay_model::limits::{ENVELOPE_HEADROOM, Limits, TRACED_METHOD_BYTES};
use relay_model::store::DeviceType;
use relay_model::wire::codes::{ErrorCode, RpcErrorCode};
use relay_model::wire::inbound::{ClientFrame, Event, FrameError, RpcRequest, RpcResponse};
use relay_model::wire::outbound::{self, RpcFailure};
use relay_model::wire::traceparent::TraceParent;
use tokio::time::Instant;

use super::SocketActor;
use super::event_rules::{self, EventAction};
use super::lanes::Lane;
use super::messages::CloseReason;
use super::stage::Stage;
use crate::directory::PublishEvent;
use crate::mailbox::post;
use crate::metrics::Tally;
use crate::registry::{Request, Response};
use crate::traces::{OpenTrace, TraceOutcome};

/// The id that an answer to a request with a bad id carries: cut to what an id may be (RPC-5).
pub(super) fn cut_id<'a>(id: &'a str, limits: &Limits) -> &'a str {
    cut_to(id, limits.id_bytes)
}

/// As much of a text as fits into `bytes`.
fn cut_to(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Where a frame is counted, and its bytes.
fn received(frame: &ClientFrame<'_>) -> (Tally, Tally) {
    match frame {
        ClientFrame::Ping => (Tally::ReceivedPing, Tally::PingBytes),
        ClientFrame::Ignored => (Tally::ReceivedIgnored, Tally::IgnoredBytes),
        ClientFrame::Register(_) => (Tally::ReceivedRegister, Tally::RegisterBytes),
        ClientFrame::Heartbeat => (Tally::ReceivedHeartbeat, Tally::HeartbeatBytes),
        ClientFrame::Request(_) => (Tally::ReceivedRequest, Tally::RequestBytes),
        ClientFrame::Response(_) => (Tally::ReceivedResponse, Tally::ResponseBytes),
        ClientFrame::Event(_) => (Tally::ReceivedEvent, Tally::EventBytes),
        ClientFrame::Renew(_) => (Tally::ReceivedRenew, Tally::RenewBytes),
    }
}

impl SocketActor {
    /// Handles a text frame that the rate limit admitted.
    pub(super) fn on_text(&mut self, source: ByteString, now: Instant, ctx: &mut Context<Self>) {
        if self.link.is_closing() {
            return;
        }
        match ClientFrame::read(&source) {
            Ok(frame) => self.on_frame(frame, &source, now, ctx),
            Err(error) => {
                let tallies = self.tallies();
                tallies.count(Tally::ReceivedInvalid);
                tallies.add(Tally::InvalidBytes, source.len() as u64);
                self.on_bad_frame(&error);
            }
        }
    }

    fn on_bad_frame(&mut self, error: &FrameError) {
        let kind = error.request_type.as_deref();
        let unregistered = matches!(self.stage, Stage::Unregistered);
        if unregistered && kind.is_some_and(|kind| kind != "register") {
            return self.registration_required(kind);
        }
        let text = outbound::frame_error(error, self.core().environment.now());
        self.reply(Lane::Control, text);
    }

    fn registration_required(&mut self, request_type: Option<&str>) {
        let code = ErrorCode::RegistrationRequired;
        self.reply_error(code, code.meaning(), request_type);
    }

    fn on_frame(
        &mut self,
        frame: ClientFrame<'_>,
        source: &ByteString,
        now: Instant,
        ctx: &mut Context<Self>,
    ) {
        let received = received(&frame);
        let kind = match &frame {
            ClientFrame::Ping => {
                self.count_received(received, source);
                return self.reply(Lane::Control, outbound::pong());
            }
            ClientFrame::Ignored => return self.count_received(received, source),
            ClientFrame::Register(_) => "register",
            ClientFrame::Heartbeat => "heartbeat",
            ClientFrame::Request(_) => "rpc.request",
            ClientFrame::Response(_) => "rpc.response",
            ClientFrame::Event(_) => "event",
            ClientFrame::Renew(_) => "auth.renew",
        };
        // Borrowed from its field: a clone would have all sockets write to one counter.
        let limits = self.link.limits();
        let device_type = match (&mut self.stage, &frame) {
            (Stage::Registered(registered), _) => {
                let device_type = registered.device_type;
                self.count_received(received, source);
                device_type
            }
            (Stage::Unregistered, ClientFrame::Register(register)) => {
                self.count_received(received, source);
                return self.register(register, ctx);
            }
            (Stage::Checking(checking), frame) => {
                let may_wait = !matches!(frame, ClientFrame::Event(_) | ClientFrame::Renew(_));
                // One that waits is counted when its turn comes.
                if !may_wait || !checking.waiting.push(source.clone(), limits) {
                    self.count_received(received, source);
                    self.registration_required(Some(kind));
                }
                return;
            }
            (Stage::Unregistered, _) => {
                self.count_received(received, source);
                return self.registration_required(Some(kind));
            }
        };
        match frame {
            ClientFrame::Register(register) => self.register(&register, ctx),
            ClientFrame::Heartbeat => {
                self.touch_session(now);
                self.store_heartbeat(now);
                self.reply(Lane::Control, outbound::pong());
            }
            ClientFrame::Request(request) => {
                self.touch_session(now);
                self.on_request(&request, source.as_bytes(), device_type, now);
            }
            ClientFrame::Response(response) => {
                self.touch_session(now);
                self.on_response(&response, source.as_bytes(), device_type, now);
            }
            ClientFrame::Event(event) => {
                if !self.event_waits(source) {
                    self.handle_event(&event, source.as_bytes(), device_type, ctx);
                }
            }
            ClientFrame::Renew(renew) => self.renew(&renew, ctx),
            ClientFrame::Ping | ClientFrame::Ignored => {}
        }
    }

    /// Counts a frame that was read, by its type (OP-6).
    fn count_received(&self, (frames, bytes): (Tally, Tally), source: &ByteString) {
        self.tallies().count(frames);
        self.tallies().add(bytes, source.len() as u64);
    }

    /// Begins the trace of a request whose caller asks for one, if somebody keeps traces (OP-7).
    fn trace_of(&self, request: &RpcRequest<'_>, now: Instant) -> Option<Arc<OpenTrace>> {
        let sink = self.core().traces.as_ref()?;
        let parent = TraceParent::read(request.traceparent.as_deref()?)?;
        let method = request.method.map(|method| method.get().trim_matches('"'));
        let method = cut_to(method.unwrap_or_default(), TRACED_METHOD_BYTES);
        let wall = self.core().environment.now();
        parent
            .sampled
            .then(|| OpenTrace::begin(sink, parent, method, wall, now))
    }

    fn on_request(
        &mut self,
        request: &RpcRequest<'_>,
        source: &Bytes,
        sender: DeviceType,
        now: Instant,
    ) {
        let trace = self.trace_of(request, now);
        if let Err(failure) = self.forward_request(request, source, sender, trace.as_ref()) {
            if let Some(trace) = trace {
                trace.ends(TraceOutcome::Failed(failure.code));
            }
            self.core().metrics.rpc_failed(failure.code);
            self.tallies().count(Tally::RpcRefused);
            let id = cut_id(&request.id, self.limits());
            let text = outbound::rpc_failure(id, failure);
            self.reply(Lane::Rpc, text);
        }
    }

    /// Hands a request to the pair, unless the relay answers it here.
    fn forward_request(
        &mut self,
        request: &RpcRequest<'_>,
        source: &Bytes,
        sender: DeviceType,
        trace: Option<&Arc<OpenTrace>>,
    ) -> Result<(), RpcFailure> {
        let (account, limits) = (self.origin.account, self.link.limits());
        let Stage::Registered(registered) = &self.stage else {
            return Ok(());
        };
        if sender == DeviceType::Desktop || !self.origin.credentials.allow(Scope::Rpc) {
            return Err(RpcFailure::undelivered(RpcErrorCode::NotAllowed));
        }
        if request.id.is_empty() || request.id.len() > limits.id_bytes {
            return Err(RpcFailure::invalid("the id is empty or too long"));
        }
        let method = request
            .method
            .ok_or(RpcFailure::invalid("the method is missing or empty"))?;
        let pair = registered
            .pair
            .as_ref()
            .ok_or(RpcFailure::undelivered(RpcErrorCode::DesktopOffline))?;
        let text = outbound::request(request, method, source, account, registered.device);
        if text.len() > limits.max_message - ENVELOPE_HEADROOM {
            return Err(RpcFailure::invalid("tooLarge"));
        }
        let forwarded = pair.try_send(Request {
            connection: self.connection,
            phone: registered.device,
            id: request.id.as_ref().into(),
            permit: self.inbound.take(text.len()),
            text,
            trace: trace.cloned(),
        });
        if forwarded.is_err() {
            self.close(CloseReason::PairLost);
        }
        Ok(())
    }

    fn on_response(
        &mut self,
        response: &RpcResponse<'_>,
        source: &Bytes,
        sender: DeviceType,
        now: Instant,
    ) {
        if sender == DeviceType::Mobile {
            let message = "only desktops answer requests";
            return self.reply_error(ErrorCode::Forbidden, message, Some("rpc.response"));
        }
        let Stage::Registered(registered) = &self.stage else {
            return;
        };
        let Some(pair) = &registered.pair else { return };
        let text = outbound::response(response, source);
        let forwarded = pair.try_send(Response {
            connection: self.connection,
            id: response.id.as_ref().into(),
            is_final: response.is_final,
            is_error: response.error.is_some(),
            read_at: now,
            permit: self.inbound.take(text.len()),
            text,
        });
        if forwarded.is_err() {
            self.close(CloseReason::PairLost);
        }
    }

    /// Judges an event and does what is right by it (EV-3).
    pub(super) fn handle_event(
        &mut self,
        event: &Event<'_>,
        source: &Bytes,
        sender: DeviceType,
        ctx: &mut Context<Self>,
    ) {
        let may_send = self.origin.credentials.allow_events();
        let action = match event_rules::judge(&event.shape, sender, may_send, self.limits()) {
            Ok(action) => action,
            Err(refusal) => return self.reply_error(refusal.code, &refusal.message, Some("event")),
        };
        let (Ok(shape), Stage::Registered(registered)) = (&event.shape, &self.stage) else {
            return;
        };
        let device = registered.device;
        let text = || outbound::event(shape, source, device, self.core().environment.now());
        match action {
            EventAction::Interest(interest) => self.on_interest(interest, Instant::now()),
            EventAction::Timeline(update) => self.on_timeline(update.as_ref(), source),
            EventAction::Store(change) => {
                let text = text();
                self.store_event(change, text, ctx);
            }
            action @ (EventAction::Publish | EventAction::Notify(_)) => {
                let text = text();
                let alert = match action {
                    EventAction::Notify(alert) => Some(Box::new(alert)),
                    _ => None,
                };
                let (account, connection) = (self.origin.account, self.connection);
                let permit = self.inbound.take(text.len());
                post(
                    self.relay.directory(),
                    PublishEvent {
                        account,
                        device,
                        connection,
                        text,
                        alert,
                        permit,
                    },
                );
            }
        }
    }
}
