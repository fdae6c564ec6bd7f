//! What a listener's connections are encrypted with, read from its files and checked as a whole.

use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use bbq_spec::{Secret, unix_seconds};
use rustls::client::verify_server_name;
use rustls::crypto::ring::default_provider;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys, RootCertStore, ServerConfig};
use tracing::warn;
use zeroize::Zeroize as _;

use crate::files::{Stamp, TlsFiles};
use crate::validity::not_after;

/// The largest file of certificates: four times the size of those of all public CAs together.
const CERTIFICATES_BYTES_MAX: u64 = 1024 * 1024;

/// Certificates, keys and rules for new connections.
#[derive(Clone)]
pub struct Certificates {
    pub(crate) config: Arc<ServerConfig>,
    /// The stamp of the files a moment before they were read.
    pub(crate) stamp: Stamp,
}

/// The option whose file cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct TlsFileError {
    key: &'static str,
    problem: String,
}

impl Certificates {
    /// Reads the files. `application` lists the protocols inside TLS that clients may ask for (ALPN), the preferred one first. If
    /// it is empty, clients cannot ask.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn read(files: &TlsFiles, application: &[&[u8]]) -> Result<Certificates, TlsFileError> {
        let stamp = files.stamp();
        let provider = Arc::new(default_provider());
        let pairs = files.certificates.iter().zip(&files.keys);
        let pairs = pairs.map(|(certificate, key)| certified(certificate, key).map(Arc::new));
        let by_name = ByName(pairs.collect::<Result<_, _>>()?);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| problem("tls_cert", error.to_string()))?;
        let builder = match &files.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(authorities("tls_client_ca", path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                let unusable = |error| problem("tls_client_ca", format!("{}: {error}", path.display()));
                builder.with_client_cert_verifier(verifier.map_err(unusable)?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(by_name));
        // A client that only sends does not read the tickets. If it closes its socket with unread tickets, its kernel resets the
        // connection and discards what is still to be sent (RFC 2525, 2.17): messages would be lost.
        config.send_tls13_tickets = 0;
        // A session of TLS 1.2 that goes on has no certificates in its handshake: one that has expired meanwhile would not be noticed.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = application.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Certificates { config: Arc::new(config), stamp })
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificates")
    }
}

/// Chooses a certificate by the name that the client asks for; the first one when no other has that name.
#[derive(Debug)]
struct ByName(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let first = self.0.first();
        if self.0.len() == 1 {
            return first.cloned();
        }
        let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
        let named = name.and_then(|name| self.0.iter().find(|pair| has_name(pair, &name)));
        named.or(first).cloned()
    }
}

fn has_name(pair: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let certificate = pair.cert.first().and_then(|certificate| ParsedCertificate::try_from(certificate).ok());
    certificate.is_some_and(|certificate| verify_server_name(&certificate, name).is_ok())
}

pub(crate) fn certified(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsFileError> {
    let chain = certificates("tls_cert", certificate)?;
    warn_if_expired(certificate, &chain);
    let secret = Secret::of_file(key).map_err(|why| problem("tls_key", why))?;
    let shown = key.display();
    let mut key = PrivateKeyDer::from_pem_slice(secret.expose().as_bytes()).map_err(|_| {
        let text =
            format!("{shown} has no private key; it must begin with -----BEGIN PRIVATE KEY----- (PEM)");
        problem("tls_key", text)
    })?;
    let signing = any_supported_type(&key);
    key.zeroize();
    let pair = signing.map(|key| CertifiedKey::new(chain, key)).and_then(|pair| match pair.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(pair),
        Err(error) => Err(error),
    });
    pair.map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => problem(
            "tls_key",
            format!(
                "{shown} is not the key of the certificate in {}; write the key that the certificate was made with",
                certificate.display()
            ),
        ),
        Error::InvalidCertificate(error) => {
            let shown = certificate.display();
            problem("tls_cert", format!("{shown}: the first certificate is not valid: {error:?}"))
        }
        error => problem("tls_key", format!("{shown} cannot be used: {error}; use RSA with 2048 bits or more, ECDSA or Ed25519")),
    })
}

pub(crate) fn authorities(key: &'static str, path: &Path) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, path)? {
        roots.add(certificate).map_err(|error| {
            problem(key, format!("{}: a certificate is not valid: {error}", path.display()))
        })?;
    }
    Ok(roots)
}

/// The certificates of a file; at least one.
fn certificates(key: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let shown = path.display();
    let bytes = bytes(path).map_err(|why| problem(key, why))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| problem(key, format!("{shown} is not valid PEM: {error}")))?;
    let Some(first) = found.first() else {
        let text =
            format!("{shown} has no certificate; it must begin with -----BEGIN CERTIFICATE----- (PEM)");
        return Err(problem(key, text));
    };
    match ParsedCertificate::try_from(first) {
        Ok(_) => Ok(found),
        Err(error) => Err(problem(key, format!("{shown}: the first certificate is not valid: {error}"))),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let unreadable = |error| format!("cannot read {shown}: {error}");
    // This comes before the file is opened: opening a pipe would wait for its writer.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(format!("{shown} is not a regular file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(CERTIFICATES_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 {
        0 => Err(format!("{shown} is empty")),
        1..=CERTIFICATES_BYTES_MAX => Ok(bytes),
        _ => Err(format!("{shown} is larger than {CERTIFICATES_BYTES_MAX} bytes")),
    }
}

/// An expired certificate is no error: clients decide whether they accept it, and some do.
fn warn_if_expired(path: &Path, chain: &[CertificateDer<'static>]) {
    let end = chain.first().and_then(|certificate| not_after(certificate));
    if end.is_some_and(|end| end < i64::try_from(unix_seconds()).unwrap_or(i64::MAX)) {
        warn!(path = %path.display(), "this certificate has expired, and most clients refuse it; replace the file");
    }
}

pub(crate) fn problem(key: &'static str, problem: String) -> TlsFileError {
    TlsFileError { key, problem }
}
