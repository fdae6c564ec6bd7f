//! Which worker a sender of datagrams talks to, while a group grows.
//!
//! The program in the kernel knows slots, not senders. When a group grows, slots go to the new workers at once, so newcomers among the
//! senders are spread evenly. A sender that was in conversation before still belongs to the worker of its slot in the former layout:
//! the new worker that gets its datagrams hands them on to that worker. That lasts until the sender was silent for two generations.
//!
//! What was queued when the program was swapped is received by the former worker. Until that worker has drained its socket once, all
//! senders of a moved slot are handed to it, so that the first datagrams of a sender do not get two workers.
//!
//! Invariant: a sender that was noted keeps its worker, unless the worker was removed or is stalled, or
//! [`FORMER_LAYOUTS_MAX`] later resizes came within its conversation.
//! Invariant: a group that did not grow lately only notes its senders.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, fence};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::steering::key::SenderHash;
use crate::steering::sender_filter::{Fingerprint, SenderFilter};
use crate::steering::slots::Slots;

/// Former layouts that are remembered, each with a filter of 512 KiB. A group that grows more often within a minute moves the
/// conversations of the oldest.
const FORMER_LAYOUTS_MAX: usize = 4;

/// How long a former worker has to drain its socket: thousands of times what a full receive buffer takes. A worker that is overloaded
/// never drains it.
const SETTLE_MS_MAX: u64 = 1000;

/// The conversations of a reuseport group for datagrams.
#[derive(Debug)]
pub(crate) struct Conversations {
    hash: SenderHash,
    /// Every recent sender.
    seen: SenderFilter,
    layouts: RwLock<Layouts>,
    /// Whether there are former layouts.
    has_former: AtomicBool,
    /// How often the program was swapped.
    swaps: AtomicUsize,
}

#[derive(Debug)]
struct Layouts {
    present: Slots,
    workers: usize,
    /// The oldest first.
    former: Vec<Former>,
}

/// A layout before the group grew, with the senders that belong to it.
#[derive(Debug)]
struct Former {
    slots: Slots,
    senders: SenderFilter,
    began_ms: u64,
    /// The number of the swap that ended it; `usize::MAX` before that.
    swap: AtomicUsize,
    /// By worker: whether it has drained its socket since the swap.
    settled: Box<[AtomicBool]>,
}

