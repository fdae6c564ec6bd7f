//! The messages that a run was given and that are not confirmed: how long each is, in the unit that the confirmation counts.

use std::collections::VecDeque;

/// Messages of the same length that follow each other.
struct Equal {
    messages: u64,
    /// Of each; at least 1.
    units: u64,
}

/// See the module. Units are bytes or lines, counted from the beginning of the run.
#[derive(Default)]
pub(super) struct Unconfirmed {
    messages: VecDeque<Equal>,
    /// Units before the first of them.
    confirmed: u64,
}

impl Unconfirmed {
    /// Adds a message.
    pub(super) fn add(&mut self, units: u64) {
        match self.messages.back_mut() {
            Some(last) if last.units == units => last.messages += 1,
            _ => self.messages.push_back(Equal { messages: 1, units }),
        }
    }

    /// Returns how many more messages end within the first `total` units.
    pub(super) fn confirm(&mut self, total: u64) -> u64 {
        let mut confirmed = 0;
        while let Some(first) = self.messages.front_mut() {
            let whole = (total.saturating_sub(self.confirmed) / first.units).min(first.messages);
            self.confirmed += whole * first.units;
            first.messages -= whole;
            confirmed += whole;
            if first.messages > 0 {
                break;
            }
            self.messages.pop_front();
        }
        confirmed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Its memory: how many runs of equal messages there are.
    pub(super) fn entries(&self) -> usize {
        self.messages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_confirmed_with_its_last_unit() {
        let mut unconfirmed = Unconfirmed::default();
        for units in [5, 5, 5, 1, 9] {
            unconfirmed.add(units);
        }
        assert_eq!(unconfirmed.entries(), 3);
        for (total, more) in [(0, 0), (4, 0), (5, 1), (14, 1), (14, 0), (16, 2), (24, 0), (25, 1), (99, 0)] {
            assert_eq!(unconfirmed.confirm(total), more, "{total}");
        }
        assert!(unconfirmed.is_empty());
    }
}
