//! Certificates for 127.0.0.1, from an authority of the test's own.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// Who vouches for the servers of a test.
pub(crate) struct Authority {
    /// Its certificate, in PEM.
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A server's certificate and its private key.
pub(crate) struct Pair {
    /// The certificate in DER.
    pub(crate) der: Vec<u8>,
    certificate_pem: String,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Another certificate with a key of its own.
    pub(crate) fn issue(&self) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("an address");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair {
            der: certificate.der().to_vec(),
            certificate_pem: certificate.pem(),
            key,
        }
    }
}

impl Pair {
    /// The private key in DER.
    pub(crate) fn key_der(&self) -> Vec<u8> {
        self.key.serialize_der()
    }

    /// The private key in PEM.
    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Puts the certificate there.
    pub(crate) fn write_certificate(&self, path: &Path) {
        std::fs::write(path, &self.certificate_pem).expect("a folder of the test");
    }

    /// Puts the private key there.
    pub(crate) fn write_key(&self, path: &Path) {
        std::fs::write(path, self.key_pem()).expect("a folder of the test");
    }
}
