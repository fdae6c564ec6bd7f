//! A connection to a server, over TCP or a unix socket.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bbq_wire::session::Welcome;
use socket2::{Domain, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use crate::delivery::error::ConnectionError;
use crate::delivery::session::Session;
use crate::{SendError, ServerAddress};

/// A server that does not even take the connection in this time is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that lost its power says nothing any more, and who only waits for acknowledgements would never notice: the
/// system asks after so long without a sign, and a server that is up again then says that it knows nothing of this
/// connection.
const KEEPALIVE_TIME: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// A server that does not even say hello in this time is not there. It may have to sync what came over an earlier
/// connection first.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Acknowledgements are 24 bytes.
const READ_BYTES: usize = 4096;

/// A stream of either kind.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn connect(address: &ServerAddress) -> Result<Stream, ConnectionError> {
        Stream::connected(address).map_err(|error| {
            let lasts = match address {
                ServerAddress::Unix(_) => matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::InvalidInput | ErrorKind::InvalidFilename
                ),
                // Networks come and go, and so do the rules of their gates.
                ServerAddress::Tcp(_) => false,
            };
            if !lasts {
                return error.into();
            }
            ConnectionError::Lasting(SendError::Unreachable {
                server: address.to_string(),
                problem: error.to_string(),
            })
        })
    }

    fn connected(address: &ServerAddress) -> io::Result<Stream> {
        match address {
            ServerAddress::Unix(path) => {
                // Of a unix socket, connect waits as long as a write may: for ever, if the server's backlog is full.
                let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
                socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
                socket.connect(&SockAddr::unix(path)?)?;
                Ok(Stream::Unix(UnixStream::from(OwnedFd::from(socket))))
            }
            ServerAddress::Tcp(address) => {
                let mut last = io::Error::from(ErrorKind::NotFound);
                for address in address.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                        Ok(stream) => {
                            // Batches are written whole: waiting for more of them helps nobody.
                            stream.set_nodelay(true)?;
                            SockRef::from(&stream).set_tcp_keepalive(
                                &TcpKeepalive::new()
                                    .with_time(KEEPALIVE_TIME)
                                    .with_interval(KEEPALIVE_INTERVAL),
                            )?;
                            return Ok(Stream::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Says hello and waits for the welcome, as long as [`ANSWER_TIMEOUT`] allows, if it is set.
    pub(crate) fn begin(&mut self, session: &mut Session, hello: &[u8]) -> Result<Welcome, ConnectionError> {
        self.write_all(hello)?;
        self.read_until(session, Session::next_welcome)
    }

    /// Waits for the next acknowledgement.
    pub(crate) fn read_acknowledgement(&mut self, session: &mut Session) -> Result<u64, ConnectionError> {
        self.read_until(session, Session::next_acknowledgement)
    }

    /// Reads until `next` finds something whole in what has arrived.
    fn read_until<T>(
        &mut self,
        session: &mut Session,
        next: impl Fn(&mut Session) -> Result<Option<T>, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        let mut buffer = [0; READ_BYTES];
        loop {
            if let Some(found) = next(session)? {
                return Ok(found);
            }
            match self.read(&mut buffer) {
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

    pub(crate) fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
        }
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    pub(crate) fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_write_timeout(Some(timeout)),
            Stream::Unix(stream) => stream.set_write_timeout(Some(timeout)),
        }
    }

    /// Whether the server is on another machine, or may be.
    pub(crate) fn is_remote(&self) -> bool {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().is_ok_and(|peer| !peer.ip().is_loopback()),
            Stream::Unix(_) => false,
        }
    }

    /// Ends both directions, for whoever waits on either. A connection that is gone already is what is wanted.
    pub(crate) fn shutdown(&self) {
        let _gone = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_went_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ServerAddress::Tcp(listener.local_addr().unwrap().to_string());
        let Ok(Stream::Tcp(stream)) = Stream::connect(&address) else { panic!("it listens") };
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }
}
