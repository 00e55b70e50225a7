//! One request and its answer, each in turn, for the loads that look at memory and not at speed.

use std::time::Duration;

use tokio::time::timeout;

use super::client::Client;
use super::error::LoadError;
use super::fleet::Linked;
use super::timeline::{Heard, Interest, Snapshots, Version, interest};
use super::traffic::{Inspector, RequestId, Template};

/// The longest that one message may take on a busy machine.
const MESSAGE_LIMIT: Duration = Duration::from_secs(60);

impl Linked {
    /// Sends one request of `size` bytes from the phone to the desktop; returns its id.
    ///
    /// # Errors
    /// When it does not arrive intact.
    pub(super) async fn request(
        &mut self,
        size: usize,
        number: u64,
    ) -> Result<RequestId, LoadError> {
        let id = RequestId::new(self.pair.0, 0, number);
        let template = Template::request(size);
        let inspector = Inspector::of_requests(&template);
        pass(&mut self.phone, &mut self.desktop, &template, inspector, id).await?;
        Ok(id)
    }

    /// Sends the answer of `size` bytes to the request with this id back.
    ///
    /// # Errors
    /// When it does not arrive intact.
    pub(super) async fn answer(&mut self, size: usize, id: RequestId) -> Result<(), LoadError> {
        let template = Template::response(size, self.pair.phone().id());
        let inspector = Inspector::of_responses(&template);
        pass(&mut self.desktop, &mut self.phone, &template, inspector, id).await
    }

    /// Lets the phone take a lease, and sends it one snapshot of `size` bytes under it.
    ///
    /// # Errors
    /// When it does not arrive intact.
    pub(super) async fn snapshot(&mut self, size: usize) -> Result<(), LoadError> {
        timeout(MESSAGE_LIMIT, self.pass_snapshot(size))
            .await
            .unwrap_or(Err(LoadError::TimedOut {
                what: "the arrival of a snapshot",
                limit: MESSAGE_LIMIT,
            }))
    }

    async fn pass_snapshot(&mut self, size: usize) -> Result<(), LoadError> {
        self.phone.send(&interest()).await?;
        let mut known = Interest::default();
        let generation = loop {
            self.desktop.read(|message| known.hear(message)).await?;
            if let Some(generation) = known.generation() {
                break generation;
            }
        };
        let sent = Version::default();
        let mut snapshots = Snapshots::new(size, generation);
        let mut inspector = snapshots.inspector();
        let mut arrived = None;
        let arrival = async {
            while arrived.is_none() {
                self.phone
                    .read(|message| match inspector.inspect(message)? {
                        Heard::Snapshot(version) => {
                            arrived = Some(version);
                            Ok(())
                        }
                        Heard::Other(event) if event.is_presence() => Ok(()),
                        Heard::Other(_) => Err(LoadError::unexpected(message)),
                    })
                    .await?;
            }
            Ok::<_, LoadError>(())
        };
        tokio::try_join!(self.desktop.send(snapshots.frame(sent)), arrival)?;
        match arrived {
            Some(version) if version != sent => Err(LoadError::OutOfOrder {
                what: "snapshot",
                got: version.number,
                last: sent.number,
            }),
            _ => Ok(()),
        }
    }
}

async fn pass(
    from: &mut Client,
    to: &mut Client,
    template: &Template,
    mut inspector: Inspector,
    id: RequestId,
) -> Result<(), LoadError> {
    let mut frame = Vec::new();
    template.append(&mut frame, id);
    let arrival = async {
        let mut arrived = None;
        while arrived.is_none() {
            to.read(|message| {
                arrived = inspector.inspect(message)?.or(arrived);
                Ok(())
            })
            .await?;
        }
        match arrived {
            Some(arrived) if arrived != id => Err(LoadError::UnknownId(arrived.to_string())),
            _ => Ok(()),
        }
    };
    let both = async { tokio::try_join!(from.send(&frame), arrival) };
    timeout(MESSAGE_LIMIT, both)
        .await
        .unwrap_or(Err(LoadError::TimedOut {
            what: "the arrival of a message",
            limit: MESSAGE_LIMIT,
        }))?;
    Ok(())
}
