//! A bbq session while it has a task: batches in, acknowledgements out. What the client says is taken by `conversation`.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_listen::AsyncConnection;
use bbq_wire::session::{AckLevel, Refusal, encode_ack};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::sync::Notify;

use super::conversation::{Conversation, Left};
use super::intake::Intake;
use super::quiet_sessions::{QuietSession, QuietSessions};

/// Unsent bytes for a client that does not read: a welcome and a refusal fit; acknowledgements are cumulative, so only the
/// newest is kept beside them.
const OUTBOX_BYTES_MAX: usize = 16 * 1024;
/// How long a refused client may take to read why, and how much it may send meanwhile.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_READS_MAX: usize = 256;
const LINGER_READ_BYTES: usize = 16 * 1024;

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
    /// It is among those that are told next what became durable.
    pub(super) in_line: Cell<bool>,
}

impl Session {
    pub(super) fn new(stream: AsyncConnection, level: AckLevel, said: u64) -> Session {
        Session {
            stream,
            level,
            outstanding: Cell::new(0),
            acknowledged: Cell::new(said),
            said: Cell::new(said),
            outbox: RefCell::default(),
            failed: Cell::new(false),
            wake: Notify::new(),
            in_line: Cell::new(false),
        }
    }

    /// Whether it owes its client nothing.
    pub(super) fn is_settled(&self) -> bool {
        self.outstanding.get() == 0
            && self.outbox.borrow().is_empty()
            && !self.has_unsaid()
            && !self.failed.get()
    }

    /// Whether the newest acknowledgement is not even in the outbox.
    fn has_unsaid(&self) -> bool {
        self.acknowledged.get() > self.said.get()
    }

    pub(super) fn acknowledge(&self, sequence: u64) {
        self.acknowledged.set(self.acknowledged.get().max(sequence));
    }

    /// Sends what is to be said, as far as the socket takes it now.
    pub(super) fn push_out(&self) {
        let mut outbox = self.outbox.borrow_mut();
        // Twice at most: what a full outbox had no room for is said when the socket took all of it: an empty one wakes
        // nobody.
        loop {
            if self.has_unsaid() && outbox.len() < OUTBOX_BYTES_MAX {
                outbox.extend_from_slice(&encode_ack(self.acknowledged.get()));
                self.said.set(self.acknowledged.get());
            }
            self.send_from(&mut outbox);
            if !outbox.is_empty() || !self.has_unsaid() {
                break;
            }
        }
        if outbox.capacity() > 0 && outbox.is_empty() {
            *outbox = Vec::new();
        }
        if !outbox.is_empty() || self.outstanding.get() == 0 {
            self.wake.notify_one();
        }
    }

    /// Sends as much as the socket takes now.
    fn send_from(&self, outbox: &mut Vec<u8>) {
        while !outbox.is_empty() {
            match send(&self.stream, outbox, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(outbox.drain(..sent)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The reader of this connection meets the same, and ends it.
                Err(_) => outbox.clear(),
            }
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

/// Serves a session until its end or the server's, or until it is quiet again.
pub(super) fn serve(
    intake: &Rc<Intake>,
    quiet: Rc<QuietSessions>,
    session: QuietSession,
) -> impl Future<Output = ()> + use<> {
    let QuietSession { stream, door, peer, open, protocol, standing } = session;
    let intake = Rc::clone(intake);
    let mut conversation = Conversation::new(Rc::clone(&intake), door, peer, protocol);
    // Not a function: what it is given would be in its future twice.
    async move {
        intake.view.active_sessions.add();
        let left = match AsyncConnection::for_both(stream) {
            Ok(stream) => conversation.run(stream, standing).await,
            Err(error) => {
                intake.doors[conversation.door].report_closed(&error);
                None
            }
        };
        intake.view.active_sessions.remove();
        match left {
            Some(Left { stream, protocol, standing }) => {
                let (door, peer) = (conversation.door, conversation.peer);
                quiet.add(&intake, QuietSession { stream, door, peer, open, protocol, standing });
            }
            None => {
                intake.view.sessions.fetch_sub(1, Ordering::Relaxed);
                drop(open);
            }
        }
    }
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

/// Reads once, for nobody. On the stack, and not in the future above: at a stop every session of a worker waits there.
fn discard(stream: &AsyncConnection) -> rustix::io::Result<usize> {
    let mut sink = [0; LINGER_READ_BYTES];
    recv(stream, &mut sink, RecvFlags::DONTWAIT).map(|(_, bytes)| bytes)
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[tokio::test]
    async fn an_acknowledgement_that_a_full_outbox_had_no_room_for_is_said() {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let session = Session::new(AsyncConnection::for_both(near).unwrap(), AckLevel::Durable, 6);
        session.outbox.borrow_mut().resize(OUTBOX_BYTES_MAX, 0);
        session.acknowledge(7);
        assert!(!session.is_settled());
        session.push_out();
        assert!(session.is_settled());
        let mut told = vec![0; OUTBOX_BYTES_MAX + 1024];
        let (mut bytes, ack) = (0, encode_ack(7));
        while bytes < OUTBOX_BYTES_MAX + ack.len() {
            bytes += recv(&far, &mut told[bytes..], RecvFlags::DONTWAIT).unwrap().1;
        }
        assert_eq!(told[OUTBOX_BYTES_MAX..bytes], ack[..]);
    }

    #[tokio::test]
    async fn who_has_an_acknowledgement_to_say_is_not_settled() {
        let (near, _far) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let session = Session::new(AsyncConnection::for_both(near).unwrap(), AckLevel::Durable, 6);
        assert!(session.is_settled());
        session.acknowledge(7);
        assert!(!session.is_settled());
    }
}
