//! One desktop and many phones, each with a live lease on the same session.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::client::{Client, Endpoint};
use super::devices::Pair;
use super::error::LoadError;
use super::fleet;
use super::timeline::{Interest, interest};

/// Sockets opened at a time.
const AT_ONCE: usize = 16;
/// How often a phone renews its lease (TL-3).
const RENEWAL: Duration = Duration::from_secs(20);
/// The longest that the desktop may wait to hear of all of its phones.
const LEASES_LIMIT: Duration = Duration::from_secs(30);

/// A phone with a lease.
pub(super) struct Looker {
    client: Client,
    renewal: Instant,
}

impl Looker {
    async fn begin(client: Client) -> Result<Self, LoadError> {
        let mut looker = Self {
            client,
            renewal: Instant::now(),
        };
        looker.renew_if_due().await?;
        Ok(looker)
    }

    /// When the lease is to be renewed.
    pub(super) fn renewal(&self) -> Instant {
        self.renewal
    }

    pub(super) async fn renew_if_due(&mut self) -> Result<(), LoadError> {
        let now = Instant::now();
        if now >= self.renewal {
            self.client.send(&interest()).await?;
            self.renewal = now + RENEWAL;
        }
        Ok(())
    }

    /// Reads once, as [`Client::read`] does. The lease is renewed on the occasion: something must
    /// arrive more often than it ends.
    pub(super) async fn read(
        &mut self,
        on_message: impl FnMut(&[u8]) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        self.renew_if_due().await?;
        self.client.read(on_message).await
    }
}

/// Registered, and the desktop has heard of every lease.
pub(super) struct Crowd {
    pub(super) desktop: Client,
    pub(super) phones: Vec<Looker>,
    /// What the desktop knows of the leases.
    pub(super) interest: Interest,
    /// The proof that it publishes with.
    pub(super) generation: u64,
}

impl Crowd {
    /// Opens the desktop of the pair and its first `phones` phones.
    ///
    /// # Errors
    /// When a registration fails, or the desktop does not hear of every lease.
    pub(super) async fn open(
        endpoint: &Endpoint,
        pair: Pair,
        phones: usize,
    ) -> Result<Self, LoadError> {
        let mut desktop = Client::open(endpoint, pair.desktop()).await?;
        let endpoint = endpoint.clone();
        let phones = fleet::for_each(0..phones, AT_ONCE, move |number| {
            let endpoint = endpoint.clone();
            async move {
                let client = Client::open(&endpoint, pair.nth_phone(number)).await?;
                Looker::begin(client).await
            }
        })
        .await?;
        let mut interest = Interest::default();
        let heard = async {
            while interest.heard() < phones.len() {
                desktop.read(|message| interest.hear(message)).await?;
            }
            Ok::<_, LoadError>(())
        };
        let late = LoadError::TimedOut {
            what: "word of every lease",
            limit: LEASES_LIMIT,
        };
        match timeout(LEASES_LIMIT, heard).await {
            Ok(heard) => heard?,
            Err(_) => return Err(late),
        }
        let generation = interest.generation().ok_or(late)?;
        Ok(Self {
            desktop,
            phones,
            interest,
            generation,
        })
    }
}
