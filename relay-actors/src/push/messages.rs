//! What PushActor is told and asked.

use actix::Message;
use relay_model::ids::{AccountId, ConnectionGeneration, DeviceId};

use super::content::Alert;
use super::counts::PushState;

/// A desktop has registered (PUSH-2); from DirectoryActor, one a registration.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct DesktopRegistered {
    pub(crate) pair: (AccountId, DeviceId),
    pub(crate) generation: ConnectionGeneration,
}

/// An agent wants its user to see something (PUSH-3); from DirectoryActor, one an event of a desktop,
/// whose rate limit bounds it. It is queued at once, where the queue's own bound holds.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct AlertRequested {
    pub(crate) account: AccountId,
    pub(crate) alert: Alert,
}

/// Asks what the pushes do; from whoever shows the relay's state, and from a drain that waits for them.
#[derive(Message)]
#[rtype(result = "PushState")]
pub(crate) struct ReadPushState;

/// Answered once all pushes that were accepted are over, and what became of them is stored (DR-3);
/// from whoever stops the relay. What the throttle holds back is dropped.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct FinishPushes;
