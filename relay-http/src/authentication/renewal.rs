//! Tokens that arrive over a socket are judged by the door's own rules (SES-6).

use relay_actors::credentials::{NotVerified, TokenVerifier, Verification, VerifiedToken};

use super::tokens::TokenRefusal;
use super::UserTokens;

impl TokenVerifier for UserTokens {
    fn verify(&self, token: String) -> Verification {
        let tokens = self.clone();
        Box::pin(async move {
            match Self::verify(&tokens, &token).await {
                Ok(token) => Ok(VerifiedToken {
                    account: token.account,
                    expires_at: token.expires_at,
                }),
                Err(TokenRefusal::Invalid(_)) => Err(NotVerified::Invalid),
                Err(TokenRefusal::NoPublicKeys) => Err(NotVerified::Unavailable),
            }
        })
    }
}
