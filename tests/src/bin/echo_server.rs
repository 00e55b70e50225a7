//! What the conformance suite talks to: the relay's own upgrade service and its own SocketActor, with
//! an echo in place of the relay's protocol. Prints its URL and a token for it, then serves until it
//! is killed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use relay_actors::Relay;
use relay_actors::environment::Environment;
use relay_actors::push::PushServices;
use relay_http::authentication::{Authenticator, ClaimRules, UserTokens};
use relay_http::configuration::Secret;
use relay_http::server;
use relay_http::system_environment::SystemEnvironment;
use relay_http::upgrade::{DEVICE_LINK, UpgradeDoor};
use relay_model::ids::AccountId;
use relay_model::limits::Limits;
use relay_tests::memory_store::MemoryStore;

/// Signs the one token that is printed.
const SECRET: &str = "a secret that is good enough for an echo";
/// How long the token is good for: longer than the suite runs.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3_600);
const WORKERS: usize = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    actix_rt::System::new().block_on(async {
        let limits = Arc::new(Limits::default());
        let environment: Arc<dyn Environment> = Arc::new(SystemEnvironment);
        let secret = Secret::new(SECRET.to_owned());
        let rules = ClaimRules::default();
        let tokens = UserTokens::new(rules, Some(&secret), None, Arc::clone(&environment))?;
        let account = AccountId::from_uuid(environment.new_uuid());
        let token = tokens.mint(account, TOKEN_LIFETIME)?;
        let relay = Relay::start(
            Arc::clone(&limits),
            Arc::clone(&environment),
            Arc::new(MemoryStore::new()),
            Arc::new(tokens.clone()),
            PushServices::default(),
        );
        let authenticator = Authenticator::new(tokens, Arc::new(relay.clone()), environment);
        let door = UpgradeDoor::new(authenticator, limits, move |origin, transport, early| {
            relay.accept_echo(origin, transport, early);
        });
        let listener = server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        println!("ws://{}{DEVICE_LINK} {token}", listener.local_addr()?);
        server::start(listener, WORKERS, door, |_| ())?.await?;
        Ok(())
    })
}
