//! Records that an earlier sender has stored, and that the spool does not have any more: how many, and where.

use std::collections::VecDeque;

/// So many losses are told one by one. A damaged disk may have as many as the spool has segments.
const TOLD_MAX: usize = 16;

/// The losses of a spool, in the order of their numbers.
#[derive(Default)]
pub(super) struct Losses(VecDeque<Loss>);

struct Loss {
    /// First and last number of consecutive records.
    numbers: Vec<(u64, u64)>,
    /// Whether more records may follow that are lost, too; nobody knows how many.
    is_open: bool,
    why: String,
}

/// A loss, for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToldLoss {
    /// How many records at least; 0 if that is unknown.
    pub(crate) records: u64,
    pub(crate) why: String,
}

impl Losses {
    /// Adds damaged records of a segment.
    pub(super) fn add_damaged(&mut self, numbers: &[u64], is_open: bool, why: String) {
        let numbers = numbers.iter().map(|&number| (number, number)).collect();
        self.0.push_back(Loss { numbers, is_open, why });
    }

    /// Adds records that nobody can count.
    pub(super) fn add_unknown(&mut self, why: String) {
        self.0.push_back(Loss { numbers: Vec::new(), is_open: true, why });
    }

    /// Adds records that are missing behind all that was added. If the last loss was open, it is these records.
    pub(super) fn add_missing(&mut self, first: u64, last: u64, why: String) {
        if first > last {
            return;
        }
        self.add_sent(first, last, why);
        if let Some(loss) = self.0.back_mut() {
            loss.is_open = false;
        }
    }

    /// Adds records behind all that was added, which were sent and are missing. If the last loss was open, they are among it.
    pub(super) fn add_sent(&mut self, first: u64, last: u64, why: String) {
        match self.0.back_mut() {
            Some(open) if open.is_open => {
                open.numbers.retain(|(number, _)| *number < first);
                open.numbers.push((first, last));
            }
            _ => self.0.push_back(Loss { numbers: vec![(first, last)], is_open: false, why }),
        }
    }

    /// Adds records that are missing before all that was added.
    pub(super) fn add_missing_before(&mut self, first: u64, last: u64, why: String) {
        self.0.push_front(Loss { numbers: vec![(first, last)], is_open: false, why });
    }

    /// Whether the spool lacks something that cannot be counted.
    pub(super) fn is_open(&self) -> bool {
        self.0.back().is_some_and(|last| last.is_open)
    }

    /// Leaves out the records up to this one: every server has them.
    pub(super) fn forget(&mut self, acknowledged: u64) {
        for loss in &mut self.0 {
            loss.numbers.retain_mut(|(first, last)| {
                *first = (*first).max(acknowledged.saturating_add(1));
                first <= last
            });
        }
        self.0.retain(|loss| loss.is_open || !loss.numbers.is_empty());
    }

    /// What is told of them: few enough to read.
    pub(super) fn told(self) -> Vec<ToldLoss> {
        let mut told: Vec<ToldLoss> = self.0.into_iter().map(Loss::told).collect();
        if told.len() > TOLD_MAX {
            let rest = told.split_off(TOLD_MAX - 1);
            let records = rest.iter().map(|loss| loss.records).fold(0, u64::saturating_add);
            told.push(ToldLoss { records, why: format!("{} more places are damaged", rest.len()) });
        }
        told
    }
}

impl Loss {
    fn told(self) -> ToldLoss {
        let records = self.numbers.iter().map(|(first, last)| last - first + 1).fold(0, u64::saturating_add);
        ToldLoss { records, why: self.why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_lost_once_and_only_if_a_server_lacks_it() {
        let mut losses = Losses::default();
        losses.add_damaged(&[3, 7], true, "damaged".to_owned());
        // The segment behind begins with number 11: 7 and what followed it are missing.
        losses.add_missing(7, 10, "missing".to_owned());
        losses.add_missing(21, 20, "none".to_owned());
        losses.add_unknown("set aside".to_owned());
        losses.forget(8);
        let loss = |records, why: &str| ToldLoss { records, why: why.to_owned() };
        assert_eq!(losses.told(), [loss(2, "damaged"), loss(0, "set aside")]);
    }

    #[test]
    fn many_losses_are_told_together() {
        let mut losses = Losses::default();
        (0..100).for_each(|number| losses.add_damaged(&[2 * number + 1], false, String::new()));
        let told = losses.told();
        assert_eq!((told.len(), told.iter().map(|loss| loss.records).sum::<u64>()), (TOLD_MAX, 100));
    }
}
