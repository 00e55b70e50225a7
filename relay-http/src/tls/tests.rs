use std::path::Path;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::*;
use crate::configuration::{FlagValue, Sources};

/// A certificate that ends with 2031, and its key.
fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut certificate = CertificateParams::new(vec!["relay.example".to_owned()]).unwrap();
    certificate.not_after = date_time_ymd(2032, 1, 1);
    let certificate = certificate.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn configured(folder: &Path) -> Configuration {
    let flag = |key: &str, name| FlagValue {
        flag: format!("--set {key}"),
        key: key.to_owned(),
        value: folder.join(name).display().to_string(),
    };
    Configuration::load(Sources {
        flags: vec![
            flag("server.tls_cert", "cert.pem"),
            flag("server.tls_key", "key.pem"),
        ],
        ..Sources::default()
    })
    .unwrap()
}

fn write(folder: &Path, certificate: &str, key: &str) {
    std::fs::write(folder.join("cert.pem"), certificate).unwrap();
    std::fs::write(folder.join("key.pem"), key).unwrap();
}

#[test]
fn without_files_there_is_no_tls() {
    assert!(Tls::of(&Configuration::default()).unwrap().is_none());
}

/// OP-1: what is wrong is told with the key that names the file, and never with what is in it.
#[test]
fn unusable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, configuration) = (folder.path(), configured(folder.path()));
    let error = || Tls::of(&configuration).unwrap_err().to_string();
    assert!(error().starts_with("server.tls_cert = "), "{}", error());
    let ((certificate, key), (_, other_key)) = (pair(), pair());
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let broken_key = "-----BEGIN PRIVATE KEY-----\nhunter2hunter2==\n-----END PRIVATE KEY-----\n";
    let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
    for (certificate, key, named, words) in [
        ("", key.as_str(), "server.tls_cert", "no certificate"),
        (&key, &key, "server.tls_cert", "no certificate"),
        (broken, &key, "server.tls_cert", "cannot be used"),
        (&certificate, "", "server.tls_key", "no private key"),
        (
            &certificate,
            &certificate,
            "server.tls_key",
            "no private key",
        ),
        (&certificate, &encrypted, "server.tls_key", "a passphrase"),
        (&certificate, broken_key, "server.tls_key", "private key"),
        (
            &certificate,
            &other_key,
            "server.tls_key",
            "server.tls_cert = ",
        ),
    ] {
        write(folder, certificate, key);
        let error = error();
        assert!(error.starts_with(&format!("{named} = ")), "{error}");
        assert!(
            error.contains(words) && error.contains("flag --set"),
            "{error}"
        );
        assert!(!error.contains("hunter2"), "{error}");
    }
}

/// OP-4: the next certificate is in force as a whole, and one that cannot be used changes nothing.
#[test]
fn a_reload_replaces_the_certificate_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ((certificate, key), (next_certificate, next_key)) = (pair(), pair());
    write(folder, &certificate, &key);
    let tls = Tls::of(&configured(folder)).unwrap().unwrap();
    let in_force = || Arc::clone(&tls.in_force.load().config);
    let first = in_force();
    write(folder, &next_certificate, &key);
    assert!(matches!(tls.reload(), Err(TlsError::File(_))));
    assert!(Arc::ptr_eq(&first, &in_force()));
    write(folder, &next_certificate, &next_key);
    tls.reload().unwrap();
    assert!(!Arc::ptr_eq(&first, &in_force()));
    assert!(!Arc::ptr_eq(
        &first.session_storage,
        &in_force().session_storage
    ));
}

/// Command line: the end of a certificate is told to the second.
#[test]
fn the_end_of_a_certificate_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = pair();
    write(folder.path(), &certificate, &key);
    let tls = Tls::of(&configured(folder.path())).unwrap().unwrap();
    let end = Timestamp::from_unix_micros(1_956_528_000_000_000);
    assert_eq!(tls.ends(), Some(end));
}
