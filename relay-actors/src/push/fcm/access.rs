//! Access tokens of a service account: one at a time, fetched once however many pushes wait for it.

use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use futures_util::future::Shared;
use gcp_auth::{CustomServiceAccount, TokenProvider};

use super::FcmError;

/// What a service account must be allowed to do.
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";

/// An access token; its `Debug` does not show it.
pub(super) type Access = gcp_auth::Token;

/// Why there is no access token.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "no access token: {0}; check push.fcm.service_account_file, the way to its token_uri, and this \
     machine's clock"
)]
pub(super) struct NoAccess(String);

type Fetched = Result<Arc<Access>, NoAccess>;

/// An access token, there or on its way.
pub(super) type Fetch = Shared<Pin<Box<dyn Future<Output = Fetched> + Send>>>;

/// The access token in use.
pub(super) struct AccessTokens {
    service_account: Arc<str>,
    current: ArcSwapOption<Fetch>,
}

impl AccessTokens {
    /// Tokens of the account whose key this is, and the account's project.
    ///
    /// # Errors
    /// When it is no key.
    pub(super) fn new(service_account: String) -> Result<(Self, String), FcmError> {
        let account = CustomServiceAccount::from_json(&service_account)
            .map_err(|_| FcmError::ServiceAccount)?;
        let project = account.project_id().ok_or(FcmError::Project)?.to_owned();
        let tokens = Self {
            service_account: service_account.into(),
            current: ArcSwapOption::empty(),
        };
        Ok((tokens, project))
    }

    /// The token in use, or the one that is being fetched; a new one if that expired or did not come.
    pub(super) fn current(&self) -> Fetch {
        if let Some(current) = self.current.load_full() {
            match current.peek() {
                None => return (*current).clone(),
                Some(Ok(access)) if !access.has_expired() => return (*current).clone(),
                Some(_) => {}
            }
        }
        self.fetch()
    }

    /// A token instead of one that was not taken: another push may have seen to it already.
    pub(super) fn instead_of(&self, refused: &Arc<Access>) -> Fetch {
        if let Some(current) = self.current.load_full() {
            let is_refused = match current.peek() {
                Some(Ok(access)) => Arc::ptr_eq(access, refused),
                _ => false,
            };
            if !is_refused {
                return self.current();
            }
        }
        self.fetch()
    }

    fn fetch(&self) -> Fetch {
        let service_account = Arc::clone(&self.service_account);
        let fetch: Pin<Box<dyn Future<Output = Fetched> + Send>> = Box::pin(async move {
            // An account keeps its token until that expires, and could not be told that it is refused.
            let account = CustomServiceAccount::from_json(&service_account);
            let account = account.map_err(|error| NoAccess(error.to_string()))?;
            let access = account.token(&[SCOPE]).await;
            access.map_err(|error| NoAccess(error.to_string()))
        });
        let fetch = fetch.shared();
        self.current.store(Some(Arc::new(fetch.clone())));
        fetch
    }
}
