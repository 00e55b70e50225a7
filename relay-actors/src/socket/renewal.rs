//! `auth.renew`: a connection whose token is about to expire shows the next one (SES-6).

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use relay_model::credentials::Credentials;
use relay_model::wire::codes::ErrorCode;
use relay_model::wire::inbound::Renew;
use relay_model::wire::outbound;
use tokio::time::Instant;

use super::SocketActor;
use super::lanes::Lane;
use crate::credentials::{NotVerified, VerifiedToken};

impl SocketActor {
    /// Has a token checked; the answer comes when that is done. What the token takes counts as under
    /// way until then, so that a flood of them stops this socket only.
    pub(super) fn renew(&mut self, renew: &Renew<'_>, ctx: &mut Context<Self>) {
        if matches!(self.origin.credentials, Credentials::ApiKey { .. }) {
            return self
                .not_renewed("an API key is not renewed by a token; connect with the token");
        }
        if renew.token.len() > self.limits().token_bytes {
            return self.not_renewed("the token is too long");
        }
        let permit = self.inbound.take(renew.token.len());
        let verification = self.relay.tokens().verify(renew.token.to_string());
        let verified = verification.into_actor(self).map(|token, actor, _| {
            drop(permit);
            actor.renewed(token);
            actor.wake();
        });
        ctx.spawn(verified);
    }

    fn renewed(&mut self, token: Result<VerifiedToken, NotVerified>) {
        match token {
            Ok(token) if token.account == self.origin.account => {
                let (wall, now) = (self.core().environment.now(), Instant::now());
                let limits = self.link.limits();
                self.expiry.renew(token.expires_at, wall, now, limits);
                self.reply(Lane::Control, outbound::auth_renewed(token.expires_at));
            }
            Ok(_) => self.not_renewed("the token is one of another account"),
            Err(NotVerified::Invalid) => self.not_renewed("the token is not valid"),
            Err(NotVerified::Unavailable) => {
                let code = ErrorCode::RelayUnavailable;
                self.reply_error(code, "the token cannot be judged yet", Some("auth.renew"));
            }
        }
    }

    fn not_renewed(&mut self, why: &str) {
        self.reply_error(ErrorCode::AuthRequired, why, Some("auth.renew"));
    }
}
