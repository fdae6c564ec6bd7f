//! A CA, and servers with its certificates.

#![expect(unreachable_pub, clippy::expect_used, reason = "test support")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tempfile::TempDir;

pub const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];
pub const ONLY_12: &[&SupportedProtocolVersion] = &[&TLS12];
pub const ONLY_13: &[&SupportedProtocolVersion] = &[&TLS13];

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
    issued: AtomicU32,
}

/// PEM files.
pub struct Issued {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("it signs itself");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("ca.pem"), issuer.pem()).expect("it can be written");
        Authority { issuer, directory, issued: AtomicU32::new(0) }
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its own certificate.
    pub fn ca(&self) -> PathBuf {
        self.directory.path().join("ca.pem")
    }

    /// Its own certificate and its key, as those of a server.
    pub fn itself(&self) -> Issued {
        self.write(&self.issuer.pem(), self.issuer.key())
    }

    /// A certificate for a name or an address.
    pub fn issue(&self, name: &str) -> Issued {
        self.issue_with(name, |_| {})
    }

    pub fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("it signs");
        self.write(&certificate.pem(), &key)
    }

    /// A certificate for a name that is its own CA, and is no CA of others.
    pub fn self_signed(&self, name: &str) -> Issued {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.is_ca = IsCa::ExplicitNoCa;
        let key = KeyPair::generate().expect("a key");
        self.write(&params.self_signed(&key).expect("it signs").pem(), &key)
    }

    fn write(&self, certificate: &str, key: &KeyPair) -> Issued {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let path = |what: &str| self.directory.path().join(format!("{what}-{number}.pem"));
        let issued = Issued { cert: path("cert"), key: path("key") };
        std::fs::write(&issued.cert, certificate).expect("it can be written");
        std::fs::write(&issued.key, key.serialize_pem()).expect("it can be written");
        issued
    }

    /// A server for 127.0.0.1 that asks for no client certificate.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.issue("127.0.0.1").server(BOTH, None)
    }
}

impl Issued {
    /// A server with this certificate, which demands one of `clients` of its clients.
    pub fn server(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        clients: Option<&Authority>,
    ) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .expect("versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = RootCertStore::empty();
                roots.add(clients.issuer.der().clone()).expect("a CA");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let chain = CertificateDer::pem_file_iter(&self.cert).expect("it was written");
        let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
        let key = PrivateKeyDer::from_pem_file(&self.key).expect("a key");
        Arc::new(builder.with_single_cert(chain, key).expect("they belong together"))
    }
}
