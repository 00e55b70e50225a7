//! What all connections of the process may hold together, beside what each may hold alone: bytes that
//! wait to be written, and bytes of messages that are not finished yet.

mod outbound;
mod unfinished;

use std::sync::Arc;

use relay_model::limits::Limits;

use crate::metrics::Tallies;

pub use outbound::{OutboundCharge, OutboundTotal};
pub use unfinished::{UnfinishedShare, UnfinishedTotal};

/// Both ceilings, shared by every connection.
#[derive(Debug, Clone)]
pub struct Ceilings {
    /// Bytes that wait to be written.
    pub outbound: Arc<OutboundTotal>,
    /// Bytes of unfinished messages.
    pub unfinished: Arc<UnfinishedTotal>,
}

impl Ceilings {
    /// Nothing held, under `limits`.
    pub fn new(limits: &Limits) -> Self {
        Self::counting(limits, Arc::default())
    }

    /// The same; what leaves is counted in `tallies`.
    pub(crate) fn counting(limits: &Limits, tallies: Arc<Tallies>) -> Self {
        Self {
            outbound: Arc::new(OutboundTotal::new(limits, tallies)),
            unfinished: Arc::new(UnfinishedTotal::new(limits)),
        }
    }
}
