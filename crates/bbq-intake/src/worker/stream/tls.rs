//! TLS on a non-blocking socket.

use std::io::{self, BufRead as _, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bbq_tls::{HandshakeCounts, ServedTls};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ServerConnection;

use super::reason::{ENDED_EARLY, TlsFailure, reason, reason_of_late};

/// Maximum bytes that wait to be sent: the largest handshake flight of a usual certificate chain, or one record of replies. A
/// client that does not read costs no more.
const UNSENT_BYTES_MAX: usize = 16 * 1024;
/// Maximum bytes of one system call, on the stack. Sixteen full records take four calls.
const WIRE_BYTES: usize = 64 * 1024;
/// Maximum bytes of a record on the wire (RFC 8446, 5.2: 2^14 + 256, and the header). rustls may already hold all but one.
pub(crate) const RECORD_BYTES_MAX: usize = 17 * 1024;
/// Maximum system calls in one read: a few more than are needed to fill the largest buffer of a caller.
const RECEIVES_MAX: usize = 8;

const _: () = assert!(RECORD_BYTES_MAX < WIRE_BYTES && RECORD_BYTES_MAX > (1 << 14) + 256 + 5);

/// The state of TLS on a socket.
pub(crate) struct Tls {
    connection: ServerConnection,
    counts: Arc<HandshakeCounts>,
    is_handshaking: bool,
    /// Whether bytes of the peer have arrived.
    has_heard: bool,
    /// Whether the last read stopped before the socket was empty.
    stopped_early: bool,
    end: Option<End>,
    failure: Option<TlsFailure>,
    /// Whether sending has failed because the peer is gone; reading notices this, too.
    is_gone: bool,
}

/// How the peer's bytes end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    InOrder,
    Broken,
}

impl Tls {
    pub(super) fn new(served: &ServedTls) -> Result<Tls, rustls::Error> {
        let mut connection = ServerConnection::new(served.config())?;
        connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(Tls {
            connection,
            counts: Arc::clone(&served.counts),
            is_handshaking: true,
            has_heard: false,
            stopped_early: false,
            end: None,
            failure: None,
            is_gone: false,
        })
    }

