//! Certificates for tests, and an authority that signs them.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

/// An authority, with its certificate.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as PEM files hold them.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    /// As a client sees it.
    pub(crate) der: Vec<u8>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(parameters, key).expect("a certificate"))
    }

    pub(crate) fn certificate(&self) -> String {
        self.0.pem()
    }

    /// A certificate for a name, valid until a year begins.
    pub(crate) fn sign_until(&self, name: &str, year: i32) -> Pair {
        let mut parameters = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.0).expect("a certificate");
        let der = certificate.der().to_vec();
        Pair { certificate: certificate.pem(), key: key.serialize_pem(), der }
    }

    pub(crate) fn sign(&self, name: &str) -> Pair {
        self.sign_until(name, 2100)
    }
}

impl Pair {
    /// Puts the files in the place of those before, each at once, as `mv` does.
    pub(crate) fn write(&self, directory: &Path, name: &str) {
        for (kind, text) in [("cert", &self.certificate), ("key", &self.key)] {
            let path = directory.join(format!("{name}-{kind}.pem"));
            let beside = path.with_extension("new");
            fs::write(&beside, text).expect("a file");
            fs::rename(&beside, &path).expect("it takes the place");
        }
    }
}
