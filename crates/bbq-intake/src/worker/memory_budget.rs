//! Memory held for unfinished work: batches of sessions, messages of text connections, bodies of requests. When all holders
//! together hold too much, the largest holders of the sender that holds the most are closed, and no others: see
//! [`crate::access::take_first`].
//!
//! A holder that must be closed is marked, and its memory is no longer counted; its owner notices the mark and frees the memory.
//! All holders of a worker are on one thread, so the memory is freed before other connections have read much.
//!
//! Invariant: the capacity of buffers is counted, not the bytes in them, because the capacity is what the machine has to provide.

use std::cell::{Cell, RefCell};

use bbq_stored::Identity;
use tokio::sync::Notify;

use crate::access::{Claim, take_first};
use crate::worker::connections::slots::Slots;

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
    identity: Identity,
    /// Smaller is older.
    began: u64,
    held: Held,
    /// The holder waits for its sender, and not for the server.
    is_evictable: bool,
    must_close: bool,
}

/// What a holder holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Memory.
    pub(crate) bytes: usize,
    /// The part of it that the sender has filled: by this, holders of a sender are compared. A buffer that was lent for a large read does
    /// not make its holder large.
    pub(crate) filled: usize,
}

impl Held {
    /// For memory that the sender has filled, or most of it.
    pub(crate) fn filled(bytes: usize) -> Held {
        Held { bytes, filled: bytes }
    }
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

    /// Whether a holder of this size can never have room, whatever others hold.
    pub(crate) fn is_beyond(&self, bytes: usize) -> bool {
        bytes > self.bytes_max
    }

    /// Sets what the holder has now. This may mark the holder itself: see [`MemoryBudget::must_close`].
    ///
    /// # Errors
    /// Too much is held, and no holder can be closed, not even this one: all of them wait for the server.
    pub(crate) fn set(
        &self,
        share: &mut MemoryShare,
        held: Held,
        identity: impl FnOnce() -> Identity,
    ) -> Result<(), NoMemory> {
        let bytes = held.bytes;
        if bytes == 0 {
            self.release(share);
            return Ok(());
        }
        let mut slots = self.slots.borrow_mut();
        let Some(key) = share.0 else {
            share.0 = u32::try_from(slots.vacant_key()).ok();
            let (identity, began) = (identity(), self.begin());
            slots.insert(Holder { identity, began, held, is_evictable: true, must_close: false });
            self.held_bytes.set(self.held_bytes.get() + bytes);
            return self.make_room(&mut slots);
        };
        let Some(holder) = slots.get_mut(key as usize).filter(|holder| !holder.must_close) else {
            return Ok(());
        };
        let before = std::mem::replace(&mut holder.held, held);
        self.held_bytes.set(self.held_bytes.get() - before.bytes + bytes);
        if bytes <= before.bytes {
            return Ok(());
        }
        let result = self.make_room(&mut slots);
        if result.is_err()
            && let Some(holder) = slots.get_mut(key as usize).filter(|holder| !holder.must_close)
        {
            holder.held = before;
            self.held_bytes.set(self.held_bytes.get() - bytes + before.bytes);
        }
        result
    }

