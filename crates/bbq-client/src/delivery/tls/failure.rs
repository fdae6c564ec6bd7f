//! Error texts for TLS: what went wrong, and what to do about it.

use std::io;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error};

use crate::SendError;
use crate::delivery::error::ConnectionError;
use crate::tls_options::TlsOptions;

/// The remedy if another program, or a listener without TLS, is at the address.
const NOT_TLS: &str = "write bbq:// for a server without TLS";

/// What error texts say about the server: its expected name, the trusted CAs, and the client's certificate.
pub(super) struct Peer {
    server: String,
    /// The name that must be in its certificate.
    name: String,
    /// Which CAs are trusted.
    trusted: String,
    /// The file of the client's certificate.
    certificate: Option<String>,
}

impl Peer {
    pub(super) fn new(server: String, name: &ServerName<'_>, options: &TlsOptions) -> Peer {
        Peer {
            server,
            name: name.to_str().into_owned(),
            trusted: options.ca.as_ref().map_or_else(
                || "the system's (tls_ca is not set)".to_owned(),
                |path| format!("those in tls_ca {}", path.display()),
            ),
            certificate: options.cert.as_ref().map(|path| path.display().to_string()),
        }
    }

    /// Explains an error of rustls. `is_first` if no TLS record was received before, `is_asked` if the server asked for a certificate.
    pub(super) fn error(&self, error: &Error, is_first: bool, is_asked: bool) -> ConnectionError {
        let problem = match error {
            Error::InvalidCertificate(why) => self.certificate_problem(why),
            Error::AlertReceived(alert) => match self.alert_problem(*alert, is_asked) {
                Some(problem) => problem,
                None => return ConnectionError::Transient(format!("it ended TLS with the alert {alert:?}")),
            },
            Error::InvalidMessage(_) if is_first => format!("it does not answer with TLS; {NOT_TLS}"),
            Error::PeerIncompatible(_) => {
                format!(
                    "{error}; the server must have TLS 1.3, or TLS 1.2 with ECDHE and AES-GCM or ChaCha20-Poly1305"
                )
            }
            error => return ConnectionError::Transient(format!("TLS failed: {error}")),
        };
        ConnectionError::Lasting(SendError::Unreachable { server: self.server.clone(), problem })
    }

    fn certificate_problem(&self, why: &CertificateError) -> String {
        use CertificateError as E;
        match why {
            // `BadSignature`: a CA with the right name but another key.
            E::UnknownIssuer | E::BadSignature => format!(
                "its certificate was issued by none of the trusted CAs, {}; set tls_ca to the certificate of its CA",
                self.trusted
            ),
            E::NotValidForName | E::NotValidForNameContext { .. } => format!(
                "its certificate is for another name: {why}; write the right host into the address, or set tls_server_name"
            ),
            E::Expired | E::ExpiredContext { .. } => {
                format!("its certificate has expired: {why}; renew it, or correct this machine's clock")
            }
            E::NotValidYet | E::NotValidYetContext { .. } => {
                format!("its certificate is not valid yet: {why}; correct this machine's clock, or the server's")
            }
            E::Other(_) if why.to_string().contains("CaUsedAsEndEntity") => {
                "its certificate is that of a CA; give the server a certificate that a CA has issued, or one with \
                 basicConstraints=CA:FALSE"
                    .to_owned()
            }
            why => format!("its certificate is refused: {why}; give the server another certificate"),
        }
    }

    /// `None` if another attempt may succeed.
    fn alert_problem(&self, alert: AlertDescription, is_asked: bool) -> Option<String> {
        use AlertDescription as A;
        let problem = match alert {
            A::CertificateRequired => self.refused(alert),
            A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::DecryptError
            | A::HandshakeFailure
                if is_asked =>
            {
                self.refused(alert)
            }
            A::ProtocolVersion | A::HandshakeFailure | A::InsufficientSecurity => format!(
                "it has no TLS in common with this client ({alert:?}): TLS 1.3, or TLS 1.2 with ECDHE and AES-GCM or \
                 ChaCha20-Poly1305"
            ),
            A::UnrecognisedName => format!(
                "it has no certificate for {}; write the right host into the address, or set tls_server_name",
                self.name
            ),
            _ => return None,
        };
        Some(problem)
    }

    /// The text if the server did not accept the client's certificate.
    fn refused(&self, alert: AlertDescription) -> String {
        match &self.certificate {
            None => "it demands a client certificate; set tls_cert and tls_key".to_owned(),
            Some(path) => format!(
                "it refuses the client certificate in tls_cert {path} ({alert:?}); set tls_cert and tls_key to one whose CA the \
                 server trusts"
            ),
        }
    }

    /// The text if the server asked for a certificate in the handshake, and the connection ended before the welcome. That may be a
    /// refusal: the alert is lost if the server closes the connection while bytes are on the way to it.
    pub(super) fn may_be_refused(&self, why: &str) -> String {
        match &self.certificate {
            None => {
                format!(
                    "{why}; it asked for a client certificate before: if it demands one, set tls_cert and tls_key"
                )
            }
            Some(path) => format!(
                "{why}; it may have refused the client certificate in tls_cert {path}: its log has the reason"
            ),
        }
    }

    /// The error if the connection broke in the handshake.
    pub(super) fn broken(&self, error: &io::Error) -> ConnectionError {
        self.explain_broken(ConnectionError::Transient(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ended the connection".to_owned(),
            _ => error.to_string(),
        }))
    }

    /// Adds to an error that it happened in the handshake.
    pub(super) fn explain_broken(&self, error: ConnectionError) -> ConnectionError {
        match error {
            ConnectionError::Transient(why) => ConnectionError::Transient(format!(
                "{why} in the TLS handshake; if that is always so, another program is at the address: {NOT_TLS}"
            )),
            error => error,
        }
    }

    /// The error if nothing arrived in time.
    pub(super) fn silent(&self) -> ConnectionError {
        ConnectionError::Transient(format!(
            "it accepted the connection and did not answer the TLS handshake in time: it is stuck, or does not speak TLS; {NOT_TLS}"
        ))
    }
}
