//! Connections to servers. A connection over a unix socket is a `TcpStream`, too: all that is called on it works for any stream socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bbq_wire::session::Welcome;
use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use crate::delivery::error::ConnectionError;
use crate::delivery::session::Session;
use crate::{SendError, ServerAddress};

/// A server that does not accept a connection within this time counts as down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that lost power sends nothing any more. After this time without traffic the system probes it, so that a sender that only
/// waits for acknowledgements notices; a server that has restarted resets the connection.
const KEEPALIVE_TIME: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// A server that sends no welcome within this time counts as down. It may first have to sync what came over an earlier connection.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Acknowledgements are 24 bytes.
const READ_BYTES: usize = 4096;

pub(crate) fn connect(address: &ServerAddress) -> Result<TcpStream, ConnectionError> {
    match address {
        // Networks and firewall rules change, so every error of TCP may pass.
        ServerAddress::Tcp(address) => Ok(connect_tcp(address)?),
        ServerAddress::Unix(path) => connect_unix(path).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::InvalidFilename => {
                ConnectionError::Lasting(SendError::Unreachable {
                    server: address.to_string(),
                    problem: error.to_string(),
                })
            }
            _ => error.into(),
        }),
    }
}

fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                // A batch is written as a whole, so a delay gains nothing.
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_tcp_keepalive(
                    &TcpKeepalive::new().with_time(KEEPALIVE_TIME).with_interval(KEEPALIVE_INTERVAL),
                )?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn connect_unix(path: &std::path::Path) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // On a unix socket this time-out holds for connect, too, which else waits for ever if the server's backlog is full.
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(TcpStream::from(OwnedFd::from(socket)))
}

/// Sends the hello and waits for the welcome, at most for the stream's read time-out.
pub(crate) fn begin(
    stream: &mut TcpStream,
    session: &mut Session,
    hello: &[u8],
) -> Result<Welcome, ConnectionError> {
    stream.write_all(hello)?;
    read_until(stream, session, Session::next_welcome)
}

/// Waits for the next acknowledgement.
pub(crate) fn read_acknowledgement(
    stream: &mut TcpStream,
    session: &mut Session,
) -> Result<u64, ConnectionError> {
    read_until(stream, session, Session::next_acknowledgement)
}

/// Reads until `next` finds a whole frame in the received bytes.
fn read_until<T>(
    stream: &mut TcpStream,
    session: &mut Session,
    next: impl Fn(&mut Session) -> Result<Option<T>, ConnectionError>,
) -> Result<T, ConnectionError> {
    let mut buffer = [0; READ_BYTES];
    loop {
        if let Some(found) = next(session)? {
            return Ok(found);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(session.ended()),
            Ok(bytes) => session.receive(&buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(session.silent());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the server may be on another machine. A unix socket has no IP address.
pub(crate) fn is_remote(stream: &TcpStream) -> bool {
    stream.peer_addr().is_ok_and(|peer| !peer.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_went_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ServerAddress::Tcp(listener.local_addr().unwrap().to_string());
        let stream = connect(&address).unwrap();
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }
}
