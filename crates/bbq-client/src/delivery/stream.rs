//! Connections to servers. A unix socket is kept in a `TcpStream`, too: only calls are made that work for any stream socket.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bbq_wire::session::Welcome;
use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use crate::delivery::error::ConnectionError;
use crate::delivery::received::Received;
use crate::delivery::session::Session;
use crate::delivery::tls;
use crate::{SendError, ServerAddress};

/// A server that does not accept a connection within this time counts as down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time without traffic the system probes the server. Otherwise a sender that only waits for acknowledgements would not notice
/// that the server has lost power; a server that has restarted resets the connection.
const KEEPALIVE_TIME: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// A server that sends no welcome within this time counts as down. Before the welcome it may have to sync batches of an earlier
/// connection.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of one read. An acknowledgement has 24 bytes.
const READ_BYTES: usize = 4096;

/// The half of a connection that the destination's thread writes to.
pub(crate) enum Writer {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Encrypted bytes.
    Tls(tls::Writer),
}

/// The half of a connection that a thread of its own reads from. Neither half ever waits for the other.
pub(crate) enum Reader {
    /// Bytes as they are.
    Plain(TcpStream),
    /// Encrypted bytes.
    Tls(tls::Reader),
}

impl Writer {
    /// The socket, for its options and its end.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Writer::Plain(socket) => socket,
            Writer::Tls(writer) => writer.socket(),
        }
    }

    /// Tells the server that nothing follows. Nothing is lost if that does not arrive.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Writer::Plain(_) => Ok(()),
            Writer::Tls(writer) => writer.finish(),
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Writer::Plain(socket) => socket.write(bytes),
            Writer::Tls(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Reader {
    /// The socket, for its options and its end.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Reader::Plain(socket) => socket,
            Reader::Tls(reader) => reader.socket(),
        }
    }

    /// Waits for bytes, at most for the socket's read time-out.
    fn read(&mut self, buffer: &mut [u8]) -> Result<Received, ConnectionError> {
        match self {
            Reader::Plain(socket) => Received::read(socket, buffer),
            Reader::Tls(reader) => reader.read(buffer),
        }
    }

    /// Adds to an error before the welcome what this half knows about its reason.
    fn explain(&self, error: ConnectionError) -> ConnectionError {
        match self {
            Reader::Plain(_) => error,
            Reader::Tls(reader) => reader.explain(error),
        }
    }
}

/// Both halves of a connection without encryption.
pub(crate) fn plain(socket: TcpStream) -> io::Result<(Writer, Reader)> {
    Ok((Writer::Plain(socket.try_clone()?), Reader::Plain(socket)))
}

/// Connects to a server. `tls` is there if any address of the sender needs TLS.
pub(crate) fn connect(
    address: &ServerAddress,
    tls: Option<&tls::Client>,
) -> Result<(Writer, Reader), ConnectionError> {
    let socket = connect_socket(address)?;
    let (ServerAddress::Tls(_), Some(tls)) = (address, tls) else { return Ok(plain(socket)?) };
    let (writer, reader) = tls.connect(socket, address, ANSWER_TIMEOUT)?;
    Ok((Writer::Tls(writer), Reader::Tls(reader)))
}

fn connect_socket(address: &ServerAddress) -> Result<TcpStream, ConnectionError> {
    match address {
        // Networks and firewall rules change, so every error of TCP counts as temporary.
        ServerAddress::Tcp(address) | ServerAddress::Tls(address) => Ok(connect_tcp(address)?),
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
                // Each batch is one write, so delaying small segments (RFC 896) gains nothing.
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
    // On a unix socket this time-out also limits connect, which would otherwise wait for ever if the server's backlog is full.
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(TcpStream::from(OwnedFd::from(socket)))
}

/// Sends the hello and waits for the welcome, at most for the read time-out.
pub(crate) fn begin(
    writer: &mut Writer,
    reader: &mut Reader,
    session: &mut Session,
    hello: &[u8],
) -> Result<Welcome, ConnectionError> {
    match writer.write_all(hello) {
        // A server that has ended the connection may have sent the reason: read it.
        Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            return Err(error.into());
        }
        _ => {}
    }
    read_until(reader, session, Session::next_welcome).map_err(|error| reader.explain(error))
}

/// Waits for the next acknowledgement.
pub(crate) fn read_acknowledgement(
    reader: &mut Reader,
    session: &mut Session,
) -> Result<u64, ConnectionError> {
    read_until(reader, session, Session::next_acknowledgement)
}

/// Reads until `next` finds a whole frame in the received bytes.
fn read_until<T>(
    reader: &mut Reader,
    session: &mut Session,
    next: impl Fn(&mut Session) -> Result<Option<T>, ConnectionError>,
) -> Result<T, ConnectionError> {
    let mut buffer = [0; READ_BYTES];
    loop {
        if let Some(found) = next(session)? {
            return Ok(found);
        }
        match reader.read(&mut buffer)? {
            Received::Bytes(bytes) => session.receive(&buffer[..bytes]),
            Received::Ended => return Err(session.ended()),
            Received::Silence => return Err(session.silent()),
        }
    }
}

/// Whether the server may be on another machine. A unix socket has no IP address.
pub(crate) fn is_remote(socket: &TcpStream) -> bool {
    socket.peer_addr().is_ok_and(|peer| !peer.ip().is_loopback())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_went_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ServerAddress::Tcp(listener.local_addr().unwrap().to_string());
        let (writer, _reader) = connect(&address, None).unwrap();
        assert!(SockRef::from(writer.socket()).keepalive().unwrap());
    }
}
