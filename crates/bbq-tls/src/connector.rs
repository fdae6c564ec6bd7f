//! Connects by TLS to servers that a sink sends to. The files are read again when they have changed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::certificate_request::CertificateRequest;
use crate::certificates::TlsFileError;
use crate::client::ClientTls;
use crate::failure::Failure;
use crate::files::Stamp;

/// A server that does not complete the handshake within this time is stuck, or does not speak TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to servers, with the files as they are at that time.
pub struct TlsConnector {
    files: ClientTls,
    loaded: Option<Loaded>,
    /// What to write for a server without TLS.
    plain: &'static str,
}

/// What was read from the files.
struct Loaded {
    /// The stamp of the files a moment before they were read.
    stamp: Stamp,
    config: Arc<ClientConfig>,
}

/// An encrypted connection, and what a later failure of it means.
pub struct Connected {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// Explains a later failure.
    pub failure: Failure,
}

impl TlsConnector {
    /// A connector with these files. `plain` says what to write for a server without TLS.
    #[must_use]
    pub fn new(files: ClientTls, plain: &'static str) -> TlsConnector {
        TlsConnector { files, loaded: None, plain }
    }

    /// Makes the handshake.
    ///
    /// # Errors
    /// What is wrong, and the remedy.
    pub async fn connect(&mut self, socket: TcpStream, name: ServerName<'static>) -> io::Result<Connected> {
        let mut config = ClientConfig::clone(self.config().map_err(io::Error::other)?);
        // Each connection has its own note.
        let request = Arc::new(CertificateRequest::new(config.client_auth_cert_resolver));
        config.client_auth_cert_resolver = Arc::<CertificateRequest>::clone(&request);
        let failure = Failure::new(&self.files, &name, request, self.plain);
        let handshake = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, socket);
        match timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Ok(Ok(stream)) => Ok(Connected { stream, failure }),
            Ok(Err(error)) => Err(failure.of_handshake(error)),
            Err(_) => Err(failure.silent(HANDSHAKE_TIMEOUT)),
        }
    }

    fn config(&mut self) -> Result<&ClientConfig, TlsFileError> {
        let stamp = self.files.stamp();
        let loaded = match self.loaded.take().filter(|loaded| loaded.stamp == stamp) {
            Some(loaded) => loaded,
            None => {
                let mut config = self.files.read()?;
                // A resumed session would go on with the certificates of before.
                config.resumption = Resumption::disabled();
                Loaded { stamp, config: Arc::new(config) }
            }
        };
        Ok(&self.loaded.insert(loaded).config)
    }
}
