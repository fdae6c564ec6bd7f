//! Which numbers of a stream are known, as ranges: what comes late is told from what comes twice.
//!
//! ```text
//! known     1 2 3 4 5 6     9 10     13 14 15
//!           mark = 6        beyond = [9..=10, 13..=15]
//! ```
//!
//! Not here: why a number is known (it is stored, or its sender has given it up), and who may add numbers (the server's streams).
//!
//! Invariant: ranges are sorted, do not overlap and do not touch; those beyond the mark begin after `mark + 1`.

use std::fmt;

/// Most ranges of a stream that a server remembers. A range is 16 bytes, so a stream has at most 64 KiB of them. Streams have that
/// many only if their records come over several servers or lanes whose positions differ by as many batches.
pub const RANGES_MAX: usize = 4096;

/// The numbers `first ..= last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// At least 1.
    pub first: u64,
    /// At least `first`.
    pub last: u64,
}

impl Span {
    /// How many numbers it has.
    #[must_use]
    pub fn count(self) -> u64 {
        self.last - self.first + 1
    }

    /// Whether both have a number.
    #[must_use]
    pub fn meets(self, other: Span) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// What is known of the numbers of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// None is known.
    New,
    /// All are known.
    Known,
    /// Some are known. The first numbers that are not are these.
    Partly(Span),
    /// For some of them it cannot be told: too many ranges had to be remembered ([`RANGES_MAX`]). To take them could store records
    /// twice, and to drop them could lose records.
    Unsure,
}

/// A set of numbers from 1 on. It is small as long as there is one range: a server keeps one for each stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// The numbers 1 ..= mark are known.
    mark: u64,
    /// `None` if it would be empty.
    rest: Option<Box<Rest>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rest {
    /// Known numbers after the mark.
    beyond: Vec<Span>,
    /// Numbers up to the mark of which it is not known whether they are known.
    unsure: Option<Span>,
}

impl Ranges {
    /// The numbers 1 ..= `mark`.
    #[must_use]
    pub fn up_to(mark: u64) -> Ranges {
        Ranges { mark, rest: None }
    }

