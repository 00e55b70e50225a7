//! One message of the largest size in each direction: how often the server holds it at once.

use relay_model::limits::{ENVELOPE_HEADROOM, MAX_MESSAGE};

use super::client::Endpoint;
use super::devices::Pair;
use super::error::LoadError;
use super::figures::{Figure, Measured};
use super::fleet;
use super::process::Process;
use super::settle::resident_at_rest;

/// The largest message in bytes (TR-3), less the room that the relay keeps for the fields which it
/// adds to a request, twice: once for its rule and once for what it does add.
const MESSAGE: usize = MAX_MESSAGE - 2 * ENVELOPE_HEADROOM;
const WARM_UP_MESSAGE: usize = 256;

/// One large request and one large answer.
#[derive(Debug, Clone, Copy)]
pub struct BigLoad;

impl BigLoad {
    /// Runs the load against a server. Peaks are those of the whole process, whatever it held
    /// before; that is told beside them.
    ///
    /// # Errors
    /// When a connection breaks or a message does not arrive intact.
    pub async fn run(
        self,
        endpoint: &Endpoint,
        server: Process,
    ) -> Result<Vec<Measured>, LoadError> {
        let (mut fleet, _) = fleet::open(endpoint, std::iter::once(Pair(0)), 1).await?;
        let mut figures = Vec::new();
        for linked in &mut fleet {
            let id = linked.request(WARM_UP_MESSAGE, 1).await?;
            linked.answer(WARM_UP_MESSAGE, id).await?;
            let resting = resident_at_rest(server).await?;

            server.reset_peak()?;
            let id = linked.request(MESSAGE, 2).await?;
            let request = server.peak()?;

            resident_at_rest(server).await?;
            server.reset_peak()?;
            linked.answer(MESSAGE, id).await?;
            let response = server.peak()?;

            for (figure, bytes) in [
                (Figure::RequestPeak, request),
                (Figure::ResponsePeak, response),
                (Figure::RestingMemory, resting),
            ] {
                figures.push(figure.of(bytes as f64 / MESSAGE as f64));
            }
        }
        Ok(figures)
    }
}
