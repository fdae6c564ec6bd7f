//! The bytes that a session has received and not handled yet. The worker lends the buffers, and counts the memory that all of them
//! hold together. A session that only waits for its client holds no buffer.

use std::io;
use std::rc::Rc;

use bbq_stored::Identity;
use rustix::io::Errno;

use super::socket::SessionSocket;
use crate::worker::intake::Intake;
use crate::worker::limits::SPARE_BUFFER_BYTES;
use crate::worker::memory_budget::{Held, MemoryShare};

/// Less room than this is not worth a system call.
const READ_BYTES_MIN: usize = 64 * 1024;
/// Less memory than this is not worth giving back.
const SHRUNK_BYTES_MIN: usize = 4 * 1024;

pub(crate) struct Inbox {
    intake: Rc<Intake>,
    /// The received bytes; those before `handled` are done. 0 <= handled <= held.len().
    held: Vec<u8>,
    handled: usize,
    /// Counts the memory of `held` while bytes wait in it.
    share: MemoryShare,
    /// Who sends the bytes.
    identity: Identity,
}

impl Inbox {
    pub(crate) fn new(intake: Rc<Intake>, identity: Identity) -> Inbox {
        Inbox { intake, held: Vec::new(), handled: 0, share: MemoryShare::default(), identity }
    }

    /// Sets who sends from the next batch on.
    pub(crate) fn set_identity(&mut self, identity: Identity) {
        self.identity = identity;
    }

    /// Bytes that are not handled.
    pub(crate) fn waiting(&self) -> usize {
        self.held.len() - self.handled
    }

    /// Takes the bytes out, so that batches can be borrowed from them. The caller puts them back, with how many are handled.
    pub(crate) fn take(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.held), self.handled)
    }

    pub(crate) fn put_back(&mut self, held: Vec<u8>, handled: usize) {
        let is_next = handled > self.handled;
        self.held = held;
        self.handled = handled;
        if self.waiting() == 0 {
            return self.release();
        }
        if is_next {
            self.intake.buffers.memory.renew(&mut self.share);
        }
        // If too much is held now, the next read notices.
        let _counted = self.account();
    }

    /// The bytes that are not handled yet, for another worker.
    pub(crate) fn unhandled(&self) -> Vec<u8> {
        self.held[self.handled..].to_vec()
    }

    /// Begins with the bytes that another worker had received.
    pub(crate) fn begin_with(&mut self, held: Vec<u8>) {
        if !held.is_empty() {
            self.held = held;
            // If too much is held now, the next read notices.
            let _counted = self.account();
        }
    }

    /// Gives the buffer back.
    pub(crate) fn release(&mut self) {
        self.intake.buffers.give_back(std::mem::take(&mut self.held));
        self.handled = 0;
        self.intake.buffers.memory.release(&mut self.share);
    }

    /// Counts the memory of the buffer; `false` when the session must be closed, because too much is held.
    pub(crate) fn account(&mut self) -> bool {
        let held = Held { bytes: self.held.capacity(), filled: self.waiting() };
        self.intake.buffers.memory.set(&mut self.share, held, || self.identity.clone()).is_ok()
            && !self.must_close()
    }

    /// Whether the session must be closed, because others need its memory.
    pub(crate) fn must_close(&self) -> bool {
        self.intake.buffers.memory.must_close(&self.share)
    }

    /// Sets whether the session waits for its client and not for the lane, and so may be closed when memory runs out.
    pub(crate) fn set_evictable(&self, is_evictable: bool) {
        self.intake.buffers.memory.set_evictable(&self.share, is_evictable);
    }

    /// Shrinks the buffer to the bytes that wait in it, when the client is slow to send the rest.
    pub(crate) fn shrink(&mut self) {
        let waiting = self.waiting();
        if waiting == 0 || self.held.capacity() < 2 * waiting + SHRUNK_BYTES_MIN {
            return;
        }
        let kept = self.held[self.handled..].to_vec();
        self.handled = 0;
        self.intake.buffers.give_back(std::mem::replace(&mut self.held, kept));
        // Less memory than before is never refused.
        let _counted = self.account();
    }

    /// Makes room for the missing bytes, and for one large read in any case. The room grows only with the bytes that have come,
    /// because a header alone must not allocate what it announces. Handled bytes are removed only when their room is needed, so
    /// that most batches are moved at most once.
    fn make_room(&mut self, needed: usize) {
        if self.held.capacity() == 0 {
            self.held = self.intake.buffers.spare_buffer();
        }
        let missing = needed.saturating_sub(self.waiting()).max(READ_BYTES_MIN);
        let step = missing.min(self.waiting().max(SPARE_BUFFER_BYTES));
        let enough = if step == missing { missing } else { step / 2 };
        if self.held.capacity() - self.held.len() >= enough {
            return;
        }
        self.held.drain(..self.handled);
        self.handled = 0;
        self.held.reserve_exact(step);
    }

    /// Reads once, without waiting; `None` when nothing is there, 0 at the end.
    pub(crate) fn receive(&mut self, socket: &SessionSocket, needed: usize) -> io::Result<Option<usize>> {
        self.make_room(needed);
        loop {
            match socket.read(&mut self.held) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.held.is_empty() {
                        self.release();
                    }
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