impl Conversations {
    pub(crate) fn new(hash: SenderHash, present: Slots, workers: usize, now_ms: u64) -> Self {
        Self {
            hash,
            seen: SenderFilter::new(now_ms),
            layouts: RwLock::new(Layouts { present, workers, former: Vec::new() }),
            has_former: AtomicBool::new(false),
            swaps: AtomicUsize::new(0),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Layouts> {
        self.layouts.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Layouts> {
        self.layouts.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the senders of datagrams that came to the socket of worker `arrived_at`, and writes into `owners` the worker that each
    /// sender belongs to.
    pub(crate) fn arrive(
        &self,
        senders: impl Iterator<Item = Option<SocketAddr>> + Clone,
        arrived_at: u16,
        owners: &mut [u16],
        now_ms: u64,
    ) {
        self.age(now_ms);
        for sender in senders.clone().flatten() {
            self.seen.note(self.fingerprint_of(sender));
        }
        // Noted first, and then the look for former layouts. `grow` adds one, and then copies what is noted.
        fence(SeqCst);
        if !self.has_former.load(Relaxed) {
            return;
        }
        let layouts = self.read();
        for (sender, owner) in senders.zip(owners) {
            if let Some(sender) = sender {
                *owner =
                    layouts.owner(self.hash.slot_of(sender), self.fingerprint_of(sender), arrived_at, now_ms);
            }
        }
    }

    fn fingerprint_of(&self, sender: SocketAddr) -> Fingerprint {
        Fingerprint::new(self.hash.number_of(sender))
    }

    /// Ages by the clock.
    fn age(&self, now_ms: u64) {
        self.seen.age(now_ms);
        if !self.has_former.load(Relaxed) {
            return;
        }
        let is_over = |former: &Former| former.senders.age(now_ms) && former.senders.is_empty();
        let over = self.read().former.iter().filter(|former| is_over(former)).count();
        if over > 0 {
            let mut layouts = self.write();
            layouts.former.retain(|former| !former.senders.is_empty());
            self.has_former.store(!layouts.former.is_empty(), Relaxed);
        }
    }

    /// The number of the last swap of the program. A receive that begins after this call gets what was queued before that swap.
    pub(crate) fn swaps(&self) -> usize {
        self.swaps.load(Acquire)
    }

    /// `worker` has drained its socket, and what it received is noted. `swaps` is from before it began.
    pub(crate) fn settle(&self, worker: usize, swaps: usize) {
        if self.has_former.load(Relaxed) {
            for former in self.read().former.iter().filter(|former| former.swap.load(Acquire) <= swaps) {
                former.settled.get(worker).inspect(|settled| settled.store(true, Relaxed));
            }
        }
    }

    /// Begins a new layout, before the program of the present one is swapped.
    pub(crate) fn grow(&self, slots: Slots, workers: usize, now_ms: u64) {
        self.age(now_ms);
        let mut layouts = self.write();
        if layouts.former.len() == FORMER_LAYOUTS_MAX {
            layouts.former.remove(0);
        }
        let settled = (0..layouts.workers).map(|_| AtomicBool::new(false)).collect();
        let former = Former {
            slots: std::mem::replace(&mut layouts.present, slots),
            senders: SenderFilter::new(now_ms),
            began_ms: now_ms,
            swap: AtomicUsize::new(usize::MAX),
            settled,
        };
        layouts.former.push(former);
        layouts.workers = workers;
        self.has_former.store(true, Relaxed);
        fence(SeqCst);
        layouts.former.last().inspect(|former| former.senders.add(&self.seen));
    }

    /// The program was swapped. Workers that wait for events, with an empty socket, have nothing to drain.
    pub(crate) fn swapped(&self, has_drained: impl Fn(usize) -> bool) {
        let layouts = self.read();
        let swap = self.swaps.fetch_add(1, Release) + 1;
        if let Some(former) = layouts.former.last() {
            former.swap.store(swap, Release);
            for (worker, settled) in former.settled.iter().enumerate() {
                settled.fetch_or(has_drained(worker), Relaxed);
            }
        }
    }

    /// The kernel refused the program of [`grow`](Self::grow).
    pub(crate) fn undo(&self, workers: usize) {
        let mut layouts = self.write();
        if let Some(former) = layouts.former.pop() {
            layouts.present = former.slots;
            layouts.workers = workers;
        }
        self.has_former.store(!layouts.former.is_empty(), Relaxed);
    }

    /// The group shrank: conversations with removed workers move.
    pub(crate) fn shrink(&self, slots: Slots, workers: usize) {
        let mut layouts = self.write();
        (layouts.present, layouts.workers) = (slots, workers);
    }

    /// Another steering: conversations may move.
    pub(crate) fn replace(&self, slots: Slots) {
        let mut layouts = self.write();
        layouts.present = slots;
        layouts.former.clear();
        self.has_former.store(false, Relaxed);
    }
}

impl Layouts {
    /// The worker of a sender in `slot`.
    fn owner(&self, slot: usize, fingerprint: Fingerprint, arrived_at: u16, now_ms: u64) -> u16 {
        let present = self.present.owner(slot);
        if self.former.iter().all(|former| former.slots.owner(slot) == present) {
            return arrived_at;
        }
        for former in &self.former {
            let owner = former.slots.owner(slot);
            if usize::from(owner) >= self.workers {
                continue;
            }
            // Beside those in conversation: one whose datagram was queued before the swap, or may follow one that was.
            let belongs = former.senders.has(fingerprint)
                || (owner != present && (owner == arrived_at || !former.is_settled(owner, now_ms)));
            if belongs {
                former.senders.note(fingerprint);
                return owner;
            }
        }
        arrived_at
    }
}

impl Former {
    fn is_settled(&self, owner: u16, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.began_ms) > SETTLE_MS_MAX
            || self.settled.get(usize::from(owner)).is_none_or(|settled| settled.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SteeringKey;
    use crate::steering::sender_filter::GENERATION_MS;

    fn sender(number: u32) -> SocketAddr {
        SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 53))
    }

    struct Model {
        conversations: Conversations,
        hash: SenderHash,
        program: Slots,
        workers: usize,
    }

    impl Model {
        fn new(workers: usize) -> Self {
            let hash = SenderHash::new(&SteeringKey::from_bytes([3; 16]));
            let program = Slots::even(workers);
            let conversations = Conversations::new(hash.clone(), program.clone(), workers, 0);
            Self { conversations, hash, program, workers }
        }

        /// The worker that the kernel gives it to.
        fn arrives_at(&self, number: u32) -> u16 {
            self.program.owner(self.hash.slot_of(sender(number)))
        }

        /// The worker that serves a datagram.
        fn worker_at(&self, number: u32, arrived_at: u16, now_ms: u64) -> u16 {
            let mut owners = [arrived_at];
            self.conversations.arrive([Some(sender(number))].into_iter(), arrived_at, &mut owners, now_ms);
            owners[0]
        }

        fn worker(&self, number: u32, now_ms: u64) -> u16 {
            self.worker_at(number, self.arrives_at(number), now_ms)
        }

        fn grow(&mut self, workers: usize, now_ms: u64) {
            self.conversations.grow(Slots::even(workers), workers, now_ms);
            (self.program, self.workers) = (Slots::even(workers), workers);
            self.conversations.swapped(|_| false);
        }

        fn settle(&self) {
            let swaps = self.conversations.swaps();
            (0..self.workers).for_each(|worker| self.conversations.settle(worker, swaps));
        }
    }

    #[test]
    fn conversations_stay_and_newcomers_are_even_through_several_resizes() {
        let mut model = Model::new(2);
        let mut before: Vec<u16> = (0..2000).map(|number| model.worker(number, 0)).collect();
        for (round, workers) in [3, 5, 8].into_iter().enumerate() {
            let now = 10_000 * (round as u64 + 1);
            model.grow(workers, now);
            model.settle();
            for (number, was) in (0..).zip(&before) {
                assert_eq!(model.worker(number, now), *was, "{number}, {workers} workers");
            }
            let from = before.len() as u32;
            let new: Vec<u16> = (from..from + 8000).map(|number| model.worker(number, now)).collect();
            for worker in 0..workers as u16 {
                let share = new.iter().filter(|owner| **owner == worker).count();
                assert!(
                    share.abs_diff(8000 / workers) < 8000 / workers / 5,
                    "{worker} of {workers}: {share}"
                );
            }
            before.extend(new);
        }
    }

    #[test]
    fn who_is_silent_for_two_generations_moves_and_who_talks_on_does_not() {
        let mut model = Model::new(1);
        (0..100).for_each(|number| assert_eq!(model.worker(number, 0), 0));
        model.grow(8, 1000);
        model.settle();
        for step in 1..10 {
            (0..50).for_each(|number| assert_eq!(model.worker(number, 1000 + step * GENERATION_MS / 2), 0));
        }
        let moved = (50..100).filter(|number| model.worker(*number, 1000 + 5 * GENERATION_MS) != 0).count();
        assert!(moved > 35, "{moved} of 50");
        assert_eq!(model.worker(7, 1000 + 5 * GENERATION_MS), 0);
        // Everybody is silent: the former layout is forgotten, although nobody looked.
        model.worker(1000, 1000 + 20 * GENERATION_MS);
        model.worker(1000, 1000 + 21 * GENERATION_MS);
        assert!(!model.conversations.has_former.load(Relaxed));
    }

    /// The datagrams that were queued at the swap are received later than the first at the new worker.
    #[test]
    fn a_sender_whose_first_datagram_was_queued_at_the_swap_has_one_worker() {
        let mut model = Model::new(2);
        let queued: Vec<(u32, u16)> = (0..100).map(|number| (number, model.arrives_at(number))).collect();
        model.grow(8, 0);
        for (number, owner) in &queued {
            assert_eq!(model.worker(*number, 0), *owner, "before the former worker has drained its socket");
        }
        for (number, owner) in &queued {
            assert_eq!(model.worker_at(*number, *owner, 0), *owner);
        }
        model.settle();
        for (number, owner) in &queued {
            assert_eq!(model.worker(*number, 1), *owner);
        }
        // One that never drains its socket does not keep all.
        let mut model = Model::new(2);
        model.grow(8, 0);
        let kept = (0..100).filter(|number| model.worker(*number, SETTLE_MS_MAX) < 2).count();
        let late = (100..200).filter(|number| model.worker(*number, SETTLE_MS_MAX + 1) < 2).count();
        assert!(kept == 100 && late < 50, "{kept}, {late}");
    }

    #[test]
    fn a_refused_program_and_removed_workers_leave_nothing() {
        let mut model = Model::new(4);
        let before: Vec<u16> = (0..500).map(|number| model.worker(number, 0)).collect();
        model.conversations.grow(Slots::even(8), 8, 0);
        model.conversations.undo(4);
        for (number, was) in (0..).zip(&before) {
            assert_eq!(model.worker(number, 0), *was);
        }
        model.grow(8, 0);
        model.conversations.shrink(Slots::even(2), 2);
        (model.program, model.workers) = (Slots::even(2), 2);
        for (number, was) in (0..).zip(&before) {
            let is = model.worker(number, 0);
            assert!(if *was < 2 { is == *was } else { is < 2 }, "{number}: {was} -> {is}");
        }
    }
}
