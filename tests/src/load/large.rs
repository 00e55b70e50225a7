//! A phone that loads one large answer after the other, beside the load that is measured.
//!
//! Its ends are served by a thread of their own: what the load program itself does with so many bytes
//! then keeps none of the measured ends waiting for longer than the kernel lets it.

use std::thread;

use tokio::runtime;
use tokio::sync::oneshot;

use super::client::{Client, Endpoint};
use super::devices::Pair;
use super::error::LoadError;
use super::histogram::Histogram;
use super::phase::Phase;
use super::rpc::{self, Desktop, Slots};
use super::traffic::{Inspector, Template};

/// Bytes of every large answer, envelope included.
const LARGE: usize = 12 * 1024 * 1024;
/// The phone's number in its request ids, which no pair has.
const LOADER: usize = 0xFFFF_FFFF;

/// Where the loader's answers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Large {
    /// There is no loader
    None,
    /// A desktop of another account
    Own,
    /// The desktop of a measured phone
    Shared,
}

/// The loader at work.
pub(super) struct Loader {
    ended: oneshot::Receiver<Result<Histogram, LoadError>>,
    /// Dropped when nothing needs the desktop any more.
    running: oneshot::Sender<()>,
}

impl Loader {
    /// Starts it, with this desktop of this pair or with the pair's own.
    pub(super) async fn start(
        endpoint: &Endpoint,
        pair: Pair,
        shared: Option<Client>,
        size: usize,
        phase: Phase,
    ) -> Result<Self, LoadError> {
        let (phone, desktop) = match shared {
            Some(desktop) => (pair.nth_phone(1), desktop),
            None => (pair.phone(), Client::open(endpoint, pair.desktop()).await?),
        };
        let client = Client::open(endpoint, phone).await?;
        let answer = Template::response(LARGE, phone.id());
        let answers = Inspector::of_responses(&answer);
        let slots = Slots::new(LOADER, 1);
        let desktop = Desktop::new(desktop, pair, size).with_large(LOADER, answer);
        let (running, until) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let work = async move {
            let phone = async {
                let durations =
                    rpc::ask(client, Template::request(size), answers, slots, phase).await?;
                // The desktop goes on for its other phone until the run is over.
                let _ = until.await;
                Ok(durations)
            };
            tokio::select! {
                failed = desktop.serve() => failed.map(|never| match never {}),
                loaded = phone => loaded,
            }
        };
        thread::spawn(move || {
            let result = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(LoadError::from)
                .and_then(|runtime| runtime.block_on(work));
            // Without a receiver nobody wants to know.
            let _ = end.send(result);
        });
        Ok(Self { ended, running })
    }

    /// Waits until it fails.
    pub(super) async fn failure(&mut self) -> LoadError {
        match (&mut self.ended).await {
            Ok(Err(error)) => error,
            _ => LoadError::Unexpected("the end of the loader in the middle of the run".to_owned()),
        }
    }

    /// Ends it once its phone has its last answer; how long those took that came in the measured time.
    pub(super) async fn end(self) -> Result<Histogram, LoadError> {
        let Self { ended, running } = self;
        drop(running);
        ended
            .await
            .unwrap_or_else(|_| Err(LoadError::Unexpected("a panic of the loader".to_owned())))
    }
}
