//! The socket of a session that has a task.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bbq_listen::AsyncConnection;
use bbq_wire::session::Refusal;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::sync::Notify;

use super::replies::{Connection, Replies, Sent};

/// How long a refused client may take to read why, and how much it may send meanwhile.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS_MAX: usize = 256;
const LINGER_READ_BYTES: usize = 16 * 1024;

/// Shared by the session's own task and the task that acknowledges.
pub(crate) struct SessionSocket {
    pub(crate) stream: AsyncConnection,
    /// Wakes the session's own task.
    wake: Notify,
}

impl SessionSocket {
    pub(crate) fn new(stream: AsyncConnection) -> SessionSocket {
        SessionSocket { stream, wake: Notify::new() }
    }

    /// Waits until there is something to look at.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn into_stream(self) -> OwnedFd {
        self.stream.into()
    }
}

impl Connection for SessionSocket {
    fn send(&self, bytes: &[u8]) -> Sent {
        loop {
            match send(&self.stream, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => return Sent::Bytes(sent),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Sent::Full,
                Err(_) => return Sent::Gone,
            }
        }
    }

    fn wake(&self) {
        self.wake.notify_one();
    }
}

/// Waits until the socket has taken all replies, or the client is gone.
pub(crate) async fn flushed(replies: &Replies<SessionSocket>) -> io::Result<()> {
    loop {
        replies.push_out();
        if replies.is_sent() {
            return Ok(());
        }
        let mut writable = replies.connection.stream.writable().await?;
        writable.clear_ready();
    }
}

/// Waits until there are unsent bytes and the socket takes them, or until sending has failed.
pub(crate) async fn unsent(replies: &Replies<SessionSocket>) {
    let socket = &replies.connection;
    loop {
        if replies.has_failed() {
            return;
        }
        if replies.is_sent() {
            socket.woken().await;
        } else {
            // An error here means that the runtime ends; the reader learns it, too.
            if let Ok(mut writable) = socket.stream.writable().await {
                writable.clear_ready();
            }
            return;
        }
    }
}

/// Sends a refusal, and gives the client time to read it: closing with unread bytes would reset the connection, and the
/// refusal would be lost.
pub(crate) async fn refuse(stream: &AsyncConnection, refusal: &Refusal) -> io::Result<()> {
    let mut frame = Vec::new();
    refusal.encode(&mut frame);
    // A refusal fits into an empty socket buffer; a client that let its buffer fill does not read it anyway.
    send(stream, &frame, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    shutdown(stream, Shutdown::Write)?;
    let _in_time = tokio::time::timeout(LINGER, read_away(stream)).await;
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

/// Reads once and discards the bytes. The buffer is on the stack rather than in the future above: at a stop, every session of
/// a worker waits there.
fn discard(stream: &AsyncConnection) -> rustix::io::Result<usize> {
    let mut sink = [0; LINGER_READ_BYTES];
    recv(stream, &mut sink, RecvFlags::DONTWAIT).map(|(_, bytes)| bytes)
}
