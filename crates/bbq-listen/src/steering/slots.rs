//! The worker of each slot, and of each processor.

use crate::steering::program::{SLOTS, by_cpu, by_slot};
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

    /// The same number of slots for each worker.
    pub(crate) fn even(workers: usize) -> Self {
        Self::of(&vec![1; workers])
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

    /// Gives new workers their share of the slots without recent senders, so that senders keep their worker. If all slots are busy,
    /// a new worker gets none until the next resize.
    pub(crate) fn with_more(&self, workers: u16, is_busy: impl Fn(usize) -> bool) -> Self {
        let mut owners = self.0.clone();
        let known = self.0.iter().copied().max().unwrap_or(0) + 1;
        let share = SLOTS / usize::from(workers.max(1));
        let mut counts = vec![0; usize::from(workers.max(known))];
        owners.iter().for_each(|owner| counts[usize::from(*owner)] += 1);
        for newcomer in known..workers {
            for slot in (0..SLOTS).filter(|slot| !is_busy(*slot)) {
                if counts[usize::from(newcomer)] >= share {
                    break;
                }
                let giver = usize::from(owners[slot]);
                if owners[slot] < known && counts[giver] > share {
                    counts[giver] -= 1;
                    counts[usize::from(newcomer)] += 1;
                    owners[slot] = newcomer;
                }
            }
        }
        Self(owners)
    }

    #[cfg(test)]
    fn owner(&self, slot: usize) -> u16 {
        self.0[slot]
    }

    pub(crate) fn program(&self) -> Vec<Instruction> {
        by_slot(&self.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(slots: &Slots, workers: usize) -> Vec<usize> {
        (0..workers)
            .map(|worker| slots.0.iter().filter(|owner| usize::from(**owner) == worker).count())
            .collect()
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
        assert_eq!(before.without(|_| true), before, "there must be somebody");
    }

    #[test]
    fn newcomers_get_slots_in_which_nobody_was_seen() {
        let before = Slots::even(2);
        let is_busy = |slot: usize| slot.is_multiple_of(3);
        let after = before.with_more(4, is_busy);
        for slot in (0..SLOTS).filter(|slot| is_busy(*slot)) {
            assert_eq!(after.owner(slot), before.owner(slot));
        }
        assert_eq!(counts(&after, 4), [256; 4]);
        assert_eq!(before.with_more(4, |_| true), before);
    }
}
