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

/// The memory of one worker for unfinished work, and its holders.
pub(crate) struct MemoryBudget {
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
    is_evictable: bool,
    must_close: bool,
}

/// A holder's key in the table; `None` while it holds nothing.
#[derive(Debug, Default)]
pub(crate) struct MemoryShare(Option<u32>);

/// Too much is held, and no holder can be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMemory;

impl MemoryBudget {
    pub(crate) fn new(bytes_max: usize) -> MemoryBudget {
        MemoryBudget {
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

    /// Sets how many bytes the holder has now. This may mark the holder itself: see [`MemoryBudget::must_close`].
    ///
    /// # Errors
    /// Too much is held, and no holder can be closed, not even this one: all of them wait for the server.
    pub(crate) fn set(&self, share: &mut MemoryShare, bytes: usize) -> Result<(), NoMemory> {
        if bytes == 0 {
            self.release(share);
            return Ok(());
        }
        let mut slots = self.slots.borrow_mut();
        let Some(key) = share.0 else {
            share.0 = u32::try_from(slots.vacant_key()).ok();
            slots.insert(Holder { began: self.begin(), bytes, is_evictable: true, must_close: false });
            self.held_bytes.set(self.held_bytes.get() + bytes);
            return self.make_room(&mut slots);
        };
        let Some(holder) = slots.get_mut(key as usize).filter(|holder| !holder.must_close) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut holder.bytes, bytes);
        self.held_bytes.set(self.held_bytes.get() - before + bytes);
        if bytes <= before {
            return Ok(());
        }
        let result = self.make_room(&mut slots);
        if result.is_err()
            && let Some(holder) = slots.get_mut(key as usize)
        {
            holder.bytes = before;
            self.held_bytes.set(self.held_bytes.get() - bytes + before);
        }
        result
    }

    /// Notes that the holder is at a new batch or message now.
    pub(crate) fn renew(&self, share: &MemoryShare) {
        self.change(share, |holder| holder.began = self.begin());
    }

    /// Sets whether the holder waits for its sender. A holder that waits for the server is not closed.
    pub(crate) fn set_evictable(&self, share: &MemoryShare, is_evictable: bool) {
        self.change(share, |holder| holder.is_evictable = is_evictable);
    }

    /// Whether the holder is marked: it must be closed, because others need its memory.
    pub(crate) fn must_close(&self, share: &MemoryShare) -> bool {
        let Some(key) = share.0 else { return false };
        self.slots.borrow_mut().get_mut(key as usize).is_some_and(|holder| holder.must_close)
    }

    /// Waits until a holder is marked.
    pub(crate) async fn marked(&self) {
        self.marked.notified().await;
    }

    pub(crate) fn release(&self, share: &mut MemoryShare) {
        let Some(key) = share.0.take() else { return };
        if let Some(holder) = self.slots.borrow_mut().remove(key as usize)
            && !holder.must_close
        {
            self.held_bytes.set(self.held_bytes.get() - holder.bytes);
        }
    }

    fn begin(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    fn change(&self, share: &MemoryShare, change: impl FnOnce(&mut Holder)) {
        let Some(key) = share.0 else { return };
        if let Some(holder) = self.slots.borrow_mut().get_mut(key as usize) {
            change(holder);
        }
    }

    /// Marks the oldest holders until there is room, and some more, so that the next reads need not search again.
    fn make_room(&self, slots: &mut Slots<Holder>) -> Result<(), NoMemory> {
        if self.held_bytes.get() <= self.bytes_max {
            return Ok(());
        }
        let mut oldest: Vec<&mut Holder> =
            slots.values_mut().filter(|holder| holder.is_evictable && !holder.must_close).collect();
        oldest.sort_unstable_by_key(|holder| holder.began);
        for holder in oldest {
            holder.must_close = true;
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

    fn held(budget: &MemoryBudget, bytes: usize) -> MemoryShare {
        let mut share = MemoryShare::default();
        budget.set(&mut share, bytes).unwrap();
        share
    }

    #[test]
    fn the_oldest_goes_and_not_the_newcomer() {
        let budget = MemoryBudget::new(100);
        let (first, mut second, mut third) = (held(&budget, 40), held(&budget, 30), held(&budget, 30));
        assert!(!budget.must_close(&first));
        // The first holder's message is now the youngest.
        budget.renew(&first);
        let newcomer = held(&budget, 20);
        let gone = [&first, &second, &third, &newcomer].map(|share| budget.must_close(share));
        assert_eq!(gone, [false, true, false, false]);
        budget.release(&mut second);
        assert_eq!(budget.held_bytes.get(), 90, "marked holders are not counted");
        // The oldest of all asks for more.
        budget.set(&mut third, 60).unwrap();
        assert!(budget.must_close(&third) && !budget.must_close(&newcomer));
    }

    #[test]
    fn who_waits_for_the_server_does_not_have_to_go() {
        let budget = MemoryBudget::new(100);
        let waits = held(&budget, 90);
        budget.set_evictable(&waits, false);
        let mut newcomer = MemoryShare::default();
        budget.set(&mut newcomer, 20).unwrap();
        assert!(budget.must_close(&newcomer) && !budget.must_close(&waits));
        budget.release(&mut newcomer);
        let mut newcomer = held(&budget, 5);
        budget.set_evictable(&newcomer, false);
        assert_eq!(budget.set(&mut newcomer, 20), Err(NoMemory));
        assert_eq!(budget.held_bytes.get(), 95);
    }
}
