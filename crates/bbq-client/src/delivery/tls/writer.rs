//! The writing half of a TLS connection.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::ClientConnection;

use crate::delivery::tls::session::Session;

/// Most bytes encrypted at once: a few records, so that the reader waits only some microseconds for the lock.
pub(super) const ENCRYPTED_BYTES_MAX: usize = 64 * 1024;

pub(crate) struct Writer {
    socket: TcpStream,
    session: Arc<Session>,
    /// Encrypted bytes, of which `written` are written. At most [`ENCRYPTED_BYTES_MAX`] with the overhead of their records, and the
    /// records of the reader.
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

    /// Encrypts and writes some of the bytes, and returns how many. After a temporary error (a time-out), the next call must be with the
    /// same bytes, as some of them are encrypted already.
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

    /// Writes the encrypted bytes.
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
