//! Memory held for unfinished work: batches of sessions, messages of text connections, bodies of requests. When all holders
//! together hold too much, those with the oldest unfinished batches or messages are closed, not the newest connection.
//!
//! A holder that must be closed is marked, and its memory is no longer counted; its owner notices the mark and frees the memory.
//! All holders of a worker are on one thread, so the memory is freed before other connections have read much.
//!
//! Invariant: the capacity of buffers is counted, not the bytes in them, because the capacity is what the machine has to provide.

use std::cell::{Cell, RefCell};

use tokio::sync::Notify;

use crate::worker::accept::slots::Slots;

/// The holders of one worker.
pub(crate) struct Holders {
    slots: RefCell<Slots<Holder>>,
    /// The bytes of all holders that are not marked.
    held_bytes: Cell<usize>,
    bytes_max: usize,
    /// The `began` of the next batch or message.
    next: Cell<u64>,
    /// Notified when a holder was marked.
    marked: Notify,
}

struct Holder {
    /// Smaller is older.
    began: u64,
    bytes: usize,
    /// The holder waits for its sender, and not for the server.
    may_go: bool,
    must_go: bool,
}

/// A holder's place in the table; `None` while it holds nothing.
#[derive(Debug, Default)]
pub(crate) struct Hold(Option<u32>);

/// Too much is held, and no holder can be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

impl Holders {
    pub(crate) fn new(bytes_max: usize) -> Holders {
        Holders {
            slots: RefCell::default(),
            held_bytes: Cell::new(0),
            bytes_max,
            next: Cell::new(0),
            marked: Notify::new(),
        }
    }

    /// Whether new holders should take little memory.
    pub(crate) fn is_scarce(&self) -> bool {
        self.held_bytes.get() > self.bytes_max / 2
    }

    /// Sets how many bytes the holder has now. This may mark the holder itself: see [`Holders::must_go`].
    ///
    /// # Errors
    /// Too much is held, and no holder can be closed, not even this one: all of them wait for the server.
    pub(crate) fn set(&self, hold: &mut Hold, bytes: usize) -> Result<(), NoMemory> {
        if bytes == 0 {
            self.release(hold);
            return Ok(());
        }
        let mut slots = self.slots.borrow_mut();
        let Some(place) = hold.0 else {
            hold.0 = u32::try_from(slots.next()).ok();
            slots.put(Holder { began: self.begin(), bytes, may_go: true, must_go: false });
            self.held_bytes.set(self.held_bytes.get() + bytes);
            return self.make_room(&mut slots);
        };
        let Some(holder) = slots.at(place as usize).filter(|holder| !holder.must_go) else { return Ok(()) };
        let before = std::mem::replace(&mut holder.bytes, bytes);
        self.held_bytes.set(self.held_bytes.get() - before + bytes);
        if bytes <= before {
            return Ok(());
        }
        let made = self.make_room(&mut slots);
        if made.is_err()
            && let Some(holder) = slots.at(place as usize)
        {
            holder.bytes = before;
            self.held_bytes.set(self.held_bytes.get() - bytes + before);
        }
        made
    }

    /// Notes that the holder is at a new batch or message now.
    pub(crate) fn begin_anew(&self, hold: &Hold) {
        self.change(hold, |holder| holder.began = self.begin());
    }

    /// Sets whether the holder waits for its sender. A holder that waits for the server is not closed.
    pub(crate) fn set_may_go(&self, hold: &Hold, may_go: bool) {
        self.change(hold, |holder| holder.may_go = may_go);
    }

    /// Whether the holder is marked: it must be closed, because others need its memory.
    pub(crate) fn must_go(&self, hold: &Hold) -> bool {
        let Some(place) = hold.0 else { return false };
        self.slots.borrow_mut().at(place as usize).is_some_and(|holder| holder.must_go)
    }

    /// Waits until a holder is marked.
    pub(crate) async fn marked(&self) {
        self.marked.notified().await;
    }

    pub(crate) fn release(&self, hold: &mut Hold) {
        let Some(place) = hold.0.take() else { return };
        if let Some(holder) = self.slots.borrow_mut().take(place as usize)
            && !holder.must_go
        {
            self.held_bytes.set(self.held_bytes.get() - holder.bytes);
        }
    }

    fn begin(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    fn change(&self, hold: &Hold, change: impl FnOnce(&mut Holder)) {
        let Some(place) = hold.0 else { return };
        if let Some(holder) = self.slots.borrow_mut().at(place as usize) {
            change(holder);
        }
    }

    /// Marks the oldest holders until there is room, and some more, so that the next reads need not search again.
    fn make_room(&self, slots: &mut Slots<Holder>) -> Result<(), NoMemory> {
        if self.held_bytes.get() <= self.bytes_max {
            return Ok(());
        }
        let mut oldest: Vec<&mut Holder> =
            slots.values().filter(|holder| holder.may_go && !holder.must_go).collect();
        oldest.sort_unstable_by_key(|holder| holder.began);
        for holder in oldest {
            holder.must_go = true;
            self.held_bytes.set(self.held_bytes.get() - holder.bytes);
            if self.held_bytes.get() <= self.bytes_max - self.bytes_max / 16 {
                break;
            }
        }
        self.marked.notify_one();
        if self.held_bytes.get() <= self.bytes_max { Ok(()) } else { Err(NoMemory) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holders: &Holders, bytes: usize) -> Hold {
        let mut hold = Hold::default();
        holders.set(&mut hold, bytes).unwrap();
        hold
    }

    #[test]
    fn the_oldest_goes_and_not_the_newcomer() {
        let holders = Holders::new(100);
        let (first, mut second, mut third) = (held(&holders, 40), held(&holders, 30), held(&holders, 30));
        assert!(!holders.must_go(&first));
        // The first holder's message is now the youngest.
        holders.begin_anew(&first);
        let newcomer = held(&holders, 20);
        let gone = [&first, &second, &third, &newcomer].map(|hold| holders.must_go(hold));
        assert_eq!(gone, [false, true, false, false]);
        holders.release(&mut second);
        assert_eq!(holders.held_bytes.get(), 90, "marked holders are not counted");
        // The oldest of all asks for more.
        holders.set(&mut third, 60).unwrap();
        assert!(holders.must_go(&third) && !holders.must_go(&newcomer));
    }

    #[test]
    fn who_waits_for_the_server_does_not_have_to_go() {
        let holders = Holders::new(100);
        let waits = held(&holders, 90);
        holders.set_may_go(&waits, false);
        let mut newcomer = Hold::default();
        holders.set(&mut newcomer, 20).unwrap();
        assert!(holders.must_go(&newcomer) && !holders.must_go(&waits));
        holders.release(&mut newcomer);
        let mut newcomer = held(&holders, 5);
        holders.set_may_go(&newcomer, false);
        assert_eq!(holders.set(&mut newcomer, 20), Err(NoMemory));
        assert_eq!(holders.held_bytes.get(), 95);
    }
}
