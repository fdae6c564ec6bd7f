//! How far a stream or a topic is with each lane, as the broker keeps it beside the messages.
//!
//! ```text
//! <lane>:<until>:<record>[:<begun>] ..      until: the place behind a group; record: the lane's records that are in the stream;
//!                                           begun: only so many records of that group are in the stream
//! <lane>:<received> ..                      in a line of their own, which earlier releases do not read: when the last of those records
//!                                           was received, Unix nanoseconds
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bbq_spool::LanePlace;

use super::last_group::LastGroup;

/// How far the stream is with one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The place behind the last group of which the stream has a record.
    pub until: u64,
    /// Records of the lane that are in the stream or were rejected.
    pub record: u64,
    /// How many records of the group the stream has; `None` for all.
    pub begun: Option<u64>,
    /// When the last of these records was received, Unix nanoseconds; 0 if unknown, as earlier releases did not write it.
    pub received_ns: u64,
}

/// How much of a group is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Nothing of it.
    Nothing,
    /// So many of the first records that can be read.
    Part(u64),
    /// All of it.
    Whole,
}

/// How far the stream is with every lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions(BTreeMap<u32, Position>);

impl Positions {
    /// How much of the group that ends at `until` the stream has.
    pub fn stored(&self, until: LanePlace) -> Stored {
        match self.0.get(&until.lane) {
            Some(position) if until.position < position.until => Stored::Whole,
            Some(position) if until.position == position.until => {
                position.begun.map_or(Stored::Whole, Stored::Part)
            }
            _ => Stored::Nothing,
        }
    }

    /// Notes how far the stream is with a lane. A position never goes back.
    pub fn advance(&mut self, lane: u32, position: Position) {
        let known = self.0.entry(lane).or_insert(position);
        if known.record <= position.record {
            let is_same = (known.until, known.record) == (position.until, position.record);
            let received_ns =
                if is_same && position.received_ns == 0 { known.received_ns } else { position.received_ns };
            *known = Position { received_ns, ..position };
        }
    }

    /// Goes back to where others are not as far.
    pub fn limit(&mut self, others: &Positions) {
        self.0.retain(|lane, position| {
            match others.0.get(lane) {
                Some(other) if other.record < position.record => *position = *other,
                Some(_) => {}
                None => return false,
            }
            true
        });
    }

    /// The records of the lane that are in the stream.
    pub fn record(&self, lane: u32) -> u64 {
        self.0.get(&lane).map_or(0, |position| position.record)
    }

    /// How many records these positions have beyond others.
    pub fn beyond(&self, others: &Positions) -> u64 {
        let of_lane =
            |(lane, position): (&u32, &Position)| position.record.saturating_sub(others.record(*lane));
        self.0.iter().map(of_lane).fold(0, u64::saturating_add)
    }

    /// The lanes of which these positions have records beyond others.
    pub(crate) fn lanes_beyond(&self, others: &Positions) -> BTreeSet<u32> {
        let is_beyond = |(lane, position): &(&u32, &Position)| position.record > others.record(**lane);
        self.0.iter().filter(is_beyond).map(|(lane, _)| *lane).collect()
    }

    /// The last group of each lane, where it is known when that was received.
    pub(crate) fn last_groups(&self) -> impl Iterator<Item = (u32, LastGroup)> {
        self.0.iter().filter(|(_, position)| position.received_ns > 0).map(|(&lane, position)| {
            let Position { until, record, received_ns, .. } = *position;
            (lane, LastGroup { until, record, received_ns })
        })
    }

    /// When the last record of each lane was received.
    pub fn times(&self) -> String {
        let times = self.last_groups().map(|(lane, last)| format!("{lane}:{}", last.received_ns));
        times.collect::<Vec<_>>().join(" ")
    }

    /// Adds what [`Positions::times`] has written. Without it, places alone count.
    pub fn with_times(mut self, text: &str) -> Positions {
        for word in text.split_ascii_whitespace() {
            if let Some((lane, received_ns)) = word.split_once(':')
                && let (Ok(lane), Ok(received_ns)) = (lane.parse::<u32>(), received_ns.parse::<u64>())
                && let Some(position) = self.0.get_mut(&lane)
            {
                position.received_ns = received_ns;
            }
        }
        self
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Positions> {
        let of_lane = |word: &str| {
            let mut numbers = word.split(':').map(|number| number.parse::<u64>().ok());
            let mut next = || numbers.next().flatten();
            let (lane, until, record) = (u32::try_from(next()?).ok()?, next()?, next()?);
            let begun = next();
            numbers.next().is_none().then_some((lane, Position { until, record, begun, received_ns: 0 }))
        };
        text.split_ascii_whitespace().map(of_lane).collect::<Option<_>>().map(Positions)
    }
}

impl fmt::Display for Positions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (lane, Position { until, record, begun, .. })) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{lane}:{until}:{record}")?;
            if let Some(begun) = begun {
                write!(f, ":{begun}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_were_written_and_say_what_is_stored() {
        let text = "0:8192:70:3 2:4096:9";
        let positions = Positions::parse(text).unwrap();
        assert_eq!(positions.to_string(), text);
        assert_eq!(Positions::parse("").unwrap(), Positions::default());
        for wrong in ["0", "0:1", "0:1:x", "0:1:2:3:4", "x:1:2", "0:1:2:"] {
            assert_ne!(
                Positions::parse(wrong).map(|positions| positions.to_string()).as_deref(),
                Some(wrong)
            );
        }
        let stored = |lane, position| positions.stored(LanePlace { lane, position, record: 0 });
        assert_eq!(
            (stored(0, 4096), stored(0, 8192), stored(0, 8193)),
            (Stored::Whole, Stored::Part(3), Stored::Nothing)
        );
        assert_eq!((stored(2, 4096), stored(1, 0)), (Stored::Whole, Stored::Nothing));
    }

    #[test]
    fn times_are_read_as_they_were_written_and_may_be_missing() {
        let places = "0:8192:70:3 2:4096:9";
        let positions = Positions::parse(places).unwrap();
        assert_eq!((positions.times(), positions.clone().with_times("")), (String::new(), positions.clone()));
        let timed = positions.with_times("2:1767225600000000000 7:5 x:1 0:y");
        assert_eq!((timed.times().as_str(), timed.to_string().as_str()), ("2:1767225600000000000", places));
        let last = LastGroup { until: 4096, record: 9, received_ns: 1_767_225_600_000_000_000 };
        assert_eq!(timed.last_groups().collect::<Vec<_>>(), [(2, last)]);
    }

    #[test]
    fn what_the_broker_lost_is_counted_over_all_lanes() {
        let ours = Positions::parse("0:9:70 1:5:8").unwrap();
        assert_eq!(ours.beyond(&Positions::parse("0:5:60:1 1:9:20").unwrap()), 10);
        assert_eq!(ours.lanes_beyond(&Positions::parse("1:5:7").unwrap()), BTreeSet::from([0, 1]));
        assert_eq!(ours.beyond(&Positions::default()), 78);
        let mut limited = ours.clone();
        limited.limit(&Positions::parse("0:5:60:1").unwrap());
        assert_eq!(limited.to_string(), "0:5:60:1");
        limited.limit(&ours);
        assert_eq!(limited.to_string(), "0:5:60:1");
        let mut later = ours.clone();
        later.advance(0, Position { until: 5, record: 60, begun: None, received_ns: 1 });
        assert_eq!(later, ours);
    }
}
