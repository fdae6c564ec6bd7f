//! The bytes of a connection, plain or through TLS.
//!
//! ```text
//! framer, inbox <--bytes-- Stream <--recv-- socket            plain: nothing between
//! replies ------bytes----> Stream --send--> socket            TLS: the records of rustls between
//! ```
//!
//! Not here: the choice of certificates (bbq-tls), and HTTP connections, which hyper reads through tokio-rustls.
//!
//! Invariant: on a plain stream, each read or write by the caller is one system call, and nothing else makes system calls.

mod reason;
pub(crate) mod tls;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bbq_tls::ServedTls;
use rustix::net::{RecvFlags, SendFlags, recv, send};

pub(crate) use reason::{TlsFailure, reason_of_error, reason_of_late};
pub(crate) use tls::Tls;

/// An open connection. It can move to another thread, and to another process while it is plain.
pub struct Stream {
    socket: OwnedFd,
    /// `None` is a plain connection.
    tls: Option<Box<Tls>>,
}

impl Stream {
    /// Without TLS.
    pub fn plain(socket: OwnedFd) -> Stream {
        Stream { socket, tls: None }
    }

    /// A connection that was just accepted. The handshake takes place while the connection is read.
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

    /// Reads without waiting; 0 when the peer has ended the connection properly. Also continues a TLS handshake.
    ///
    /// # Errors
    /// `EAGAIN` when nothing is there; any other error ends the connection. With TLS, an end without close_notify is an error, too,
    /// because anyone on the path may have cut the connection (RFC 8446, 6.1).
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

    /// Sends as many of these bytes as there is room for, without waiting. Returns how many.
    ///
    /// # Errors
    /// `EAGAIN` when there is no room; any other error when the peer is gone.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> rustix::io::Result<usize> {
        match &mut self.tls {
            None => send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
            Some(tls) => tls.write(self.socket.as_fd(), bytes),
        }
    }

    /// Whether encrypted records, of replies or of TLS itself, wait for room to be sent.
    #[inline]
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether another read returns more, even if the socket is empty.
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

    /// Fails the connection, because its handshake took longer than `seconds`.
    pub(crate) fn fail_late(&mut self, seconds: u32) {
        if let Some(tls) = &mut self.tls {
            tls.fail_late(seconds);
        }
    }

    /// Returns why the connection failed, on the first call only.
    pub(crate) fn take_failure(&mut self) -> Option<TlsFailure> {
        self.tls.as_mut()?.take_failure()
    }

    /// Tells the peer that nothing more comes, if that is possible without waiting.
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
