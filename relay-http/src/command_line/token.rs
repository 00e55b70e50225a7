//! `relay token`: makes a user token with the local secret, for trying things out and for apps
//! without an identity provider.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use relay_model::ids::AccountId;

use super::configuration_arguments::ConfigurationArguments;
use super::{CommandError, Surroundings};
use crate::authentication::{UserTokens, signing_secret};
use crate::configuration::{SigningSecretSource, parse_duration};
use crate::system_environment::SystemEnvironment;

/// The longest lifetime of a token, in seconds: a year. Whoever needs more wants an API key.
const MAX_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

const EXAMPLES: &str = "\
Examples:
  relay token --account 7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10
  TOKEN=$(relay token --account \"$ACCOUNT\" --ttl 24h)

The secret is auth.hs256_secret, else the file that `relay serve` made in this folder.";

/// Print a user token (JWT) that is signed with the local secret.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The account that the token speaks for, a UUID.
    #[arg(long, value_name = "UUID")]
    account: AccountId,
    /// How long it is valid.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = lifetime)]
    ttl: Duration,
    #[command(flatten)]
    configuration: ConfigurationArguments,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let lifetime = parse_duration(text).map_err(|error| error.to_string())?;
    if (Duration::from_secs(1)..=MAX_LIFETIME).contains(&lifetime) {
        Ok(lifetime)
    } else {
        Err("allowed are 1s to 8760h".to_owned())
    }
}

impl Arguments {
    pub(super) fn run(
        self,
        before: ConfigurationArguments,
        surroundings: Surroundings<'_>,
    ) -> Result<(), CommandError> {
        let configuration = self.configuration.load(before, surroundings.environment)?;
        let settings = &configuration.settings;
        // A missing secret is not made here: in the wrong folder that would give tokens which no
        // relay accepts.
        let secret = match configuration.signing_secret() {
            None => return Err(CommandError::NoLocalSecret),
            Some(SigningSecretSource::Configured(secret)) => secret.clone(),
            Some(SigningSecretSource::File(path)) => signing_secret::load(path)?,
        };
        let rules = settings.claim_rules();
        let tokens = UserTokens::new(rules, Some(&secret), None, Arc::new(SystemEnvironment))
            .map_err(|error| CommandError::UnusableSecret(error.to_string()))?;
        let token = tokens.mint(self.account, self.ttl)?;
        writeln!(surroundings.output, "{token}")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::relay;
    use futures_util::FutureExt;
    use relay_actors::environment::Environment;

    use super::*;
    use crate::authentication::ClaimRules;
    use crate::configuration::Secret;
    use crate::exit::ExitStatus;

    const ACCOUNT: &str = "7f1c2f5e-0c0a-4d3b-9a51-2b8f6f9d7e10";
    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    /// OP-2: a minted token is accepted under the same secret, and is all that is printed.
    #[test]
    fn minted_tokens_are_valid() {
        let environment = [("RELAY__AUTH__HS256_SECRET", SECRET)];
        let ran = relay(
            &["token", "--account", ACCOUNT, "--ttl", "5m"],
            &environment,
        );
        assert_eq!(ran.status, ExitStatus::Done, "{}", ran.errors);
        let token = ran.output.strip_suffix('\n').unwrap();
        let tokens = tokens(ClaimRules::default());
        let verified = tokens.verify(token).now_or_never().unwrap().unwrap();
        assert_eq!(verified.account, ACCOUNT.parse().unwrap());
        let now = SystemEnvironment.now();
        assert!(verified.expires_at > now.plus(Duration::from_secs(290)));
        assert!(verified.expires_at < now.plus(Duration::from_secs(302)));
    }

    fn tokens(rules: ClaimRules) -> UserTokens {
        let secret = Secret::new(SECRET.to_owned());
        UserTokens::new(rules, Some(&secret), None, Arc::new(SystemEnvironment)).unwrap()
    }

    /// HTTP-4: a minted token names the issuer and the audience that the relay asks for.
    #[test]
    fn minted_tokens_fit_the_configuration() {
        let environment = [
            ("RELAY__AUTH__HS256_SECRET", SECRET),
            ("RELAY__AUTH__ISSUER", "me"),
            ("RELAY__AUTH__AUDIENCE", "relay"),
        ];
        let ran = relay(&["token", "--account", ACCOUNT], &environment);
        let rules = ClaimRules {
            issuer: Some("me".to_owned()),
            audience: Some("relay".to_owned()),
            ..ClaimRules::default()
        };
        let judged = tokens(rules).verify(ran.output.trim_end()).now_or_never();
        assert!(judged.unwrap().is_ok());
    }

    /// OP-1: when only public keys are configured, no token is made.
    #[test]
    fn with_public_keys_alone_there_is_no_token() {
        let environment = [("RELAY__AUTH__JWKS_URL", "https://login.example/keys")];
        let ran = relay(&["token", "--account", ACCOUNT], &environment);
        assert_eq!(ran.status, ExitStatus::Usage);
        assert!(ran.errors.contains("auth.hs256_secret"), "{}", ran.errors);
        assert!(ran.output.is_empty());
    }

    /// OP-1: without a secret there is no token, and nothing is made.
    #[test]
    fn without_a_secret_there_is_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("signing-secret");
        let set = format!("auth.secret_file={}", file.display());
        let ran = relay(&["token", "--account", ACCOUNT, "--set", &set], &[]);
        assert_eq!(ran.status, ExitStatus::Usage);
        assert!(ran.errors.contains("relay serve"), "{}", ran.errors);
        assert!(ran.output.is_empty() && !file.exists());
    }

    /// OP-1: lifetimes have a range.
    #[test]
    fn lifetimes_are_bounded() {
        for bad in ["0s", "999ms", "8761h", "1", "soon"] {
            let ran = relay(&["token", "--account", ACCOUNT, "--ttl", bad], &[]);
            assert_eq!(ran.status, ExitStatus::Usage, "{bad}");
            assert!(ran.errors.contains("--ttl"), "{}", ran.errors);
        }
    }
}
