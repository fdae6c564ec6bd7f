//! Ends TLS in front of a server that has none: what a client says is decrypted for the server, and what the server says encrypted.

#![expect(unreachable_pub, clippy::expect_used, reason = "test support")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::{ServerConfig, ServerConnection};

/// As much as a record of TLS.
const BUFFER_BYTES: usize = 16 * 1024;

pub struct TlsProxy {
    address: SocketAddr,
}

impl TlsProxy {
    /// Runs until the process ends. The server may come and go.
    pub fn start(tls: Arc<ServerConfig>, server: SocketAddr) -> TlsProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let tls = Arc::clone(&tls);
                // A connection that breaks is the client's to make again.
                std::thread::spawn(move || drop(serve(client, tls, server)));
            }
        });
        TlsProxy { address }
    }

    pub fn url(&self) -> String {
        format!("bbq+tls://{}", self.address)
    }
}

fn serve(mut client: TcpStream, tls: Arc<ServerConfig>, server: SocketAddr) -> io::Result<()> {
    let mut connection = ServerConnection::new(tls).map_err(io::Error::other)?;
    connection.complete_io(&mut client)?;
    let server = TcpStream::connect(server)?;
    let connection = Arc::new(Mutex::new(connection));
    let (far_client, far_server, far) = (client.try_clone()?, server.try_clone()?, Arc::clone(&connection));
    std::thread::spawn(move || {
        // The other direction ends with this one.
        let _ended = encrypt(&far_client, &far_server, &far);
        let _ended = (far_client.shutdown(Shutdown::Both), far_server.shutdown(Shutdown::Both));
    });
    let outcome = decrypt(&client, &server, &connection);
    let _ended = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    outcome
}

fn decrypt(
    mut client: &TcpStream,
    mut server: &TcpStream,
    connection: &Mutex<ServerConnection>,
) -> io::Result<()> {
    let (mut buffer, mut plain) = ([0; BUFFER_BYTES], Vec::new());
    loop {
        // What came with the end of the handshake first.
        let mut tls = connection.lock().unwrap_or_else(PoisonError::into_inner);
        let end = tls.reader().read_to_end(&mut plain);
        drop(tls);
        server.write_all(&plain)?;
        plain.clear();
        if end.is_ok() {
            return Ok(());
        }
        let bytes = client.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..bytes];
        let mut tls = connection.lock().unwrap_or_else(PoisonError::into_inner);
        while !rest.is_empty() {
            if tls.read_tls(&mut rest)? == 0 {
                break;
            }
            tls.process_new_packets().map_err(io::Error::other)?;
            // "Would block" is the end of what there is.
            let _more = tls.reader().read_to_end(&mut plain);
        }
    }
}

fn encrypt(
    mut client: &TcpStream,
    mut server: &TcpStream,
    connection: &Mutex<ServerConnection>,
) -> io::Result<()> {
    let (mut buffer, mut encrypted) = ([0; BUFFER_BYTES], Vec::new());
    loop {
        let bytes = server.read(&mut buffer)?;
        let mut tls = connection.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes == 0 {
            tls.send_close_notify();
        }
        tls.writer().write_all(&buffer[..bytes])?;
        while tls.wants_write() {
            tls.write_tls(&mut encrypted)?;
        }
        drop(tls);
        client.write_all(&encrypted)?;
        encrypted.clear();
        if bytes == 0 {
            return Ok(());
        }
    }
}
