//! What tokens are checked with (HTTP-4), and what operators show.

use crate::authentication::PublicKeys;
use crate::authentication::signing_secret::{self, SigningSecretError};
use crate::configuration::{Configuration, Settings, SigningSecretSource};

use super::Finding;

pub(super) async fn look(configuration: &Configuration) -> Vec<Finding> {
    let settings = &configuration.settings;
    let mut findings = Vec::new();
    findings.extend(configuration.signing_secret().map(signing));
    findings.extend(public_keys(settings).await);
    findings.push(operator(settings));
    findings
}

fn signing(source: SigningSecretSource<'_>) -> Finding {
    const NAME: &str = "signing secret";
    let path = match source {
        SigningSecretSource::Configured(_) => {
            return Finding::ok(NAME, "auth.hs256_secret is set");
        }
        SigningSecretSource::File(path) => path,
    };
    match signing_secret::load(path) {
        Ok(_) => Finding::ok(NAME, format!("{} can be read", path.display())),
        Err(SigningSecretError::Missing(_)) => Finding::ok(
            NAME,
            format!(
                "{} does not exist yet; `relay serve` makes it",
                path.display()
            ),
        ),
        Err(error) => Finding::fail(
            NAME,
            error.to_string(),
            "do what it says; the file is that of auth.secret_file",
        ),
    }
}

async fn public_keys(settings: &Settings) -> Option<Finding> {
    const NAME: &str = "public keys";
    let limits = &settings.limits;
    if let Some(path) = &settings.jwks_file {
        return Some(match PublicKeys::from_file(path, limits) {
            Ok(_) => Finding::ok(NAME, format!("{} can be read", path.display())),
            Err(error) => Finding::fail(
                NAME,
                error.to_string(),
                "put a JWK Set with a key for signatures there (RS256, ES256 or EdDSA)",
            ),
        });
    }
    let url = settings.jwks_url.as_ref()?;
    Some(match PublicKeys::probe_url(url, limits).await {
        Ok(count) => Finding::ok(NAME, format!("{url} has {count} of them")),
        Err(error) => Finding::unavailable(
            NAME,
            format!("{url}: {error}"),
            "see that this machine reaches the identity provider, and that auth.jwks_url is right; \
             until the keys were read once, every token is answered 503",
        ),
    })
}

fn operator(settings: &Settings) -> Finding {
    const NAME: &str = "operator token";
    if settings.admin_token.is_some() {
        Finding::ok(NAME, "admin.token is set")
    } else {
        Finding::warn(
            NAME,
            "there is none, and so no admin API",
            "set admin.token (openssl rand -hex 32) to use `relay status` and `relay drain`",
        )
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Outcome;
    use super::*;

    /// Command line: a secret that others can read, or that is none, is a failure; one that is not made
    /// yet is not.
    #[test]
    fn secrets_are_judged() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let judge = |path: &Path| signing(SigningSecretSource::File(path)).outcome;
        let path = folder.path().join("secret");
        assert_eq!(judge(&path), Outcome::Ok);
        std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
        let set_mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).unwrap();
        };
        set_mode(0o644);
        assert_eq!(judge(&path), Outcome::Fail);
        set_mode(0o600);
        assert_eq!(judge(&path), Outcome::Ok);
        std::fs::write(&path, "short").unwrap();
        assert_eq!(judge(&path), Outcome::Fail);
    }
}
