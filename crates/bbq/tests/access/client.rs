//! A client of TLS that does each step as a test wants it.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::authority::{Authority, Pair};
use crate::support::{PATIENCE, Setup};

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// What the server has in every test: `server-cert.pem`, `server-key.pem` for localhost.
pub(crate) const TLS: &str = "tls_cert={dir}/server-cert.pem&tls_key={dir}/server-key.pem";

#[derive(Clone)]
pub(crate) struct Client {
    config: Arc<ClientConfig>,
    name: &'static str,
}

impl Client {
    pub(crate) fn new(authority: &Authority) -> Client {
        Client::with(authority, None)
    }

    /// A client that has a certificate, too.
    pub(crate) fn with(authority: &Authority, own: Option<&Pair>) -> Client {
        Client::build(authority, own, rustls::DEFAULT_VERSIONS)
    }

    fn build(
        authority: &Authority,
        own: Option<&Pair>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Client {
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).expect("PEM");
        roots.add(root).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).expect("PEM")];
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        Client { config: Arc::new(config), name: "localhost" }
    }

    /// Speaks TLS 1.2 alone, in which a session may go on in another connection.
    pub(crate) fn with_tls12(authority: &Authority, own: Option<&Pair>) -> Client {
        Client::build(authority, own, &[&rustls::version::TLS12])
    }

    /// Asks for another name than localhost.
    pub(crate) fn asking_for(&self, name: &'static str) -> Client {
        Client { name, ..self.clone() }
    }

    /// A connection whose handshake is over, as far as the client knows.
    pub(crate) fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        self.over(TcpStream::connect(address)?)
    }

    /// The same over an open connection.
    pub(crate) fn over(&self, mut socket: TcpStream) -> io::Result<Stream> {
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from(self.name).expect("a name");
        let mut connection =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(StreamOwned::new(connection, socket))
    }

    /// Sends as a connection of its own, which the server ends in order, too.
    pub(crate) fn send(&self, address: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.connect(address)?;
        stream.write_all(bytes)?;
        end(stream)
    }
}

/// Ends a connection in order, and waits until the server has, too.
pub(crate) fn end(mut stream: Stream) -> io::Result<()> {
    stream.conn.send_close_notify();
    stream.flush()?;
    match stream.read(&mut [0; 1]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(io::Error::other("the server said something")),
        Err(error) => Err(error),
    }
}

/// The certificate that the server showed.
pub(crate) fn shown(stream: &Stream) -> Vec<u8> {
    stream.conn.peer_certificates().expect("a certificate")[0].to_vec()
}

/// A server with certificates for localhost, and their authority.
pub(crate) fn setup(listen: &[&str]) -> (Setup, Authority) {
    let authority = Authority::new("a test's authority");
    let setup = Setup::new(listen);
    authority.sign("localhost").write(setup.path(), "server");
    std::fs::write(setup.path().join("ca.pem"), authority.certificate()).expect("a file");
    (setup, authority)
}
