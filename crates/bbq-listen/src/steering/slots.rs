//! The worker of each slot, and of each processor.

use crate::steering::connection_id::by_connection_id;
use crate::steering::key::{SLOTS, SenderHash};
use crate::steering::program::{by_cpu, by_random_number, by_slot};
use crate::sys::Instruction;

/// The worker that owns each slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slots(Vec<u16>);

impl Slots {
    /// Slots in proportion to the weights.
    pub(crate) fn of(weights: &[u16]) -> Self {
        let total: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        let mut owners = Vec::with_capacity(SLOTS);
        let mut sum = 0;
        for (owner, weight) in (0_u16..).zip(weights) {
            sum += usize::from(*weight);
            owners.resize(SLOTS * sum / total.max(1), owner);
        }
        Self(owners)
    }

    /// The same number of slots for each worker. With one worker more, only slots of the new worker change.
    pub(crate) fn even(workers: usize) -> Self {
        let mut owners = vec![0; SLOTS];
        let mut counts = vec![SLOTS];
        for newcomer in 1..workers.min(SLOTS) {
            let share = SLOTS / (newcomer + 1);
            // From the largest ones, so that no two differ by more than one.
            for _ in 0..share {
                let giver = (0..newcomer).max_by_key(|worker| counts[*worker]).unwrap_or(0);
                counts[giver] -= 1;
                let is_of_giver = |owner: &u16| usize::from(*owner) == giver;
                if let Some(slot) = owners.iter().rposition(is_of_giver) {
                    owners[slot] = newcomer as u16;
                }
            }
            counts.push(share);
        }
        Self(owners)
    }

    /// Gives the slots of absent workers to the others in turn. No other slot moves.
    pub(crate) fn without(&self, is_absent: impl Fn(u16) -> bool) -> Self {
        let mut present: Vec<u16> = self.0.iter().copied().filter(|owner| !is_absent(*owner)).collect();
        present.dedup();
        present.sort_unstable();
        present.dedup();
        if present.is_empty() {
            return self.clone();
        }
        let mut next = present.iter().cycle();
        let owner = |owner: &u16| if is_absent(*owner) { *next.next().unwrap_or(owner) } else { *owner };
        Self(self.0.iter().map(owner).collect())
    }

    pub(crate) fn owner(&self, slot: usize) -> u16 {
        self.0[slot]
    }

    /// Chooses by the sender.
    pub(crate) fn program(&self, hash: &SenderHash) -> Vec<Instruction> {
        by_slot(hash, &self.0)
    }

    /// Chooses by chance, in these proportions.
    pub(crate) fn program_by_chance(&self) -> Vec<Instruction> {
        by_random_number(&self.0)
    }

    /// Chooses by the worker's number in a connection id, and without one by the sender.
    pub(crate) fn program_by_connection_id(
        &self,
        number: (u8, u8),
        sockets: usize,
        absent: &[u16],
        hash: &SenderHash,
    ) -> Vec<Instruction> {
        by_connection_id(number, sockets, absent, hash, &self.0)
    }

    /// How many slots each of `workers` workers has.
    pub(crate) fn counts(&self, workers: usize) -> Vec<u16> {
        let mut counts = vec![0; workers];
        for owner in &self.0 {
            if let Some(count) = counts.get_mut(usize::from(*owner)) {
                *count += 1;
            }
        }
        counts
    }
}

/// The program that chooses by processor, and skips absent workers.
pub(crate) fn cpu_program(workers: usize, is_absent: impl Fn(u16) -> bool) -> Vec<Instruction> {
    let present: Vec<u16> = (0..workers as u16).filter(|worker| !is_absent(*worker)).collect();
    let owner = |worker: u16| match present.get(usize::from(worker) % present.len().max(1)) {
        Some(other) if is_absent(worker) => *other,
        _ => worker,
    };
    by_cpu(&(0..workers as u16).map(owner).collect::<Vec<_>>())
}

/// The program that chooses a present worker by chance.
pub(crate) fn packets_program(workers: usize, is_absent: impl Fn(u16) -> bool) -> Vec<Instruction> {
    let present: Vec<u16> = (0..workers as u16).filter(|worker| !is_absent(*worker)).collect();
    // If none is present, datagrams wait for all.
    by_random_number(if present.is_empty() { &[0] } else { &present })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(slots: &Slots, workers: usize) -> Vec<u16> {
        slots.counts(workers)
    }

    #[test]
    fn shares_are_in_proportion() {
        assert_eq!(counts(&Slots::even(4), 4), [256; 4]);
        assert_eq!(counts(&Slots::of(&[3, 0, 1]), 3), [768, 0, 256]);
        assert!(counts(&Slots::even(7), 7).iter().all(|count| (146..=147).contains(count)));
        assert!(counts(&Slots::even(SLOTS), SLOTS).iter().all(|count| *count == 1));
    }

    #[test]
    fn only_slots_of_the_absent_move() {
        let before = Slots::even(5);
        let after = before.without(|owner| owner == 3);
        for slot in 0..SLOTS {
            let (was, is) = (before.owner(slot), after.owner(slot));
            assert!(if was == 3 { is != 3 } else { is == was }, "slot {slot}: {was} -> {is}");
        }
        assert!(counts(&after, 5).iter().enumerate().all(|(worker, count)| worker == 3 || *count > 250));
        assert_eq!(before.without(|_| true), before, "at least one worker is present");
    }

    #[test]
    fn one_worker_more_takes_slots_and_no_other_slot_moves() {
        for workers in 1..40 {
            let (before, after) = (Slots::even(workers), Slots::even(workers + 1));
            for slot in 0..SLOTS {
                let is = after.owner(slot);
                assert!(
                    is == before.owner(slot) || usize::from(is) == workers,
                    "slot {slot}, {workers} workers"
                );
            }
            let counts = counts(&after, workers + 1);
            assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }
}
