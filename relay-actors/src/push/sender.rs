//! What a push service is to the relay: something that takes a push and says what became of it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use relay_model::push::{PushEnvironment, PushPlatform, PushToken};
use relay_model::time::Timestamp;
use uuid::Uuid;

use super::content::PushContent;

/// What a sender returns: it runs where the caller polls it.
pub type PushFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A push on its way to one phone.
#[derive(Debug, Clone)]
pub struct Push {
    /// Names this push to its service.
    pub id: Uuid,
    /// Where to.
    pub token: PushToken,
    /// Of an iOS token, if its phone said it.
    pub environment: Option<PushEnvironment>,
    /// What.
    pub content: Arc<PushContent>,
    /// When it is of no use any more.
    pub expires_at: Timestamp,
}

/// What became of one attempt. Reasons hold no token and no credentials (PUSH-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// The service took it.
    Delivered,
    /// The service says that the token is gone (PUSH-4).
    TokenGone {
        /// Since when, if it says so: a registration after that is another matter.
        since: Option<Timestamp>,
    },
    /// The service takes no such message for this token; another attempt would end alike.
    Rejected(String),
    /// The service refuses the relay's credentials; the reason says what an operator can do.
    Refused(String),
    /// Worth another attempt.
    Failed {
        /// What the service asked for in `Retry-After`.
        retry_after: Option<Duration>,
        /// Why.
        reason: String,
    },
}

/// One push service.
pub trait PushSender: Send + Sync + 'static {
    /// Sends a push. Called by one actor, one push after the other; the futures run side by side. A
    /// future that is dropped has no effect on others.
    fn send(&self, push: Push) -> PushFuture<Attempt>;

    /// Tries the credentials with a message that reaches nobody. The error says what to do.
    fn check(&self) -> PushFuture<Result<(), String>>;
}

/// The push services of a relay; none of them has to be there (PUSH-1).
#[derive(Clone, Default)]
pub struct PushServices {
    /// For iOS.
    pub apns: Option<Arc<dyn PushSender>>,
    /// For Android.
    pub fcm: Option<Arc<dyn PushSender>>,
}

/// What a dry run of a push service came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushCheck {
    /// Decides the service.
    pub platform: PushPlatform,
    /// What to do, if it does not take the relay's credentials.
    pub result: Result<(), String>,
}

impl PushServices {
    /// The service for a kind of phone.
    pub(super) fn of(&self, platform: PushPlatform) -> Option<&Arc<dyn PushSender>> {
        match platform {
            PushPlatform::Ios => self.apns.as_ref(),
            PushPlatform::Android => self.fcm.as_ref(),
        }
    }

    /// Whether nothing can be sent at all.
    pub fn are_off(&self) -> bool {
        self.apns.is_none() && self.fcm.is_none()
    }

    /// Tries the credentials of each service that is configured, with messages that reach nobody; for
    /// `relay doctor`.
    pub async fn check(&self) -> Vec<PushCheck> {
        let mut checks = Vec::new();
        for platform in [PushPlatform::Ios, PushPlatform::Android] {
            if let Some(sender) = self.of(platform) {
                let result = sender.check().await;
                checks.push(PushCheck { platform, result });
            }
        }
        checks
    }
}
