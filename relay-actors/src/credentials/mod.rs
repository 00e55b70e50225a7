//! Credentials that end while their sockets live (SES-6): how a renewal is checked, and the actor
//! that closes the sockets of API keys that were revoked, whoever revoked them.

mod key_sockets;

use std::pin::Pin;
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, WrapFuture};
use relay_model::ids::{AccountId, ApiKeyId, ConnectionId};
use relay_model::time::Timestamp;

use crate::environment::FatalGuard;
use crate::relay::Core;
use crate::socket::{CloseReason, SocketHandle};
use crate::store::{FindEndedKeys, StoreActor};
use key_sockets::KeySockets;

/// Whose a valid token is, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedToken {
    /// Its `sub`.
    pub account: AccountId,
    /// Its `exp`, without leeway.
    pub expires_at: Timestamp,
}

/// Why a token did not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotVerified {
    /// It is not valid now.
    #[error("the token is not valid; get a new one")]
    Invalid,
    /// Nobody can tell, since the keys could not be read yet.
    #[error("the token cannot be judged at the moment; try again later")]
    Unavailable,
}

/// The answer of a [`TokenVerifier`].
pub type Verification = Pin<Box<dyn Future<Output = Result<VerifiedToken, NotVerified>> + Send>>;

/// Checks user tokens that arrive over a socket (`auth.renew`), by the same rules as the door.
pub trait TokenVerifier: Send + Sync + 'static {
    /// Checks `token`. May wait for a key set to be fetched.
    fn verify(&self, token: String) -> Verification;
}

/// Knows which sockets came in by which API key.
pub(crate) struct CredentialsActor {
    core: Arc<Core>,
    store: Addr<StoreActor>,
    sockets: KeySockets,
    asking: bool,
    _fatal: FatalGuard,
}

/// A socket came in by an API key; from the socket, its first word.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct KeySocketOpened {
    pub(crate) key: ApiKeyId,
    pub(crate) socket: SocketHandle,
}

/// Such a socket is gone; from the socket, its last word.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct KeySocketGone {
    pub(crate) key: ApiKeyId,
    pub(crate) connection: ConnectionId,
}

/// A key has ended: its sockets have to go; from whoever revoked it here.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct KeyEnded(pub(crate) ApiKeyId);

/// Asks how many sockets came in by API keys.
#[derive(Message)]
#[rtype(result = "usize")]
pub(crate) struct CountKeySockets;

impl CredentialsActor {
    pub(crate) fn new(core: Arc<Core>, store: Addr<StoreActor>) -> Self {
        let fatal = FatalGuard::new("CredentialsActor", Arc::clone(&core.environment));
        Self {
            core,
            store,
            sockets: KeySockets::default(),
            asking: false,
            _fatal: fatal,
        }
    }

    fn end(&mut self, key: ApiKeyId) {
        for socket in self.sockets.of(key) {
            socket.close(CloseReason::KeyEnded);
        }
    }

    /// Asks the database which keys have ended: another process may have revoked them.
    fn ask(&mut self, ctx: &mut Context<Self>) {
        let keys = self.sockets.keys();
        if self.asking || keys.is_empty() {
            return;
        }
        self.asking = true;
        let asked = self.store.send(FindEndedKeys(keys)).into_actor(self);
        ctx.spawn(asked.map(|answer, actor, _| {
            actor.asking = false;
            match answer {
                Ok(Ok(ended)) => ended.into_iter().for_each(|key| actor.end(key)),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "could not ask which API keys have ended; sockets stay");
                }
                // The store is gone, and the process with it.
                Err(_) => {}
            }
        }));
    }
}

impl Actor for CredentialsActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(0);
        let interval = self.core.limits().api_key_check_interval;
        ctx.run_interval(interval, Self::ask);
    }
}

impl Handler<KeySocketOpened> for CredentialsActor {
    type Result = ();

    fn handle(&mut self, opened: KeySocketOpened, _: &mut Self::Context) {
        self.sockets.insert(opened.key, opened.socket);
    }
}

impl Handler<KeySocketGone> for CredentialsActor {
    type Result = ();

    fn handle(&mut self, gone: KeySocketGone, _: &mut Self::Context) {
        self.sockets.remove(gone.key, gone.connection);
    }
}

impl Handler<KeyEnded> for CredentialsActor {
    type Result = ();

    fn handle(&mut self, KeyEnded(key): KeyEnded, _: &mut Self::Context) {
        self.end(key);
    }
}

impl Handler<CountKeySockets> for CredentialsActor {
    type Result = usize;

    fn handle(&mut self, _: CountKeySockets, _: &mut Self::Context) -> usize {
        self.sockets.len()
    }
}
