//! The one way in which actors post to each other without waiting. Mailboxes are not the bound of
//! anything here: what a peer can cause is bounded by permits before it is posted, what the relay
//! causes itself by the number of its connections.

use actix::dev::{MessageResponse, ToEnvelope};
use actix::{Actor, Addr, Handler, Message};

/// Posts a message whose number is bounded: it carries a permit, or there is at most one of it a
/// connection and state change. A message to an actor that has ended is dropped, permit included.
#[expect(
    clippy::disallowed_methods,
    reason = "the named wrapper that the ban refers to"
)]
pub(crate) fn post<A, M>(address: &Addr<A>, message: M)
where
    A: Actor + Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message + Send + 'static,
    M::Result: MessageResponse<A, M> + Send,
{
    address.do_send(message);
}
