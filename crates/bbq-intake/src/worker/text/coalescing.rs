//! Coalescing: a worker that has taken little text lets more text collect before it reads again, so that it is not woken for
//! each message.

use std::thread;
use std::time::Duration;

use bbq_listen::{Address, WorkerListener};
use rustix::thread::sched_yield;

/// The fixed cost of a message, as the number of bytes that can be copied in the same time.
const MESSAGE_COST_BYTES: usize = 256;
/// A turn with this weight was worth its wake-up: reading it cost several times as much as waking up.
const ENOUGH_BYTES: usize = 32 * 1024;
/// How long a worker that took less leaves its sockets unread. This is short compared with `spool.flush_interval_ms`, for which
/// such messages may wait anyway.
const PAUSE: Duration = Duration::from_millis(1);
/// A worker does not pause if a UDP socket has a smaller buffer: the kernel's default (208 KiB) holds a few hundred short
/// datagrams, and more may come in a pause when a burst begins. This size holds five times as many.
const PAUSE_BUFFER_BYTES_MIN: u32 = 1024 * 1024;

/// What a worker does after a turn, before it waits for the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coalescing {
    /// Does nothing: no text came, or a client may wait for an acknowledgement.
    None,
    /// Lets other threads run first: one turn then reads what they send meanwhile.
    Yield,
    /// Pauses: messages come one by one, and a wake-up costs more than reading one message.
    Pause,
}

/// The weight of messages that a batcher hands to the lane; see [`Coalescing::after`].
pub(crate) fn weight(messages: u32, bytes: usize) -> usize {
    messages as usize * MESSAGE_COST_BYTES + bytes
}

/// Whether a worker with this socket may pause: the pause must not lose messages or make senders wait. A unixgram socket queues
/// only a few messages, and senders wait when the queue is full.
pub(crate) fn may_pause(worker_listener: &WorkerListener) -> bool {
    match worker_listener.address() {
        Address::Tcp(_) | Address::Unix(_) => true,
        Address::Udp(_) => worker_listener
            .socket()
            .receive_buffer_bytes()
            .is_some_and(|bytes| bytes >= PAUSE_BUFFER_BYTES_MIN),
        Address::UnixDatagram(_) => false,
    }
}

impl Coalescing {
    /// What to do after a turn with messages of this weight; `is_waited_for` if clients may wait for acknowledgements.
    pub(crate) fn after(weight: usize, is_waited_for: bool, may_pause: bool) -> Coalescing {
        match weight {
            0 => Coalescing::None,
            // A client may wait, and after a yield other threads may run for some milliseconds.
            _ if is_waited_for => Coalescing::None,
            1..ENOUGH_BYTES if may_pause => Coalescing::Pause,
            _ => Coalescing::Yield,
        }
    }

    pub(crate) fn wait(self) {
        match self {
            Coalescing::None => {}
            Coalescing::Yield => sched_yield(),
            Coalescing::Pause => pause(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the thread is to wake for nothing, and the pause is short")]
fn pause() {
    thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_pauses_when_little_came_and_nobody_waits() {
        assert_eq!(Coalescing::after(0, false, true), Coalescing::None);
        assert_eq!(Coalescing::after(weight(1, 1), false, true), Coalescing::Pause);
        assert_eq!(Coalescing::after(weight(1, 1), false, false), Coalescing::Yield);
        assert_eq!(Coalescing::after(weight(1, 1), true, true), Coalescing::None);
        // Many short messages weigh as much as few long ones.
        assert_eq!(Coalescing::after(weight(128, 0), false, true), Coalescing::Yield);
        assert_eq!(Coalescing::after(weight(1, ENOUGH_BYTES), false, true), Coalescing::Yield);
        assert_eq!(Coalescing::after(weight(1, ENOUGH_BYTES), true, true), Coalescing::None);
    }
}
