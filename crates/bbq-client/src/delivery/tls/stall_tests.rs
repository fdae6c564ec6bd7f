//! If this fails, a server that takes nothing for a while gets bytes twice or never, or its acknowledgements are not read meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::delivery::received::Received;
use crate::delivery::tls::failure::Peer;
use crate::delivery::tls::{Reader, Writer, files, handshake};
use crate::tls_options::TlsOptions;

/// More than the socket buffers hold.
const BYTES: usize = 64 * 1024 * 1024;
const LIMIT: Duration = Duration::from_secs(30);

/// Both halves of a connection, and its server.
fn connect() -> (Writer, Reader, StreamOwned<ServerConnection, TcpStream>) {
    let made = rcgen::generate_simple_self_signed(["name".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let server = server.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    let server = std::thread::spawn(move || {
        let mut connection = ServerConnection::new(Arc::new(server)).unwrap();
        connection.complete_io(&mut far).unwrap();
        StreamOwned::new(connection, far)
    });
    let options = TlsOptions::default();
    let configuration = Arc::new(files::configuration(&options, Some(&Arc::new(roots))).unwrap());
    let name = ServerName::try_from("name").unwrap();
    let peer = Peer::new("the peer".to_owned(), &name, &options);
    let halves = handshake::run(near, configuration, name, peer, LIMIT).map_err(|error| format!("{error:?}"));
    let (writer, reader) = halves.unwrap();
    (writer, reader, server.join().unwrap())
}

#[test]
fn bytes_that_a_time_out_leaves_in_the_middle_are_written_once_and_hold_no_acknowledgement_up() {
    let (mut writer, mut reader, mut server) = connect();
    writer.socket().set_write_timeout(Some(Duration::from_millis(1))).unwrap();
    reader.socket().set_read_timeout(Some(LIMIT)).unwrap();
    // No two pieces of 64 KiB are equal.
    let bytes: Vec<u8> = (0..BYTES / 4).flat_map(|number| (number as u32).to_le_bytes()).collect();
    let mut written = 0;
    for _ in 0..3 {
        let full = loop {
            match writer.write(&bytes[written..]) {
                Ok(more) => written += more,
                Err(error) => break error,
            }
        };
        assert!(matches!(full.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{full}");
        server.write_all(b"acknowledged").unwrap();
        let mut buffer = [0; 100];
        assert!(matches!(reader.read(&mut buffer), Ok(Received::Bytes(12))));
        assert!(buffer.starts_with(b"acknowledged"));
    }
    let received = std::thread::spawn(move || {
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        received
    });
    while written < bytes.len() {
        match writer.write(&bytes[written..]) {
            Ok(more) => written += more,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}")
            }
        }
    }
    writer.socket().set_write_timeout(None).unwrap();
    writer.finish().unwrap();
    assert!(received.join().unwrap() == bytes);
}
