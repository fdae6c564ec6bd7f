//! New connections of an address that floods: they are held, and then closed.
//!
//! Who floods connects again as soon as a connection is closed, thousands of times a second, and each new one costs the server more
//! than one that stays open and is not read.

use std::cell::Cell;
use std::time::Duration;

use crate::worker::stopping::Stopping;

/// An honest client behind the same address waits so long before it learns that it was turned away.
const HELD_FOR: Duration = Duration::from_secs(1);
/// Connections that a worker holds at a time. Each has a task, a descriptor, and what the kernel keeps unread, at first 128 KiB. More are
/// closed at once.
const HELD_MAX: u32 = 256;

/// How many a worker holds.
#[derive(Default)]
pub(crate) struct TurnedAway(Cell<u32>);

impl TurnedAway {
    /// Returns when the connection is to be closed.
    pub(super) async fn hold(&self, stopping: &Stopping) {
        if self.0.get() >= HELD_MAX {
            return;
        }
        let _place = Place::taken(&self.0);
        tokio::select! {
            biased;
            () = stopping.wait() => {}
            () = tokio::time::sleep(HELD_FOR) => {}
        }
    }
}

/// Given back also when the connection is closed to make room for others.
struct Place<'a>(&'a Cell<u32>);

impl Place<'_> {
    fn taken(held: &Cell<u32>) -> Place<'_> {
        held.set(held.get() + 1);
        Place(held)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::worker::stopping::Command;

    #[test]
    fn so_many_are_held_until_a_stop_and_more_are_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let (turned_away, stopping) = (TurnedAway::default(), Stopping::default());
        let mut context = Context::from_waker(Waker::noop());
        let mut held: Vec<_> = (0..HELD_MAX).map(|_| Box::pin(turned_away.hold(&stopping))).collect();
        assert!(held.iter_mut().all(|hold| hold.as_mut().poll(&mut context).is_pending()));
        assert!(pin!(turned_away.hold(&stopping)).poll(&mut context).is_ready());
        drop(held.pop());
        let mut another = pin!(turned_away.hold(&stopping));
        assert!(another.as_mut().poll(&mut context).is_pending());
        stopping.begin(Command::Stop);
        assert!(held.iter_mut().all(|hold| hold.as_mut().poll(&mut context).is_ready()));
        assert!(another.as_mut().poll(&mut context).is_ready());
    }
}
