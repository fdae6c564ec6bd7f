//! If this fails, a client that begins no TLS handshake delays others, or holds its place for good, or a server is not told of it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bbq_listen::AsyncListener;
use rcgen::CertifiedKey;
use tokio::io::AsyncWriteExt;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

use crate::client::{LOST, beside, connect};
use crate::common;

/// What both sides have.
fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let key = signing_key.serialize_der().try_into().unwrap();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![cert.der().clone()], key).unwrap();
    (server.into(), ClientConfig::builder().with_root_certificates(roots).with_no_client_auth().into())
}

fn greeted(to: SocketAddr, config: &Arc<ClientConfig>) {
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, connect(to));
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"!");
}

/// Serves with these bounds, and tells of failures.
fn serve(
    config: &Arc<ServerConfig>,
    (max, timeout): (usize, Duration),
    tell: &mpsc::SyncSender<io::ErrorKind>,
) -> impl Fn(AsyncListener) -> Pin<Box<dyn Future<Output = io::Result<()>>>> + Sync {
    let (config, tell) = (Arc::clone(config), tell.clone());
    move |listener| {
        let tell = tell.clone();
        let listener = listener.into_tls(Arc::clone(&config)).handshakes_max(max).handshake_timeout(timeout);
        let mut listener = listener.on_failure(move |_peer, error| {
            let _ = tell.send(error.kind());
        });
        Box::pin(async move {
            loop {
                let (mut stream, _peer) = listener.accept().await?;
                stream.write_all(b"!").await?;
                stream.flush().await?;
            }
        })
    }
}

#[test]
fn handshakes_run_beside_each_other() {
    let (server, client) = configs();
    let (tell, failed) = mpsc::sync_channel(64);
    let group = common::group("tcp", "auto".parse().unwrap(), 1);
    beside(&group, serve(&server, (9, LOST * 2), &tell), move |to| {
        let silent: Vec<TcpStream> = (0..8).map(|_| connect(to)).collect();
        greeted(to, &client);
        drop(silent);
        assert_eq!(failed.recv_timeout(LOST), Ok(io::ErrorKind::UnexpectedEof));
    });
}

/// The next client gets the place of the silent one.
#[test]
fn a_handshake_that_takes_too_long_ends() {
    let (server, client) = configs();
    let (tell, failed) = mpsc::sync_channel(64);
    let group = common::group("tcp", "auto".parse().unwrap(), 1);
    beside(&group, serve(&server, (1, Duration::from_secs(2)), &tell), move |to| {
        let mut silent = connect(to);
        greeted(to, &client);
        assert_eq!(silent.read(&mut [0]).unwrap(), 0);
        assert_eq!(failed.recv_timeout(LOST), Ok(io::ErrorKind::TimedOut));
    });
}

#[test]
fn who_speaks_something_else_is_told_of() {
    let (server, client) = configs();
    let (tell, failed) = mpsc::sync_channel(64);
    let group = common::group("tcp", "auto".parse().unwrap(), 1);
    beside(&group, serve(&server, (8, LOST), &tell), move |to| {
        connect(to).write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(failed.recv_timeout(LOST), Ok(io::ErrorKind::InvalidData));
        greeted(to, &client);
    });
}