    /// Notes that the holder is at a new batch or message now. A mark was for the one before, whose memory is free by now.
    pub(crate) fn renew(&self, share: &mut MemoryShare) {
        if self.must_close(share) {
            self.release(share);
        } else {
            self.change(share, |holder| holder.began = self.begin());
        }
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
            self.held_bytes.set(self.held_bytes.get() - holder.held.bytes);
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

    /// Marks those that have to go until there is room, and some more, so that the next reads need not search again.
    fn make_room(&self, slots: &mut Slots<Holder>) -> Result<(), NoMemory> {
        if self.held_bytes.get() <= self.bytes_max {
            return Ok(());
        }
        let open = slots.iter_mut().filter(|(_, holder)| !holder.must_close);
        let claims = open.map(|(key, holder)| Claim {
            identity: holder.identity.clone(),
            size: holder.held.filled,
            since: holder.began,
            key: holder.is_evictable.then_some(key),
        });
        let enough = self.bytes_max - self.bytes_max / 16;
        let (mut marked, mut left) = (Vec::new(), self.held_bytes.get());
        let claims: Vec<Claim<usize>> = claims.collect();
        take_first(claims.into_iter(), |key, _| {
            left -= slots.get_mut(key).map_or(0, |holder| holder.held.bytes);
            marked.push(key);
            left <= enough
        });
        for key in marked {
            if let Some(holder) = slots.get_mut(key) {
                holder.must_close = true;
            }
        }
        self.held_bytes.set(left);
        self.marked.notify_one();
        if left <= self.bytes_max { Ok(()) } else { Err(NoMemory) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(budget: &MemoryBudget, user: u32, bytes: usize) -> MemoryShare {
        let mut share = MemoryShare::default();
        budget.set(&mut share, Held::filled(bytes), || Identity::User(user)).unwrap();
        share
    }

    #[test]
    fn the_largest_of_the_sender_with_the_most_goes_however_old_others_are() {
        let budget = MemoryBudget::new(100);
        let (small, large, mut largest) = (held(&budget, 1, 10), held(&budget, 2, 38), held(&budget, 2, 40));
        let newcomer = held(&budget, 1, 20);
        let gone = [&small, &large, &largest, &newcomer].map(|share| budget.must_close(share));
        assert_eq!(gone, [false, false, true, false]);
        budget.release(&mut largest);
        assert_eq!(budget.held_bytes.get(), 68, "marked holders are not counted");
        // One that holds little may grow as long as others hold more; then it goes itself.
        let mut other = held(&budget, 3, 5);
        budget.set(&mut other, Held::filled(35), || Identity::Unknown).unwrap();
        assert!(budget.must_close(&large) && !budget.must_close(&other));
        budget.set(&mut other, Held::filled(80), || Identity::Unknown).unwrap();
        assert!(budget.must_close(&other) && !budget.must_close(&newcomer) && !budget.must_close(&small));
    }

    #[test]
    fn a_mark_does_not_outlive_the_message_it_was_for() {
        let budget = MemoryBudget::new(100);
        let (mut large, _small) = (held(&budget, 1, 90), held(&budget, 2, 20));
        assert!(budget.must_close(&large));
        budget.renew(&mut large);
        budget.set(&mut large, Held::filled(5), || Identity::User(1)).unwrap();
        assert!(!budget.must_close(&large));
        assert_eq!(budget.held_bytes.get(), 25);
    }

    #[test]
    fn a_lent_buffer_does_not_make_its_holder_large() {
        let budget = MemoryBudget::new(100);
        let mut lent = MemoryShare::default();
        budget.set(&mut lent, Held { bytes: 60, filled: 1 }, || Identity::Unknown).unwrap();
        let mut full = MemoryShare::default();
        budget.set(&mut full, Held::filled(50), || Identity::Unknown).unwrap();
        assert!(budget.must_close(&full) && !budget.must_close(&lent));
        budget.release(&mut full);
        assert_eq!(budget.held_bytes.get(), 60);
    }

    #[test]
    fn who_waits_for_the_server_does_not_have_to_go() {
        let budget = MemoryBudget::new(100);
        let waits = held(&budget, 1, 90);
        budget.set_evictable(&waits, false);
        let mut newcomer = MemoryShare::default();
        budget.set(&mut newcomer, Held::filled(20), || Identity::User(2)).unwrap();
        assert!(budget.must_close(&newcomer) && !budget.must_close(&waits));
        budget.release(&mut newcomer);
        let mut newcomer = held(&budget, 2, 5);
        budget.set_evictable(&newcomer, false);
        assert_eq!(budget.set(&mut newcomer, Held::filled(20), || Identity::User(2)), Err(NoMemory));
        assert_eq!(budget.held_bytes.get(), 95);
    }
}
