//! Why a TLS connection failed, for the person who reads the log.

use std::io;

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// Why a connection failed.
#[derive(Debug)]
pub(crate) struct TlsFailure {
    pub(crate) is_handshake: bool,
    pub(crate) reason: String,
}

/// The reason behind an error from tokio-rustls, which wraps the error of rustls.
pub(crate) fn reason_of_error(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(inner) => reason(inner),
        None if error.kind() == io::ErrorKind::UnexpectedEof => ENDED_EARLY.to_owned(),
        None => error.to_string(),
    }
}

/// The reason when the handshake takes too long.
pub(crate) fn reason_of_late(seconds: u32) -> String {
    format!("no complete handshake within {seconds} s of the connection (hello_timeout_seconds)")
}

pub(super) const ENDED_EARLY: &str = "the client ended the connection in the middle of the handshake";

pub(super) fn reason(error: &Error) -> String {
    let text = match error {
        Error::InvalidMessage(_) => "this is not TLS: switch TLS on in the client, or give it the address of a plain listener",
        Error::NoCertificatesPresented => {
            "the client sent no certificate; give it one that a CA in tls_client_ca has issued"
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "no CA in tls_client_ca issued the client's certificate"
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the client's certificate has expired"
        }
        Error::PeerIncompatible(
            PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::SupportedVersionsExtensionRequired
            // The hello of an older TLS version does not have this extension.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired,
        ) => "the client offers neither TLS 1.2 nor TLS 1.3",
        Error::NoApplicationProtocol => "the client offers neither h2 nor http/1.1 (ALPN)",
        Error::AlertReceived(
            AlertDescription::UnknownCA | AlertDescription::BadCertificate | AlertDescription::CertificateUnknown,
        ) => "the client refuses the server's certificate: it does not know the CA, or expects another name",
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the client refuses the server's certificate, which has expired"
        }
        Error::AlertReceived(alert) => return format!("the client refused: {alert:?}"),
        other => return other.to_string(),
    };
    text.to_owned()
}
