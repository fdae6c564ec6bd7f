//! The socket of a session that has a task.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bbq_listen::AsyncConnection;
use bbq_wire::session::Refusal;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::io::unix::AsyncFdReadyGuard;
use tokio::sync::Notify;

use super::replies::{Connection, Replies, Sent};
use crate::worker::stream::{Stream, Tls, TlsFailure};

/// How long a refused client may take to read the refusal, and how much it may send meanwhile.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS_MAX: usize = 256;
const LINGER_READ_BYTES: usize = 16 * 1024;

/// The socket, shared by the session's own task and the task that sends acknowledgements.
pub(crate) struct SessionSocket {
    socket: AsyncConnection,
    /// `None` is a plain connection.
    tls: Option<RefCell<Box<Tls>>>,
    /// Wakes the session's own task.
    wake: Notify,
}

impl SessionSocket {
    pub(crate) fn new(stream: Stream) -> io::Result<SessionSocket> {
        let (socket, tls) = stream.into_parts();
        let socket = AsyncConnection::for_both(socket)?;
        Ok(SessionSocket { socket, tls: tls.map(RefCell::new), wake: Notify::new() })
    }

    /// Waits until the replies call for a step of the session; see [`Connection::wake`].
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn into_stream(self) -> Stream {
        Stream::of_parts((self.socket.into(), self.tls.map(RefCell::into_inner)))
    }

    /// Reads into the spare capacity of `held`; see [`Stream::read`].
    pub(crate) fn read(&self, held: &mut Vec<u8>) -> rustix::io::Result<usize> {
        match &self.tls {
            None => recv(&self.socket, spare_capacity(held), RecvFlags::DONTWAIT).map(|(_, bytes)| bytes),
            Some(tls) => {
                let room = held.capacity() - held.len();
                tls.borrow_mut().read(self.socket.as_fd(), room, |bytes| held.extend_from_slice(bytes))
            }
        }
    }

    /// Waits until there is something to read, or the client has ended; see [`AsyncConnection::readable`].
    pub(crate) async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.socket.readable().await
    }

    /// Whether another read returns more, even if the socket is empty.
    pub(crate) fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.borrow().has_more())
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.borrow().is_handshaking())
    }

    /// Fails the TLS connection, because its handshake took longer than `seconds`.
    pub(crate) fn fail_late(&self, seconds: u32) {
        if let Some(tls) = &self.tls {
            tls.borrow_mut().fail_late(seconds);
        }
    }

    /// Returns why TLS failed, on the first call only.
    pub(crate) fn take_failure(&self) -> Option<TlsFailure> {
        self.tls.as_ref()?.borrow_mut().take_failure()
    }

    /// Sends all of these bytes, and what is encrypted of them. Only for a socket without [`Replies`].
    pub(crate) async fn send_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() || self.has_unsent() {
            let sent = if bytes.is_empty() { Sent::Full } else { self.send(bytes) };
            match sent {
                Sent::Bytes(sent) => bytes = &bytes[sent..],
                Sent::Full => self.writable().await?,
                Sent::Gone => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
        Ok(())
    }

    /// Waits until there is room to send, and sends encrypted records.
    async fn writable(&self) -> io::Result<()> {
        let mut writable = self.socket.writable().await?;
        if let Some(tls) = &self.tls {
            tls.borrow_mut().flush(self.socket.as_fd());
        }
        writable.clear_ready();
        Ok(())
    }

    /// Ends the sending side, so that the client reads the end.
    pub(crate) fn end(&self) -> io::Result<()> {
        if let Some(tls) = &self.tls {
            tls.borrow_mut().end(self.socket.as_fd());
        }
        Ok(shutdown(&self.socket, Shutdown::Write)?)
    }
}

impl Connection for SessionSocket {
    fn send(&self, bytes: &[u8]) -> Sent {
        loop {
            let sent = match &self.tls {
                None => send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
                Some(tls) => tls.borrow_mut().write(self.socket.as_fd(), bytes),
            };
            match sent {
                Ok(sent) => return Sent::Bytes(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Sent::Full,
                Err(_) => return Sent::Gone,
            }
        }
    }

    fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.borrow().wants_write())
    }

    fn wake(&self) {
        self.wake.notify_one();
    }
}

/// Waits until the socket has taken all replies, or the client is gone.
pub(crate) async fn flushed(replies: &Replies<SessionSocket>) -> io::Result<()> {
    loop {
        replies.flush();
        if replies.is_sent() {
            return Ok(());
        }
        replies.connection.writable().await?;
    }
}

/// Waits until there are unsent bytes and the socket takes them, or until the lane has failed.
pub(crate) async fn unsent(replies: &Replies<SessionSocket>) {
    let socket = &replies.connection;
    loop {
        if replies.has_failed() {
            return;
        }
        if replies.is_sent() {
            socket.woken().await;
        } else {
            // An error here means that the runtime ends; the reader gets it, too.
            let _runs = socket.writable().await;
            return;
        }
    }
}

/// Sends a refusal, and gives the client time to read it.
pub(crate) async fn refuse(socket: &SessionSocket, refusal: &Refusal) -> io::Result<()> {
    let mut frame = Vec::new();
    refusal.encode(&mut frame);
    say_last(socket, &frame).await
}

/// Sends the last, few bytes, and gives the client time to read them: closing with unread bytes would reset the connection, and they
/// would be lost.
pub(crate) async fn say_last(socket: &SessionSocket, bytes: &[u8]) -> io::Result<()> {
    // They fit into an empty socket buffer; a client that let its buffer fill does not read them anyway.
    if socket.send(bytes) == Sent::Gone {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    socket.end()?;
    let _in_time = tokio::time::timeout(LINGER, read_away(&socket.socket)).await;
    Ok(())
}

async fn read_away(stream: &AsyncConnection) -> io::Result<()> {
    for _ in 0..LINGER_READS_MAX {
        let mut ready = stream.readable().await?;
        match discard(stream) {
            Ok(0) => break,
            Ok(_) => {}
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads once and discards the bytes. The buffer is on the stack and not in the future of `refuse`: at a stop, every session of a
/// worker has such a future.
fn discard(stream: &AsyncConnection) -> rustix::io::Result<usize> {
    let mut sink = [0; LINGER_READ_BYTES];
    recv(stream, &mut sink, RecvFlags::DONTWAIT).map(|(_, bytes)| bytes)
}