    /// Whether no number is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mark == 0 && self.beyond().is_empty()
    }

    /// The number up to which all are known, 0 for none.
    #[must_use]
    #[inline]
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// The ranges after the mark.
    #[must_use]
    #[inline]
    pub fn beyond(&self) -> &[Span] {
        self.rest.as_ref().map_or(&[], |rest| &rest.beyond)
    }

    /// The numbers of which it cannot be told whether they are known, and known ones between them.
    #[must_use]
    pub fn unsure(&self) -> Option<Span> {
        self.rest.as_ref().and_then(|rest| rest.unsure)
    }

    /// The highest known number, 0 for none.
    #[must_use]
    #[inline]
    pub fn highest(&self) -> u64 {
        self.beyond().last().map_or(self.mark, |range| range.last)
    }

    /// What is known of a batch's numbers.
    #[must_use]
    #[inline]
    pub fn check(&self, batch: Span) -> Check {
        if batch.first > self.highest() {
            return Check::New;
        }
        self.check_in_detail(batch)
    }

    fn check_in_detail(&self, batch: Span) -> Check {
        if self.unsure().is_some_and(|unsure| unsure.meets(batch)) {
            return Check::Unsure;
        }
        match self.unknown_in(batch) {
            None => Check::Known,
            Some(unknown) if unknown == batch => Check::New,
            Some(unknown) => Check::Partly(unknown),
        }
    }

    /// The first numbers of a batch that are not known.
    fn unknown_in(&self, batch: Span) -> Option<Span> {
        let first = match self.end_of_run(batch.first) {
            Some(end) if end >= batch.last => return None,
            Some(end) => end + 1,
            None => batch.first,
        };
        let beyond = self.beyond();
        let next = beyond.partition_point(|range| range.last < first);
        let last = beyond.get(next).map_or(batch.last, |next| batch.last.min(next.first - 1));
        Some(Span { first, last })
    }

    /// The last number of the known numbers without a gap of which `number` is one; `None` if it is not known.
    #[must_use]
    pub fn end_of_run(&self, number: u64) -> Option<u64> {
        if number <= self.mark {
            return Some(self.mark);
        }
        let beyond = self.beyond();
        let at = beyond.partition_point(|range| range.last < number);
        beyond.get(at).filter(|range| range.first <= number).map(|range| range.last)
    }

    /// The highest known number that is not above `number`, 0 for none.
    #[must_use]
    pub fn highest_up_to(&self, number: u64) -> u64 {
        let beyond = self.beyond();
        let at = beyond.partition_point(|range| range.first <= number);
        let before = at.checked_sub(1).and_then(|at| beyond.get(at)).map_or(self.mark, |range| range.last);
        before.min(number)
    }

    /// Adds numbers, known or not. How many ranges there may be is not limited here: see [`Ranges::limit`].
    #[inline]
    pub fn insert(&mut self, span: Span) {
        if self.rest.is_none() && span.first <= self.mark.saturating_add(1) {
            self.mark = self.mark.max(span.last);
            return;
        }
        self.insert_beyond(span);
    }

    fn insert_beyond(&mut self, span: Span) {
        let rest = self.rest.get_or_insert_default();
        let beyond = &mut rest.beyond;
        let begin = beyond.partition_point(|range| range.last.saturating_add(1) < span.first);
        let end = beyond.partition_point(|range| range.first <= span.last.saturating_add(1));
        let mut joined = span;
        if begin < end {
            joined = Span {
                first: span.first.min(beyond[begin].first),
                last: span.last.max(beyond[end - 1].last),
            };
        }
        if joined.first <= self.mark.saturating_add(1) {
            self.mark = self.mark.max(joined.last);
            beyond.drain(..end);
        } else {
            beyond.splice(begin..end, [joined]);
        }
        if *self.rest.get_or_insert_default() == Box::default() {
            self.rest = None;
        }
    }

    /// Keeps at most `ranges_max` ranges after the mark. Of the numbers in the lowest gaps it is then not known whether they are known.
    pub fn limit(&mut self, ranges_max: usize) {
        let Some(rest) = self.rest.as_mut().filter(|rest| rest.beyond.len() > ranges_max) else { return };
        let before = rest.unsure.map_or(self.mark + 1, |unsure| unsure.first);
        let excess = rest.beyond.len() - ranges_max;
        for range in rest.beyond.drain(..excess) {
            rest.unsure = Some(Span { first: before, last: range.first - 1 });
            self.mark = range.last;
        }
    }

    /// As text: `7`, `1-7,9-10`, and `1-7?3-4` with numbers that are not certain; [`Ranges::decode`] reads it.
    #[must_use]
    pub fn encode(&self) -> String {
        use fmt::Write as _;
        let mut text = self.mark.to_string();
        // Writing to a String cannot fail.
        for range in self.beyond() {
            let _infallible = write!(text, ",{range}");
        }
        if let Some(unsure) = self.unsure() {
            let _infallible = write!(text, "?{unsure}");
        }
        text
    }

    /// Reads what [`Ranges::encode`] wrote; `None` if it is something else.
    #[must_use]
    pub fn decode(text: &str) -> Option<Ranges> {
        let span = |text: &str| {
            let (first, last) = text.split_once('-')?;
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (0 < first && first <= last).then_some(Span { first, last })
        };
        let (known, unsure) = match text.split_once('?') {
            Some((known, unsure)) => (known, Some(span(unsure)?)),
            None => (text, None),
        };
        let mut known = known.split(',');
        let mut ranges = Ranges::up_to(known.next()?.parse().ok()?);
        for range in known {
            ranges.insert(span(range)?);
        }
        if unsure.is_some() {
            ranges.rest.get_or_insert_default().unsure = unsure;
        }
        Some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn span(first: u64, last: u64) -> Span {
        Span { first, last }
    }

    #[test]
    fn what_comes_late_is_new_and_what_comes_twice_is_known() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.check(span(1, 10)), Check::New);
        ranges.insert(span(1, 10));
        ranges.insert(span(21, 30));
        assert_eq!((ranges.mark(), ranges.highest(), ranges.beyond().len()), (10, 30, 1));
        assert_eq!(ranges.check(span(11, 20)), Check::New);
        assert_eq!(ranges.check(span(5, 10)), Check::Known);
        assert_eq!(ranges.check(span(21, 30)), Check::Known);
        assert_eq!(ranges.check(span(5, 15)), Check::Partly(span(11, 15)));
        assert_eq!(ranges.check(span(15, 25)), Check::Partly(span(15, 20)));
        assert_eq!(ranges.check(span(25, 35)), Check::Partly(span(31, 35)));
        assert_eq!(ranges.check(span(1, 40)), Check::Partly(span(11, 20)));
        assert_eq!(
            (ranges.end_of_run(7), ranges.end_of_run(15), ranges.end_of_run(25)),
            (Some(10), None, Some(30))
        );
        assert_eq!([0, 5, 15, 25, 99].map(|number| ranges.highest_up_to(number)), [0, 5, 10, 25, 30]);
        ranges.insert(span(11, 20));
        assert_eq!(ranges, Ranges::up_to(30));
    }

    #[test]
    fn of_what_was_forgotten_nothing_is_claimed() {
        let mut ranges = Ranges::default();
        for first in [1, 11, 21, 31] {
            ranges.insert(span(first, first + 4));
        }
        ranges.limit(3);
        assert_eq!(ranges.beyond().len(), 3);
        ranges.limit(1);
        assert_eq!(ranges.check(span(6, 10)), Check::Unsure);
        assert_eq!(ranges.check(span(12, 13)), Check::Unsure);
        assert_eq!(ranges.check(span(1, 5)), Check::Known);
        assert_eq!(ranges.check(span(26, 30)), Check::New);
        assert_eq!(Ranges::decode(&ranges.encode()), Some(ranges));
    }

    #[test]
    fn the_last_numbers_there_are() {
        let mut ranges = Ranges::default();
        ranges.insert(span(u64::MAX - 1, u64::MAX - 1));
        ranges.insert(span(5, 5));
        ranges.insert(span(1, u64::MAX - 2));
        assert_eq!(ranges, Ranges::up_to(u64::MAX - 1));
        assert_eq!(ranges.check(span(u64::MAX - 1, u64::MAX - 1)), Check::Known);
    }

    #[test]
    fn other_text_is_no_set() {
        for text in ["", "x", "1,2", "1,3-2", "1,0-2", "1?", "-1"] {
            assert_eq!(Ranges::decode(text), None, "{text}");
        }
    }

    proptest! {
        /// Against a set of single numbers.
        #[test]
        fn ranges_are_a_set(steps in prop::collection::vec((1u64..60, 0u64..8), 0..40), asked in (1u64..60, 0u64..12)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (first, more) in steps {
                ranges.insert(span(first, first + more));
                set.extend(first..=first + more);
            }
            prop_assert!(ranges.beyond().is_sorted_by(|a, b| a.last + 1 < b.first));
            prop_assert!(ranges.beyond().first().is_none_or(|range| range.first > ranges.mark + 1));
            let batch = span(asked.0, asked.0 + asked.1);
            let unknown: Vec<u64> = (batch.first..=batch.last).filter(|number| !set.contains(number)).collect();
            let expected = match unknown[..] {
                [] => Check::Known,
                _ if unknown.len() as u64 == batch.count() => Check::New,
                [first, ..] => {
                    let last = (first..=batch.last).take_while(|number| !set.contains(number)).last();
                    Check::Partly(span(first, last.unwrap()))
                }
            };
            prop_assert_eq!(ranges.check(batch), expected);
            prop_assert_eq!(ranges.highest_up_to(asked.0), set.range(..=asked.0).last().copied().unwrap_or(0));
            prop_assert_eq!(Ranges::decode(&ranges.encode()), Some(ranges));
        }
    }
}
