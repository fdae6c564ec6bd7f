//! The writing half of a TLS connection.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::ClientConnection;

use crate::delivery::tls::session::Session;

/// Encrypted at once: a few records, so that the reader waits for the lock some microseconds at most.
pub(super) const ENCRYPTED_BYTES_MAX: usize = 64 * 1024;

pub(crate) struct Writer {
    socket: TcpStream,
    session: Arc<Session>,
    /// Encrypted bytes, of which `written` are written. At most [`ENCRYPTED_BYTES_MAX`], the overhead of their records, and what the
    /// reader has to say.
    encrypted: Vec<u8>,
    written: usize,
    /// How many of the caller's bytes are in `encrypted`.
    taken: usize,
}

impl Writer {
    pub(super) fn new(socket: TcpStream, session: Arc<Session>) -> Writer {
        Writer { socket, session, encrypted: Vec::new(), written: 0, taken: 0 }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Encrypts and writes some bytes; returns how many, when all of these are written. After an error that may pass (a time-out), the next
    /// call must be with the same bytes, some of which are encrypted already.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.taken == 0 {
            let session = Arc::clone(&self.session);
            let mut connection = session.lock();
            self.taken = connection.writer().write(bytes)?;
            self.take_encrypted(&mut connection)?;
        }
        self.write_encrypted()?;
        Ok(std::mem::take(&mut self.taken))
    }

    /// Tells the server that nothing follows.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let session = Arc::clone(&self.session);
        let mut connection = session.lock();
        connection.send_close_notify();
        self.take_encrypted(&mut connection)?;
        drop(connection);
        self.write_encrypted()
    }

    fn take_encrypted(&mut self, connection: &mut ClientConnection) -> io::Result<()> {
        while connection.wants_write() {
            connection.write_tls(&mut self.encrypted)?;
        }
        Ok(())
    }

    /// Writes what is encrypted.
    fn write_encrypted(&mut self) -> io::Result<()> {
        while self.written < self.encrypted.len() {
            match self.socket.write(&self.encrypted[self.written..])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => self.written += written,
            }
        }
        self.encrypted.clear();
        self.written = 0;
        Ok(())
    }
}
