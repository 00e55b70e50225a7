//! The outside world of a relay in production: the system's clock, its random numbers, and its end.

use relay_actors::environment::{Environment, FatalFault};
use relay_model::ids::ResumeToken;
use relay_model::time::Timestamp;
use uuid::Uuid;

use crate::exit::ExitStatus;

/// The real world.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is what everybody else asks instead"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::from_datetime(chrono::Utc::now())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is what everybody else asks instead"
    )]
    fn new_uuid(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn new_resume_token(&self) -> ResumeToken {
        let mut bytes = [0; ResumeToken::BYTES];
        if let Err(error) = getrandom::fill(&mut bytes) {
            // A token that can be guessed is worse than no relay.
            tracing::error!(%error, "the operating system gave no random numbers");
            std::process::exit(ExitStatus::Internal.code());
        }
        ResumeToken::from_bytes(bytes)
    }

    fn fatal(&self, fault: FatalFault) {
        tracing::error!(actor = fault.actor, "{fault}");
        std::process::exit(ExitStatus::Internal.code());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SES-4: tokens do not repeat.
    #[test]
    fn tokens_and_ids_differ() {
        let world = SystemEnvironment;
        assert!(world.new_resume_token() != world.new_resume_token());
        assert_ne!(world.new_uuid(), world.new_uuid());
        assert!(world.now() > Timestamp::from_unix_micros(1_700_000_000_000_000));
    }
}
