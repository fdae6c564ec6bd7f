//! Coalescing: a worker that took little text lets more collect before it reads again, so that it is not woken for each
//! message.

use std::thread;
use std::time::Duration;

use bbq_listen::{Address, WorkerListener};
use rustix::thread::sched_yield;

/// The fixed cost of a message, as the number of bytes that could be copied in the same time.
const MESSAGE_COST_BYTES: usize = 256;
/// A turn with this weight was worth its wake-up: reading it cost several times as much as waking up.
const ENOUGH_BYTES: usize = 32 * 1024;
/// How long a worker that took less leaves its sockets alone. It is short beside `spool.flush_interval_ms`, for which
/// messages that nobody waits for may collect anyway.
const PAUSE: Duration = Duration::from_millis(1);
/// UDP sockets with a smaller buffer are never left alone: the kernel's default (208 KiB) holds some hundred short datagrams,
/// less than may come in a pause when a burst begins; this holds five times as many.
const PAUSE_BUFFER_BYTES_MIN: u32 = 1024 * 1024;

/// What a worker does after a turn, before it waits for the next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coalescing {
    /// Nothing: no text came, or a client may wait for an acknowledgement.
    None,
    /// Lets other threads run first: what they send meanwhile comes in one turn.
    Yield,
    /// Leaves its sockets alone for a moment: messages come one by one, and a wake-up costs more than reading one.
    Pause,
}

/// The weight of messages that no client waits for; see [`Coalescing::after`].
pub(crate) fn weight(messages: u32, bytes: usize) -> usize {
    messages as usize * MESSAGE_COST_BYTES + bytes
}

/// Whether a socket may be left alone for a moment: it must not lose messages, and no sender must wait for it. The queue of a
/// unixgram is a few messages long, and senders wait when it is full.
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
    /// After a turn that brought messages of this weight; `is_waited_for` when clients may wait for acknowledgements.
    pub(crate) fn after(weight: usize, is_waited_for: bool, may_pause: bool) -> Coalescing {
        match weight {
            0 => Coalescing::None,
            // Others may run for as long as the scheduler lets them, some milliseconds, and a client may wait.
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

#[expect(clippy::disallowed_methods, reason = "not to hear of anything is what it is for, and it is short")]
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
        // Many short messages are as much as few long ones.
        assert_eq!(Coalescing::after(weight(128, 0), false, true), Coalescing::Yield);
        assert_eq!(Coalescing::after(weight(1, ENOUGH_BYTES), false, true), Coalescing::Yield);
        assert_eq!(Coalescing::after(weight(1, ENOUGH_BYTES), true, true), Coalescing::None);
    }
}
