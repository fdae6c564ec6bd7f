//! What a session has received and not handled yet. One that waits for its client holds no buffer: the worker lends them, and
//! counts what all of them hold together.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::intake::Intake;

/// Less room than this is not worth a system call.
const READ_BYTES_MIN: usize = 64 * 1024;

pub(super) struct Inbox {
    intake: Rc<Intake>,
    /// Received; what stands before `handled` is done with. 0 <= handled <= held.len().
    held: Vec<u8>,
    handled: usize,
    /// What the worker's account has of `held`.
    accounted: usize,
}

impl Inbox {
    pub(super) fn new(intake: Rc<Intake>) -> Inbox {
        Inbox { intake, held: Vec::new(), handled: 0, accounted: 0 }
    }

    /// Bytes that are not handled.
    pub(super) fn waiting(&self) -> usize {
        self.held.len() - self.handled
    }

    /// Takes the bytes out, to be lent from; they are put back with how many of them are handled.
    pub(super) fn take(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.held), self.handled)
    }

    pub(super) fn put_back(&mut self, held: Vec<u8>, handled: usize) {
        self.held = held;
        self.handled = handled;
        if self.waiting() == 0 {
            self.release();
        }
    }

    /// Gives the buffer back.
    pub(super) fn release(&mut self) {
        self.intake.give_back(std::mem::take(&mut self.held));
        self.handled = 0;
        // Less than before is never refused.
        self.account();
    }

    /// Tells the worker how much is held now; `false` when that is too much.
    pub(super) fn account(&mut self) -> bool {
        let is_allowed = self.intake.hold(self.accounted, self.held.len());
        if is_allowed {
            self.accounted = self.held.len();
        }
        is_allowed
    }

    /// Makes room for the rest of what is needed, and for a good read in any case. What is handled goes only when its
    /// place is wanted: a batch is moved once at most.
    fn make_room(&mut self, needed: usize) {
        if self.held.capacity() == 0 {
            self.held = self.intake.spare_buffer();
        }
        let missing = needed.saturating_sub(self.waiting()).max(READ_BYTES_MIN);
        if self.held.capacity() - self.held.len() >= missing {
            return;
        }
        self.held.drain(..self.handled);
        self.handled = 0;
        self.held.reserve_exact(missing);
    }

    /// Reads once, without waiting; `None` when nothing is there, 0 at the end.
    pub(super) fn receive(&mut self, stream: impl AsFd, needed: usize) -> io::Result<Option<usize>> {
        self.make_room(needed);
        loop {
            match recv(&stream, spare_capacity(&mut self.held), RecvFlags::DONTWAIT) {
                Ok((_, bytes)) => return Ok(Some(bytes)),
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
