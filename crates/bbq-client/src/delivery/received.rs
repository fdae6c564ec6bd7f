//! What a read from a connection returned.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;

use crate::delivery::error::ConnectionError;

pub(crate) enum Received {
    /// So many bytes, at least one.
    Bytes(usize),
    /// The server has ended the connection.
    Ended,
    /// The read time-out has passed.
    Silence,
}

impl Received {
    pub(crate) fn read(mut socket: &TcpStream, buffer: &mut [u8]) -> Result<Received, ConnectionError> {
        loop {
            match socket.read(buffer) {
                Ok(0) => return Ok(Received::Ended),
                Ok(bytes) => return Ok(Received::Bytes(bytes)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(Received::Silence);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
