//! The reading half of a TLS connection.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::sync::Arc;

use crate::delivery::error::ConnectionError;
use crate::delivery::received::Received;
use crate::delivery::tls::incoming::Incoming;
use crate::delivery::tls::session::Session;

pub(crate) struct Reader {
    socket: TcpStream,
    session: Arc<Session>,
    incoming: Incoming,
}

impl Reader {
    pub(super) fn new(socket: TcpStream, session: Arc<Session>, incoming: Incoming) -> Reader {
        Reader { socket, session, incoming }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Waits for bytes, at most for the socket's read time-out. An end without close_notify is not an error, as unacknowledged records
    /// are sent again in any case.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<Received, ConnectionError> {
        loop {
            if let Some(received) = self.decrypted(buffer)? {
                return Ok(received);
            }
            match Received::read(&self.socket, self.incoming.space())? {
                Received::Bytes(bytes) => self.incoming.filled(bytes),
                end => return Ok(end),
            }
        }
    }

    /// Returns plaintext from bytes that have already been received.
    fn decrypted(&mut self, buffer: &mut [u8]) -> Result<Option<Received>, ConnectionError> {
        let mut connection = self.session.lock();
        loop {
            match connection.reader().read(buffer) {
                Ok(0) => return Ok(Some(Received::Ended)),
                Ok(bytes) => return Ok(Some(Received::Bytes(bytes))),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            let is_first = connection.protocol_version().is_none();
            match self.incoming.process(&mut connection) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => {
                    return Err(self.session.peer.error(
                        &error,
                        is_first,
                        self.session.request.is_received(),
                    ));
                }
            }
        }
    }

    /// Adds to an error before the welcome what TLS knows about its reason.
    pub(crate) fn explain(&self, error: ConnectionError) -> ConnectionError {
        match error {
            ConnectionError::Transient(why) if self.session.request.is_received() => {
                ConnectionError::Transient(self.session.peer.may_be_refused(&why))
            }
            error => error,
        }
    }
}
