//! A world in which time stands still, for the tests of this folder.

use std::sync::Arc;

use relay_actors::environment::{Environment, FatalFault};
use relay_model::ids::ResumeToken;
use relay_model::time::Timestamp;
use uuid::Uuid;

pub(super) struct StillWorld(Timestamp);

impl StillWorld {
    pub(super) fn at(now: Timestamp) -> Arc<dyn Environment> {
        Arc::new(Self(now))
    }
}

impl Environment for StillWorld {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn new_uuid(&self) -> Uuid {
        Uuid::nil()
    }

    fn new_resume_token(&self) -> ResumeToken {
        ResumeToken::from_bytes([0; ResumeToken::BYTES])
    }

    fn fatal(&self, fault: FatalFault) {
        panic!("{fault}");
    }
}