    /// Passes at most `room` bytes to `take`, and returns how many; see [`super::Stream::read`]. Takes everything that rustls has
    /// decrypted, so that no plaintext is left when the socket is empty.
    pub(crate) fn read(
        &mut self,
        socket: BorrowedFd<'_>,
        room: usize,
        mut take: impl FnMut(&[u8]),
    ) -> rustix::io::Result<usize> {
        debug_assert!(room > RECORD_BYTES_MAX, "no room for a record");
        self.stopped_early = false;
        let mut wire = [MaybeUninit::<u8>::uninit(); WIRE_BYTES];
        let mut taken = 0;
        for _ in 0..RECEIVES_MAX {
            if self.end.is_some() {
                break;
            }
            // Plaintext is shorter than its records, but rustls may hold the beginning of a record from an earlier read.
            let fits = room.saturating_sub(taken + RECORD_BYTES_MAX).min(WIRE_BYTES);
            if fits == 0 {
                self.stopped_early = true;
                return if taken > 0 { Ok(taken) } else { Err(Errno::NOBUFS) };
            }
            let received = match recv(socket, &mut wire[..fits], RecvFlags::DONTWAIT) {
                Ok(((received, _), _)) => received,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    self.flush(socket);
                    return if taken > 0 { Ok(taken) } else { Err(Errno::AGAIN) };
                }
                Err(_) => {
                    self.end = Some(End::Broken);
                    break;
                }
            };
            if received.is_empty() {
                self.cut_off();
                break;
            }
            let is_all = received.len() < fits;
            taken += self.decrypt(received, &mut take);
            self.flush(socket);
            if is_all && self.end.is_none() {
                return if taken > 0 { Ok(taken) } else { Err(Errno::AGAIN) };
            }
        }
        match self.end {
            _ if taken > 0 => {
                self.stopped_early = true;
                Ok(taken)
            }
            Some(End::InOrder) => Ok(0),
            Some(End::Broken) => Err(Errno::CONNRESET),
            None => {
                self.fail("the client sends nothing but empty records".to_owned());
                Err(Errno::PROTO)
            }
        }
    }

    /// Decrypts these bytes, and passes the plaintext of all complete records to `take`.
    fn decrypt(&mut self, mut received: &[u8], take: &mut impl FnMut(&[u8])) -> usize {
        self.has_heard = true;
        let mut taken = 0;
        while !received.is_empty() && self.end.is_none() {
            // The buffer of rustls is small, so that each call takes some of the bytes.
            let read = self.connection.read_tls(&mut received).map_err(|error| error.to_string());
            let processed =
                read.and_then(|_| self.connection.process_new_packets().map_err(|error| reason(&error)));
            let mut reader = self.connection.reader();
            while let Ok(bytes) = reader.fill_buf()
                && !bytes.is_empty()
            {
                let count = bytes.len();
                take(bytes);
                reader.consume(count);
                taken += count;
            }
            // Before the error is handled: an error in the bytes after the handshake is not a failed handshake.
            if self.is_handshaking && !self.connection.is_handshaking() {
                self.is_handshaking = false;
                self.counts.add_finished();
            }
            match processed {
                Ok(state) if state.peer_has_closed() => {
                    self.end = Some(End::InOrder);
                    // The peer may wait for our close_notify.
                    self.connection.send_close_notify();
                }
                Ok(_) => {}
                Err(reason) => self.fail(reason),
            }
        }
        taken
    }

    /// The peer's bytes have ended without a close_notify.
    fn cut_off(&mut self) {
        // A health check that connects and sends nothing is not a failure.
        if self.is_handshaking && self.has_heard {
            self.fail(ENDED_EARLY.to_owned());
        }
        self.end = Some(End::Broken);
    }

    fn fail(&mut self, reason: String) {
        self.end = Some(End::Broken);
        if self.failure.is_none() {
            if self.is_handshaking {
                self.counts.add_failed();
            }
            self.failure = Some(TlsFailure { is_handshake: self.is_handshaking, reason });
        }
    }

    pub(crate) fn fail_late(&mut self, seconds: u32) {
        self.fail(reason_of_late(seconds));
    }

    pub(crate) fn take_failure(&mut self) -> Option<TlsFailure> {
        self.failure.take()
    }

    /// Encrypts and sends bytes, a record or two of them. `EAGAIN` while earlier records wait to be sent.
    pub(crate) fn write(&mut self, socket: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<usize> {
        self.flush(socket);
        if self.is_gone {
            return Err(Errno::PIPE);
        }
        if self.is_handshaking || self.wants_write() {
            return Err(Errno::AGAIN);
        }
        let written = self.connection.writer().write(bytes).map_err(|_| Errno::PIPE)?;
        self.flush(socket);
        if written == 0 { Err(Errno::AGAIN) } else { Ok(written) }
    }

    /// Sends encrypted records, as far as there is room.
    pub(crate) fn flush(&mut self, socket: BorrowedFd<'_>) {
        while self.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => {
                    self.is_gone = true;
                    break;
                }
            }
        }
    }

    pub(crate) fn end(&mut self, socket: BorrowedFd<'_>) {
        if !self.is_handshaking {
            self.connection.send_close_notify();
        }
        self.flush(socket);
    }

    #[inline]
    pub(crate) fn wants_write(&self) -> bool {
        self.connection.wants_write() && !self.is_gone
    }

    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.stopped_early
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    #[inline]
    pub(crate) fn is_handshaking(&self) -> bool {
        self.is_handshaking
    }
}

/// A socket whose writes never wait.
struct Socket<'a>(BorrowedFd<'a>);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
