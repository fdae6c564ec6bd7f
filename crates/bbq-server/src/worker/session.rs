//! A bbq session: batches in, acknowledgements out. What is said is bbq-wire's business; who may speak for a stream and
//! what is new is the stream table's.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_listen::AsyncConnection;
use bbq_wire::Peer;
use bbq_wire::session::{AckLevel, Refusal, encode_ack};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::sync::Notify;
use tracing::warn;

use super::conversation::Conversation;
use super::intake::{Intake, OpenConnection};

/// Unsent bytes for a client that does not read: a welcome and a refusal fit; acknowledgements are cumulative, so only the
/// newest is kept beside them.
const OUTBOX_BYTES_MAX: usize = 16 * 1024;
/// How long a refused client may take to read why, and how much it may send meanwhile.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS_MAX: usize = 256;

/// What the session's own task and the acknowledging one share.
pub(super) struct Session {
    pub(super) stream: AsyncConnection,
    pub(super) level: AckLevel,
    /// Batches in the lane that are not durable yet.
    pub(super) outstanding: Cell<usize>,
    /// The newest acknowledgement, and the newest that was put in the outbox.
    pub(super) acknowledged: Cell<u64>,
    pub(super) said: Cell<u64>,
    /// Bytes that the socket did not take.
    pub(super) outbox: RefCell<Vec<u8>>,
    /// The lane failed with batches of this session in it.
    pub(super) failed: Cell<bool>,
    /// The own task has something to look at.
    pub(super) wake: Notify,
    pub(super) in_line: Cell<bool>,
}

impl Session {
    pub(super) fn acknowledge(&self, sequence: u64) {
        self.acknowledged.set(self.acknowledged.get().max(sequence));
    }

    /// Sends what is to be said, as far as the socket takes it now.
    pub(super) fn push_out(&self) {
        let mut outbox = self.outbox.borrow_mut();
        if self.acknowledged.get() > self.said.get() && outbox.len() < OUTBOX_BYTES_MAX {
            outbox.extend_from_slice(&encode_ack(self.acknowledged.get()));
            self.said.set(self.acknowledged.get());
        }
        while !outbox.is_empty() {
            match send(&self.stream, &outbox, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(outbox.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The reader of this connection meets the same, and ends it.
                Err(_) => outbox.clear(),
            }
        }
        if outbox.capacity() > 0 && outbox.is_empty() {
            *outbox = Vec::new();
        }
        if !outbox.is_empty() || self.outstanding.get() == 0 {
            self.wake.notify_one();
        }
    }

    /// Waits until the outbox is empty, or the client is gone.
    pub(super) async fn flushed(&self) -> io::Result<()> {
        loop {
            self.push_out();
            if self.outbox.borrow().is_empty() {
                return Ok(());
            }
            let mut writable = self.stream.writable().await?;
            writable.clear_ready();
        }
    }
}

/// Serves a bbq connection until its end or the server's.
pub(super) async fn serve(
    intake: Rc<Intake>,
    door: usize,
    stream: OwnedFd,
    peer: Peer,
    open: OpenConnection,
) {
    let view = Arc::clone(&intake.view);
    view.sessions.fetch_add(1, Ordering::Relaxed);
    match AsyncConnection::for_both(stream) {
        Ok(stream) => Conversation::new(intake, door, peer).run(stream).await,
        Err(error) => warn!(%error, "connection closed"),
    }
    view.sessions.fetch_sub(1, Ordering::Relaxed);
    drop(open);
}

/// Ready when there is something in the outbox and the socket takes it, or when nothing more will be.
pub(super) async fn unsent(session: &Session) {
    loop {
        if session.failed.get() {
            return;
        }
        if session.outbox.borrow().is_empty() {
            session.wake.notified().await;
        } else {
            // An error here means that the runtime ends; the reader learns it, too.
            if let Ok(mut writable) = session.stream.writable().await {
                writable.clear_ready();
            }
            return;
        }
    }
}

/// Says why, and lets the client read it: closing with unread bytes would reset the connection and take the refusal with
/// it.
pub(super) async fn refuse(stream: &AsyncConnection, refusal: &Refusal) -> io::Result<()> {
    let mut frame = Vec::new();
    refusal.encode(&mut frame);
    // A refusal fits into an empty socket buffer; a client that let its buffer fill does not read it anyway.
    send(stream, &frame, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    shutdown(stream, Shutdown::Write)?;
    let _in_time = tokio::time::timeout(LINGER, read_away(stream)).await;
    Ok(())
}

async fn read_away(stream: &AsyncConnection) -> io::Result<()> {
    let mut sink = vec![0; 16 * 1024];
    for _ in 0..LINGER_READS_MAX {
        let mut ready = stream.readable().await?;
        match recv(stream, &mut *sink, RecvFlags::DONTWAIT) {
            Ok((_, 0)) => break,
            Ok(_) => {}
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
