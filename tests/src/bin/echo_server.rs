//! What the conformance suite talks to: the relay's own upgrade service and its own WebSocket link,
//! with an echo in place of the relay's protocol. Prints its URL and a token for it, then serves
//! until it is killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use relay_actors::environment::Environment;
use relay_actors::socket::lanes::Lane;
use relay_actors::socket::link::{Link, LinkEvent};
use relay_http::authentication::{Authenticator, UserTokens};
use relay_http::configuration::Secret;
use relay_http::server;
use relay_http::system_environment::SystemEnvironment;
use relay_http::upgrade::{DEVICE_LINK, UpgradeDoor};
use relay_model::ids::AccountId;
use relay_model::limits::Limits;
use relay_model::websocket::reader::Reader;
use relay_model::wire::OutgoingText;
use relay_model::wire::codes::CloseCode;
use tokio::time::{Instant, Sleep};

/// Signs the one token that is printed.
const SECRET: &str = "a secret that is good enough for an echo";
/// How long the token is good for: longer than the suite runs.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3_600);
const WORKERS: usize = 1;

/// One connection that sends back what it gets.
struct Echo {
    link: Link,
    timer: Pin<Box<Sleep>>,
}

impl Echo {
    fn new(link: Link) -> Self {
        let timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self { link, timer }
    }

    /// Whether what was sent back before has left.
    fn has_room(&self) -> bool {
        self.link.room().load(Lane::Rpc).messages == 0
    }

    /// Sends one message back.
    fn send_back(&mut self, event: LinkEvent, now: Instant) {
        let sent = match event {
            LinkEvent::Text(text) => self.link.try_send(Lane::Rpc, OutgoingText::new(text)),
            LinkEvent::Binary(payload) => {
                let payload = payload.unwrap_or_default();
                self.link.try_send_binary(Lane::Rpc, payload)
            }
            LinkEvent::ControlFrame | LinkEvent::Closing(_) | LinkEvent::Ended => true,
        };
        if !sent {
            self.link.close(CloseCode::Retired, now);
        }
    }

    /// Has this task polled when a peer that does not close must be given up.
    fn arm_timer(&mut self, cx: &mut Context<'_>) {
        if let Some(deadline) = self.link.deadline() {
            self.timer.as_mut().reset(deadline);
            if self.timer.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }
}

impl Future for Echo {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = Instant::now();
            let reads = self.has_room();
            let read = if reads {
                self.link.poll_read(cx, now)
            } else {
                Poll::Pending
            };
            let waits = read.is_pending();
            match read {
                Poll::Ready(LinkEvent::Ended) => return Poll::Ready(()),
                Poll::Ready(event) => self.send_back(event, now),
                Poll::Pending => {}
            }
            if let Some(LinkEvent::Ended) = self.link.poll_write(cx, Instant::now) {
                return Poll::Ready(());
            }
            if waits && (reads || !self.has_room()) {
                break;
            }
        }
        self.arm_timer(cx);
        Poll::Pending
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    actix_rt::System::new().block_on(async {
        let limits = Arc::new(Limits::default());
        let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
        let tokens = UserTokens::new(&Secret::new(SECRET.to_owned()), limits.token_leeway)?;
        let account = AccountId::from_uuid(environment.new_uuid());
        let token = tokens.mint(account, environment.now(), TOKEN_LIFETIME)?;
        let authenticator = Authenticator::new(tokens, environment);

        let of_links = Arc::clone(&limits);
        let door = UpgradeDoor::new(authenticator, limits, move |_, transport, early| {
            let limits = Arc::clone(&of_links);
            let reader = Reader::new(limits.max_message).keeping_binary();
            actix_rt::spawn(Echo::new(Link::new(transport, early, reader, limits)));
        });
        let listener = server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        println!("ws://{}{DEVICE_LINK} {token}", listener.local_addr()?);
        server::start(listener, WORKERS, door, |_| ())?.await?;
        Ok(())
    })
}
