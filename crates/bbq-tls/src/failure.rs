//! Why a server cannot be reached by TLS, and the remedy, for the operator.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error};

use crate::certificate_request::CertificateRequest;
use crate::client::ClientTls;

/// What the texts say about a server, and about what the client shows to it.
pub struct Failure {
    /// The name that must be in the server's certificate.
    name: String,
    /// Which CAs are trusted.
    trusted: String,
    /// The file of the client's certificate.
    certificate: Option<String>,
    request: Arc<CertificateRequest>,
    /// What to write for a server without TLS.
    plain: &'static str,
}

impl Failure {
    pub(crate) fn new(
        files: &ClientTls,
        name: &ServerName<'_>,
        request: Arc<CertificateRequest>,
        plain: &'static str,
    ) -> Failure {
        let trusted = match &files.ca {
            Some(path) => format!("those in tls_ca {}", path.display()),
            None => "the system's (tls_ca is not set)".to_owned(),
        };
        let certificate = files.certificate.as_ref().map(|(path, _)| path.display().to_string());
        Failure { name: name.to_str().into_owned(), trusted, certificate, request, plain }
    }

    /// Explains an error of the handshake.
    pub(crate) fn of_handshake(&self, error: io::Error) -> io::Error {
        match rustls_error(&error) {
            Some(Error::InvalidMessage(_)) => {
                io::Error::other(format!("it does not answer with TLS; {}", self.plain))
            }
            Some(why) => self.explained(why).unwrap_or(error),
            None => {
                let text = format!(
                    "{} in the TLS handshake; if that is always so, another program is at the address: {}",
                    ended(&error),
                    self.plain
                );
                io::Error::new(error.kind(), text)
            }
        }
    }

    /// Explains an error after the handshake and before the server has accepted anything: it may be about the client's certificate.
    #[must_use]
    pub fn of_answer(&self, error: io::Error) -> io::Error {
        if let Some(why) = rustls_error(&error) {
            return self.explained(why).unwrap_or(error);
        }
        let is_end = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        );
        // The alert is lost if the server closes the connection while bytes are on the way to it.
        if !is_end || !self.request.is_received() {
            return error;
        }
        let text = match &self.certificate {
            None => format!(
                "{error}; it asked for a client certificate before: if it demands one, set tls_cert and tls_key"
            ),
            Some(path) => format!(
                "{error}; it may have refused the client certificate in tls_cert {path}: its log has the reason"
            ),
        };
        io::Error::new(error.kind(), text)
    }

    /// The error if the handshake takes too long.
    pub(crate) fn silent(&self, patience: Duration) -> io::Error {
        let text = format!(
            "it accepted the connection and did not answer the TLS handshake within {} s: it is stuck, or does not speak TLS; {}",
            patience.as_secs(),
            self.plain
        );
        io::Error::new(io::ErrorKind::TimedOut, text)
    }

    /// `None` if there is no more to say than the error says.
    fn explained(&self, error: &Error) -> Option<io::Error> {
        let text = match error {
            Error::InvalidCertificate(why) => self.certificate_problem(why),
            Error::AlertReceived(alert) => self.alert_problem(*alert)?,
            Error::PeerIncompatible(_) => format!(
                "{error}; the server must have TLS 1.3, or TLS 1.2 with ECDHE and AES-GCM or ChaCha20-Poly1305"
            ),
            _ => return None,
        };
        Some(io::Error::other(text))
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

    fn alert_problem(&self, alert: AlertDescription) -> Option<String> {
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
                if self.request.is_received() =>
            {
                self.refused(alert)
            }
            A::ProtocolVersion | A::HandshakeFailure | A::InsufficientSecurity => format!(
                "it has no TLS in common with this server ({alert:?}): TLS 1.3, or TLS 1.2 with ECDHE and AES-GCM or \
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

    /// The text if the server did not accept what it was shown.
    fn refused(&self, alert: AlertDescription) -> String {
        match &self.certificate {
            None => "it demands a client certificate; set tls_cert and tls_key".to_owned(),
            Some(path) => format!(
                "it refuses the client certificate in tls_cert {path} ({alert:?}); set tls_cert and tls_key to one whose \
                 CA the server trusts"
            ),
        }
    }
}

fn rustls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn ended(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ended the connection".to_owned(),
        _ => error.to_string(),
    }
}
