//! SessionActor: the relay sessions of the process, in memory only (SES-1, SES-5).

#[expect(
    clippy::module_inception,
    reason = "the pure state has the name of what it holds"
)]
mod sessions;

use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, Message};
use relay_model::ids::{AccountId, DeviceId, ResumeToken, SessionId};
use relay_model::wire::outbound::SessionReply;
use sessions::{Owner, Sessions};
use tokio::time::Instant;

use crate::environment::FatalGuard;
use crate::relay::Core;

/// Keeps, checks and sweeps the sessions.
pub(crate) struct SessionActor {
    core: Arc<Core>,
    sessions: Sessions,
    _fatal: FatalGuard,
}

/// Asks whether a session can be resumed; from the socket that registers, one a registration.
#[derive(Message)]
#[rtype(result = "bool")]
pub(crate) struct CanResume {
    pub(crate) owner: Owner,
    pub(crate) session: SessionId,
    pub(crate) token: ResumeToken,
}

/// Opens or resumes the session of a device that was just attached; from DirectoryActor, in the
/// order of the attaches. A session that was ended since it was checked is replaced by another one.
#[derive(Message)]
#[rtype(result = "SessionReply")]
pub(crate) struct OpenSession {
    pub(crate) owner: Owner,
    pub(crate) resume: Option<SessionId>,
}

/// An RPC frame or a heartbeat came at `at` (SES-1); from a socket, at most one in
/// `session.touch_interval` and one at its end.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct TouchSession {
    pub(crate) owner: Owner,
    pub(crate) session: SessionId,
    pub(crate) at: Instant,
}

/// Ends every session; from DrainActor, once (DR-3).
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct ForgetSessions;

/// Ends the session of a device, or of all devices of an account (SES-2); from DirectoryActor, in the
/// order of the attaches.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct EndSessions {
    pub(crate) account: AccountId,
    /// `None`: all.
    pub(crate) device: Option<DeviceId>,
}

/// Asks how many sessions are kept.
#[derive(Message)]
#[rtype(result = "usize")]
pub(crate) struct CountSessions;

impl SessionActor {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        let fatal = FatalGuard::new("SessionActor", Arc::clone(&core.environment));
        Self {
            core,
            sessions: Sessions::default(),
            _fatal: fatal,
        }
    }
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
        ctx.run_interval(self.core.limits().session_sweep_interval, |actor, _| {
            actor.sessions.sweep(Instant::now(), &actor.core.limits());
        });
    }
}

impl Handler<CanResume> for SessionActor {
    type Result = bool;

    fn handle(&mut self, ask: CanResume, _: &mut Self::Context) -> bool {
        let CanResume {
            owner,
            session,
            token,
        } = ask;
        self.sessions
            .can_resume(owner, session, &token, Instant::now(), &self.core.limits())
    }
}

impl Handler<OpenSession> for SessionActor {
    type Result = actix::MessageResult<OpenSession>;

    fn handle(&mut self, open: OpenSession, _: &mut Self::Context) -> Self::Result {
        let (now, limits, environment) =
            (Instant::now(), &self.core.limits(), &self.core.environment);
        let OpenSession { owner, resume } = open;
        let resumed = resume.and_then(|session| {
            Some((session, self.sessions.resume(owner, session, now, limits)?))
        });
        let (session, token, expires) = match resumed {
            Some((session, expires)) => (session, None, expires),
            None => {
                let session = SessionId::from_uuid(environment.new_uuid());
                let token = environment.new_resume_token();
                let expires = self.sessions.open(owner, session, &token, now, limits);
                (session, Some(token), expires)
            }
        };
        let expires_at = environment
            .now()
            .plus(expires.saturating_duration_since(now));
        let instance = self.core.instance;
        actix::MessageResult(SessionReply {
            session,
            token,
            expires_at,
            instance,
        })
    }
}

impl Handler<TouchSession> for SessionActor {
    type Result = ();

    fn handle(&mut self, touch: TouchSession, _: &mut Self::Context) {
        self.sessions
            .touch(touch.owner, touch.session, touch.at, &self.core.limits());
    }
}

impl Handler<ForgetSessions> for SessionActor {
    type Result = ();

    fn handle(&mut self, _: ForgetSessions, _: &mut Self::Context) {
        self.sessions = Sessions::default();
    }
}

impl Handler<EndSessions> for SessionActor {
    type Result = ();

    fn handle(&mut self, end: EndSessions, _: &mut Self::Context) {
        let EndSessions { account, device } = end;
        match device {
            Some(device) => self.sessions.end((account, device)),
            None => self.sessions.end_all_of(account),
        }
    }
}

impl Handler<CountSessions> for SessionActor {
    type Result = usize;

    fn handle(&mut self, _: CountSessions, _: &mut Self::Context) -> usize {
        self.sessions.len()
    }
}
