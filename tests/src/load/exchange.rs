//! One request and its answer, each in turn, for the loads that look at memory and not at speed.

use std::time::Duration;

use tokio::time::timeout;

use super::client::Client;
use super::error::LoadError;
use super::fleet::Linked;
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
