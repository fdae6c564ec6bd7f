//! The TLS handshake. One thread runs it, before the connection is split into halves.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::delivery::error::ConnectionError;
use crate::delivery::received::Received;
use crate::delivery::tls::failure::Peer;
use crate::delivery::tls::incoming::Incoming;
use crate::delivery::tls::reader::Reader;
use crate::delivery::tls::session::{CertificateRequest, Session};
use crate::delivery::tls::writer::{ENCRYPTED_BYTES_MAX, Writer};

/// Runs the handshake, at most for the limit, and returns the halves of the connection.
pub(super) fn run(
    socket: TcpStream,
    configuration: Arc<ClientConfig>,
    name: ServerName<'static>,
    peer: Peer,
    limit: Duration,
) -> Result<(Writer, Reader), ConnectionError> {
    let request = Arc::new(CertificateRequest::new(Arc::clone(&configuration.client_auth_cert_resolver)));
    let mut configuration = Arc::unwrap_or_clone(configuration);
    configuration.client_auth_cert_resolver = Arc::<CertificateRequest>::clone(&request);
    let mut connection = ClientConnection::new(Arc::new(configuration), name)
        .map_err(|error| ConnectionError::Transient(error.to_string()))?;
    connection.set_buffer_limit(Some(ENCRYPTED_BYTES_MAX));
    let mut incoming = Incoming::new();
    let end = Instant::now() + limit;
    socket.set_write_timeout(Some(limit))?;
    loop {
        send(&mut connection, &socket).map_err(|error| peer.broken(&error))?;
        if !connection.is_handshaking() {
            break;
        }
        let is_first = connection.protocol_version().is_none();
        match incoming.process(&mut connection) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                // Sends the alert, which tells the server the reason.
                let _told = send(&mut connection, &socket);
                return Err(peer.error(&error, is_first, request.is_received()));
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(peer.silent());
        }
        socket.set_read_timeout(Some(left))?;
        match Received::read(&socket, incoming.space()) {
            Ok(Received::Bytes(bytes)) => incoming.filled(bytes),
            Ok(Received::Silence) => return Err(peer.silent()),
            Ok(Received::Ended) => return Err(peer.broken(&ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(peer.explain_broken(error)),
        }
    }
    let session = Arc::new(Session::new(connection, peer, request));
    let writer = Writer::new(socket.try_clone()?, Arc::clone(&session));
    Ok((writer, Reader::new(socket, session, incoming)))
}

fn send(connection: &mut ClientConnection, mut socket: &TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(&mut socket)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use rustls::RootCertStore;

    use super::*;
    use crate::delivery::tls::files;
    use crate::tls_options::TlsOptions;

    /// The error of a handshake with a server that sends these bytes and nothing else.
    fn error_of(sent: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(sent).unwrap();
        let options = TlsOptions::default();
        let roots = Arc::new(RootCertStore::empty());
        let configuration = Arc::new(files::configuration(&options, Some(&roots)).unwrap());
        let name = ServerName::try_from("name").unwrap();
        let peer = Peer::new("the peer".to_owned(), &name, &options);
        match run(near, configuration, name, peer, Duration::from_millis(1)).map(|_| ()).unwrap_err() {
            ConnectionError::Transient(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_server_that_says_nothing_or_half_is_left_in_time() {
        // The second is the beginning of a record.
        for sent in [&b""[..], &[0x16, 0x03, 0x03, 0x01, 0x00, 0x02]] {
            let text = error_of(sent);
            assert!(
                text.starts_with("it accepted the connection and did not answer the TLS handshake in time"),
                "{text}"
            );
        }
    }
}
