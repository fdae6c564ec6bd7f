//! Notes that a server asked for the client's certificate.
//!
//! A server with TLS 1.3 refuses a client only after the handshake, and often without an alert. The note tells such a refusal from
//! another end of the connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

/// Gives the certificate to the server, if there is one.
#[derive(Debug)]
pub(crate) struct CertificateRequest {
    certificate: Arc<dyn ResolvesClientCert>,
    is_received: AtomicBool,
}

impl CertificateRequest {
    pub(crate) fn new(certificate: Arc<dyn ResolvesClientCert>) -> CertificateRequest {
        CertificateRequest { certificate, is_received: AtomicBool::new(false) }
    }

    /// Whether the server has asked.
    pub(crate) fn is_received(&self) -> bool {
        self.is_received.load(Ordering::Relaxed)
    }
}

impl ResolvesClientCert for CertificateRequest {
    fn resolve(&self, issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.is_received.store(true, Ordering::Relaxed);
        self.certificate.resolve(issuers, schemes)
    }

    fn has_certs(&self) -> bool {
        self.certificate.has_certs()
    }
}
