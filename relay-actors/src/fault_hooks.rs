//! Makes actors panic, so that tests can prove what happens then. Not in the product.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, MailboxError, Message, WrapFuture};
use relay_model::ids::{AccountId, DeviceId};

use crate::directory::{DirectoryActor, FindPair};
use crate::mailbox::post;
use crate::presence::PresenceActor;
use crate::registry::RegistryActor;
use crate::relay::Relay;
use crate::sessions::SessionActor;
use crate::socket::SocketActor;
use crate::store::StoreActor;

/// An actor that there is one of, and without which the process must not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// DirectoryActor.
    Directory,
    /// PresenceActor.
    Presence,
    /// SessionActor.
    Sessions,
    /// StoreActor.
    Store,
}

#[derive(Message)]
#[rtype(result = "()")]
struct PanicNow;

macro_rules! can_panic {
    ($($actor:ty),+) => {$(
        impl Handler<PanicNow> for $actor {
            type Result = ();

            fn handle(&mut self, _: PanicNow, _: &mut Context<Self>) {
                panic!("asked to panic");
            }
        }
    )+};
}

can_panic!(
    DirectoryActor,
    PresenceActor,
    RegistryActor,
    SessionActor,
    SocketActor,
    StoreActor
);

/// Has a registry look at no further message, and panic after this time with all that came meanwhile.
#[derive(Message)]
#[rtype(result = "()")]
struct PanicAfter(Duration);

impl Handler<PanicAfter> for RegistryActor {
    type Result = ();

    fn handle(&mut self, PanicAfter(stall): PanicAfter, ctx: &mut Context<Self>) {
        let stall = tokio::time::sleep(stall).into_actor(self);
        ctx.wait(stall.map(|(), registry, ctx| registry.handle(PanicNow, ctx)));
    }
}

/// Has the socket of a device's route panic; by the directory, which knows it.
#[derive(Message)]
#[rtype(result = "()")]
struct PanicRoute(AccountId, DeviceId);

impl Handler<PanicRoute> for DirectoryActor {
    type Result = ();

    fn handle(&mut self, PanicRoute(account, device): PanicRoute, _: &mut Self::Context) {
        if let Some(socket) = self.socket_of(account, device) {
            post(socket.address(), PanicNow);
        }
    }
}

impl Relay {
    /// Makes one of the actors panic that there is one of. Returns once it is gone.
    pub async fn panic_duty(&self, duty: Duty) {
        let gone: Result<(), MailboxError> = match duty {
            Duty::Directory => self.directory().send(PanicNow).await,
            Duty::Presence => self.presence().send(PanicNow).await,
            Duty::Sessions => self.sessions().send(PanicNow).await,
            Duty::Store => self.store().send(PanicNow).await,
        };
        debug_assert!(gone.is_err());
    }

    /// Makes the registry of a pair panic, if there is one. Returns once it is gone.
    pub async fn panic_pair(&self, account: AccountId, desktop: DeviceId) {
        if let Ok(Some(registry)) = self.directory().send(FindPair { account, desktop }).await {
            let gone = registry.send(PanicNow).await;
            debug_assert!(gone.is_err());
        }
    }

    /// Makes the registry of a pair stall and then panic, if there is one. Returns once it stalls.
    pub async fn stall_pair(&self, account: AccountId, desktop: DeviceId, stall: Duration) {
        if let Ok(Some(registry)) = self.directory().send(FindPair { account, desktop }).await {
            let stalls = registry.send(PanicAfter(stall)).await;
            debug_assert!(stalls.is_ok());
        }
    }

    /// Makes the socket of a device's route panic, if it has one.
    pub async fn panic_route(&self, account: AccountId, device: DeviceId) {
        let told = self.directory().send(PanicRoute(account, device)).await;
        debug_assert!(told.is_ok());
    }
}
