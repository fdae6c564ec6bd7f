//! The state of a TLS connection, which its two halves share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{ClientConnection, SignatureScheme};

use crate::delivery::tls::failure::Peer;

pub(super) struct Session {
    /// Never locked while a socket is read or written.
    connection: Mutex<ClientConnection>,
    pub(super) peer: Peer,
    pub(super) request: Arc<CertificateRequest>,
}

impl Session {
    pub(super) fn new(connection: ClientConnection, peer: Peer, request: Arc<CertificateRequest>) -> Session {
        Session { connection: Mutex::new(connection), peer, request }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ClientConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives the client's certificate to the server, if there is one, and notes that the server asked for it. The note is needed because a
/// TLS 1.3 server refuses a client only after the handshake, and often without an alert.
#[derive(Debug)]
pub(super) struct CertificateRequest {
    certificate: Arc<dyn ResolvesClientCert>,
    received: AtomicBool,
}

impl CertificateRequest {
    pub(super) fn new(certificate: Arc<dyn ResolvesClientCert>) -> CertificateRequest {
        CertificateRequest { certificate, received: AtomicBool::new(false) }
    }

    /// Whether the server has asked for a certificate.
    pub(super) fn is_received(&self) -> bool {
        self.received.load(Ordering::Relaxed)
    }
}

impl ResolvesClientCert for CertificateRequest {
    fn resolve(&self, issuers: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.received.store(true, Ordering::Relaxed);
        self.certificate.resolve(issuers, schemes)
    }

    fn has_certs(&self) -> bool {
        self.certificate.has_certs()
    }
}
