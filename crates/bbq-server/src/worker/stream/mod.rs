//! The bytes of a connection, plain or through TLS.
//!
//! ```text
//! framer, inbox <--bytes-- Stream <--recv-- socket            plain: nothing between
//! replies ------bytes----> Stream --send--> socket            TLS: the records of rustls between
//! ```
//!
//! Not here: which certificates (`crate::tls`), and HTTP's connections, which hyper reads through tokio-rustls.
//!
//! Invariant: a plain stream makes the system calls of its caller, and no other.

mod reason;
mod tls;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendFlags, recv, send};

pub(crate) use reason::{TlsFailure, reason_of_error, reason_of_late};
pub(crate) use tls::Tls;

use crate::tls::ServedTls;

/// An open connection. It can move to another thread, and to another process while it is plain.
pub(crate) struct Stream {
    socket: OwnedFd,
    /// `None` is a plain connection.
    tls: Option<Box<Tls>>,
}

impl Stream {
    pub(crate) fn plain(socket: OwnedFd) -> Stream {
        Stream { socket, tls: None }
    }

    /// A connection that was just accepted. The handshake takes place while it is read.
    ///
    /// # Errors
    /// rustls refuses its configuration.
    pub(crate) fn accepted(socket: OwnedFd, served: Option<&ServedTls>) -> Result<Stream, rustls::Error> {
        let tls = served.map(|served| Tls::new(served).map(Box::new)).transpose()?;
        Ok(Stream { socket, tls })
    }

    pub(crate) fn of_parts((socket, tls): (OwnedFd, Option<Box<Tls>>)) -> Stream {
        Stream { socket, tls }
    }

    pub(crate) fn into_parts(self) -> (OwnedFd, Option<Box<Tls>>) {
        (self.socket, self.tls)
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.tls.is_none()
    }

    /// Reads without waiting; 0 when the peer has ended the connection in order. Goes on with the handshake.
    ///
    /// # Errors
    /// `EAGAIN` when nothing is there; any other error ends the connection. Over TLS that can be the peer's end, too: what
    /// ends without a close_notify may have been cut by anybody (RFC 8446, 6.1).
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match &mut self.tls {
            None => recv(&self.socket, buffer, RecvFlags::DONTWAIT).map(|(_, bytes)| bytes),
            Some(tls) => {
                let mut filled = 0;
                tls.read(self.socket.as_fd(), buffer.len(), |bytes| {
                    buffer[filled..filled + bytes.len()].copy_from_slice(bytes);
                    filled += bytes.len();
                })
            }
        }
    }

    /// Sends as much as there is room for.
    ///
    /// # Errors
    /// `EAGAIN` when there is no room; any other error when the peer is gone.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> rustix::io::Result<usize> {
        match &mut self.tls {
            None => send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
            Some(tls) => tls.write(self.socket.as_fd(), bytes),
        }
    }

    /// Whether it waits for room to send what the peer is to have, whoever wrote it.
    #[inline]
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether another read finds something, even if nothing more comes.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_more())
    }

    /// Whether another read finds the end.
    pub(crate) fn has_ended(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_ended())
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Takes too long for its handshake.
    pub(crate) fn fail_late(&mut self, seconds: u32) {
        if let Some(tls) = &mut self.tls {
            tls.fail_late(seconds);
        }
    }

    /// Why it failed, once.
    pub(crate) fn take_failure(&mut self) -> Option<TlsFailure> {
        self.tls.as_mut()?.take_failure()
    }

    /// Tells the peer that nothing more comes, as far as that can be done without waiting.
    pub(crate) fn end(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.end(self.socket.as_fd());
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
