//! A certificate and its private key, from their files.

use std::sync::Arc;
use std::time::Duration;

use relay_model::time::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, Error, InconsistentKeys, RootCertStore};
use zeroize::Zeroizing;

use super::provider;
use crate::configured_file::{ConfiguredFile, UnusableFile};

/// The year 10000, in seconds since 1970: no certificate can name a later time, so each has ended then.
const AFTER_EVERY_CERTIFICATE: Duration = Duration::from_secs(253_402_300_800);

/// The chain in `certificate` with the key in `key`.
///
/// # Errors
/// When one of them cannot be used, or they do not belong together.
pub(super) fn read(
    certificate: &ConfiguredFile,
    key: &ConfiguredFile,
) -> Result<CertifiedKey, UnusableFile> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate.bytes()?).collect();
    let chain = chain.map_err(|error| certificate.unusable(format!("it is no PEM: {error}")))?;
    if chain.is_empty() {
        return Err(certificate.unusable(
            "it holds no certificate; put that of this server there, and behind it those of the \
             authorities between (PEM)",
        ));
    }
    let pem = Zeroizing::new(key.bytes()?);
    // What the library says might repeat a line of the file.
    let private = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
        key.unusable(
            "it holds no private key in PEM (PKCS #8, PKCS #1 or SEC 1) without a passphrase",
        )
    })?;
    let provider = provider();
    let private = provider.key_provider.load_private_key(private);
    let private = private.map_err(|_| {
        key.unusable("its private key cannot be used; make one for RSA, ECDSA or Ed25519")
    })?;
    let certified = CertifiedKey::new(chain, private);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(key.unusable(format!(
            "it is not the key of the certificate in {} = {}; put the two of one pair there",
            certificate.key(),
            certificate.path().display()
        ))),
        Err(error) => Err(certificate.unusable(format!("its certificate cannot be used: {error}"))),
    }
}

/// When `certificate` ends; `None` if that cannot be told. It is asked of the check of validity that the
/// library has, at a time at which every certificate has ended.
pub(super) fn end_of(certificate: &CertificateDer<'static>) -> Option<Timestamp> {
    let mut roots = RootCertStore::empty();
    // Only because there must be one: the time is checked before who has signed.
    roots.add(certificate.clone()).ok()?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
    let verifier = verifier.build().ok()?;
    let name = ServerName::try_from("relay").ok()?;
    let then = UnixTime::since_unix_epoch(AFTER_EVERY_CERTIFICATE);
    match verifier.verify_server_cert(certificate, &[], &name, &[], then) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            let seconds = i64::try_from(not_after.as_secs()).ok()?;
            Some(Timestamp::from_unix_micros(seconds.checked_mul(1_000_000)?))
        }
        _ => None,
    }
}
