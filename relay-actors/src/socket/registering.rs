//! A socket's registrations: begun by a frame, answered when the other actors have decided (REG-1,
//! REG-2, REG-4, REG-10).

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use relay_model::ids::DeviceId;
use relay_model::store::DeviceType;
use relay_model::wire::codes::{AfterError, CloseCode, ErrorCode};
use relay_model::wire::inbound::Register;
use relay_model::wire::outbound;
use tokio::time::Instant;

use super::SocketActor;
use super::admission::{self, Applicant, NotAdmitted};
use super::lanes::Lane;
use super::messages::CloseReason;
use super::registration::Claim;
use super::stage::{Checking, Registered, Stage, Touches, WaitingFrames};
use crate::directory::Attached;
use crate::mailbox::post;
use crate::metrics::Registration;
use crate::outcomes::{LastRefusal, RegistrationRefused};

impl SocketActor {
    /// Begins a registration on a socket that has none under way.
    pub(super) fn register(&mut self, register: &Register<'_>, ctx: &mut Context<Self>) {
        if self.core().drain.refuses() {
            return self.refuse(ErrorCode::RelayDraining, register.device_id.parse().ok());
        }
        let sequence = self.core().next_registration();
        let registered = self.registered().map(|registered| registered.device);
        let claim = match Claim::new(register, &self.origin, registered) {
            Ok(claim) => claim,
            Err(code) => return self.refuse(code, register.device_id.parse().ok()),
        };
        let previous = match std::mem::replace(&mut self.stage, Stage::Unregistered) {
            Stage::Registered(registered) => Some(registered),
            Stage::Unregistered | Stage::Checking(_) => None,
        };
        let waiting = WaitingFrames::default();
        let checking = Checking {
            previous,
            sequence,
            waiting,
            statuses: Vec::new(),
        };
        self.stage = Stage::Checking(Box::new(checking));
        self.link.hold(true);

        let (device, device_type) = (claim.device, claim.device_type);
        let applicant = Applicant {
            account: self.origin.account,
            claim,
            sequence,
            socket: self.handle_of(ctx),
            arbiter: actix_rt::Arbiter::current(),
        };
        let admission = admission::admit(self.relay.clone(), applicant);
        let decided = admission.into_actor(self).map(move |outcome, actor, ctx| {
            match outcome {
                Ok(attached) => actor.admitted(device, device_type, attached, ctx),
                Err(reason) => actor.not_admitted(device, reason, ctx),
            }
            actor.wake();
        });
        ctx.spawn(decided);
    }

    /// Answers a registration that made the connection a route: reply, status, then what waited.
    fn admitted(
        &mut self,
        device: DeviceId,
        device_type: DeviceType,
        attached: Attached,
        ctx: &mut Context<Self>,
    ) {
        let Attached {
            pair,
            generation,
            session,
            target_status,
            leases,
        } = attached;
        if self.link.is_closing() {
            return;
        }
        let now = Instant::now();
        let registered = Registered {
            device,
            device_type,
            session: session.session,
            pair,
            generation,
            touches: Touches::default(),
            heartbeat_at: None,
        };
        let stage = std::mem::replace(&mut self.stage, Stage::Registered(Box::new(registered)));
        self.registration_deadline = None;
        self.link.set_max_message(self.relay.limits().max_message);
        let resumed = session.token.is_none();
        self.core().metrics.registered(match resumed {
            true => Registration::Resumed,
            false => Registration::Registered,
        });
        tracing::info!(
            connection = %self.connection,
            account = %self.origin.account,
            %device,
            client_type = device_type.as_str(),
            generation = generation.map(|generation| generation.get()),
            resumed,
            "registered"
        );
        self.end_interest();
        self.reply(Lane::Control, outbound::session_reply(&session));
        if !leases.is_empty() && !self.link.try_send_all(Lane::Control, leases) {
            self.close(CloseReason::Congested);
        }
        if let Some(status) = target_status {
            let text = outbound::device_status(&status, self.core().environment.now());
            self.reply(Lane::Control, text);
        }
        self.link.hold(false);
        let Stage::Checking(checking) = stage else {
            return;
        };
        for (text, permit) in checking.statuses {
            self.link.send(text, permit, None);
        }
        for frame in checking.waiting.into_frames() {
            self.on_text(frame, now, ctx);
        }
        self.handle_waiting_events(ctx);
    }

    fn not_admitted(&mut self, device: DeviceId, reason: NotAdmitted, ctx: &mut Context<Self>) {
        let previous = match std::mem::replace(&mut self.stage, Stage::Unregistered) {
            Stage::Checking(checking) => checking.previous,
            Stage::Registered(_) | Stage::Unregistered => None,
        };
        if let Some(previous) = previous {
            self.stage = Stage::Registered(previous);
        }
        self.link.hold(false);
        match reason {
            NotAdmitted::Refused(code) => self.refuse(code, Some(device)),
            NotAdmitted::Superseded => {
                self.core().metrics.registered(Registration::Superseded);
                self.close(CloseReason::Replaced);
            }
            NotAdmitted::SignedOut => {
                self.core().metrics.registered(Registration::SignedOut);
                self.close(CloseReason::SignedOut);
            }
        }
        self.handle_waiting_events(ctx);
    }

    /// Sends a refusal and closes, unless the client may try again on this socket (REG-4).
    fn refuse(&mut self, code: ErrorCode, device: Option<DeviceId>) {
        if self.link.is_closing() {
            return;
        }
        self.core().metrics.registered(Registration::Refused(code));
        tracing::info!(
            connection = %self.connection,
            account = %self.origin.account,
            device = device.map(tracing::field::display),
            code = code.code(),
            "registration refused"
        );
        let refused = RegistrationRefused {
            account: self.origin.account,
            device: device.or_else(|| self.claimed_device()),
            refusal: LastRefusal {
                code,
                at: self.core().environment.now(),
            },
        };
        post(self.relay.outcomes(), refused);
        self.reply_error(code, code.meaning(), Some("register"));
        let close = match code.after() {
            AfterError::Closes(close) => Some(close),
            AfterError::GoesOn => None,
            AfterError::RegistersAgain => {
                self.refused_resumes += 1;
                let last = self.refused_resumes >= self.limits().resume_attempts;
                last.then_some(CloseCode::RegistrationRefused)
            }
        };
        if let Some(close) = close {
            self.close(CloseReason::Refused(close));
        }
    }
}
