//! Where the messages of a transaction are in their topics: for each partition, runs of offsets.
//!
//! ```text
//! topic:partition:first+count,first+count topic:partition:first+count
//! ```

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use super::context::Delivered;
use super::sent::Sent;

/// More are not noted: a record of the progress stays small. Most transactions have a run for each partition; others who write to the same
/// partitions make more of them.
const RUNS_MAX: usize = 4096;
/// Partitions that an error names.
const SHOWN_MAX: usize = 4;

/// Of a transaction. Empty if nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Places(pub(super) Vec<Place>);

/// The messages in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// In order; none is empty, and there is one.
    runs: Vec<Range<i64>>,
}

impl Place {
    pub(super) fn first(&self) -> i64 {
        self.runs.first().map_or(0, |run| run.start)
    }

    pub(super) fn last(&self) -> i64 {
        self.runs.last().map_or(0, |run| run.end - 1)
    }

    pub(super) fn has(&self, offset: i64) -> bool {
        let index = self.runs.partition_point(|run| run.end <= offset);
        self.runs.get(index).is_some_and(|run| run.contains(&offset))
    }

    pub(super) fn count(&self) -> usize {
        self.runs.iter().map(|run| usize::try_from(run.end - run.start).unwrap_or_default()).sum()
    }

    /// Of one record.
    pub(super) fn at(topic: &str, partition: i32, offset: i64) -> Place {
        let mut place = Place { topic: topic.to_owned(), partition, runs: Vec::new() };
        place.add(offset);
        place
    }

    fn add(&mut self, offset: i64) {
        match self.runs.last_mut() {
            Some(run) if run.end == offset => run.end += 1,
            _ => self.runs.push(offset..offset + 1),
        }
    }

    fn parse(text: &str) -> Option<Place> {
        let mut parts = text.split(':');
        let (topic, partition, runs) = (parts.next()?, parts.next()?, parts.next()?);
        let run = |text: &str| {
            let (first, count) = text.split_once('+')?;
            let (first, count): (i64, i64) = (first.parse().ok()?, count.parse().ok()?);
            (first >= 0 && count > 0).then_some(first..first.checked_add(count)?)
        };
        let runs = runs.split(',').map(run).collect::<Option<Vec<_>>>()?;
        if !runs.is_sorted_by(|run, next| run.end <= next.start) {
            return None;
        }
        Some(Place { topic: topic.to_owned(), partition: partition.parse().ok()?, runs })
    }
}

impl Places {
    /// Of messages that were sent to these topics. Nothing if the brokers did not tell the offset of one, or told them in another order than
    /// they have, or there are too many runs.
    pub(super) fn of<'a>(delivered: &[Delivered], topic_of: impl Fn(usize) -> Option<&'a str>) -> Places {
        let mut places = Places::default();
        let mut numbers: HashMap<(&str, i32), usize> = HashMap::new();
        let (mut last, mut runs) = (None, 0);
        for Delivered { number, partition, offset } in delivered {
            // The progress has no such number.
            let Some(topic) = topic_of(*number) else { continue };
            let index = match last {
                // A batch has one partition.
                Some((of, index)) if of == (topic, *partition) => index,
                _ => *numbers.entry((topic, *partition)).or_insert_with(|| {
                    places.0.push(Place { topic: topic.to_owned(), partition: *partition, runs: Vec::new() });
                    places.0.len() - 1
                }),
            };
            last = Some(((topic, *partition), index));
            let place = &mut places.0[index];
            let before = place.runs.len();
            let is_behind = place.runs.last().is_none_or(|run| *offset >= run.end);
            place.add(*offset);
            runs += place.runs.len() - before;
            if *offset < 0 || !is_behind || runs > RUNS_MAX {
                return Places::default();
            }
        }
        places
    }

    /// Of the messages of a transaction of groups.
    pub(super) fn of_sent(delivered: &[Delivered], sent: &Sent) -> Places {
        Places::of(delivered, |number| sent.topic_of_number(number))
    }

    pub(super) fn parse(text: &str) -> Option<Places> {
        text.split_whitespace().map(Place::parse).collect::<Option<_>>().map(Places)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For people: the partitions, each with its first and last offset, up to a few of them.
    pub(super) fn summary(&self) -> String {
        let mut shown: Vec<String> = self
            .0
            .iter()
            .take(SHOWN_MAX)
            .map(|place| {
                format!("{}:{} from {} to {}", place.topic, place.partition, place.first(), place.last())
            })
            .collect();
        if let Some(more) = self.0.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
            shown.push(format!("and {more} more partitions"));
        }
        shown.join(", ")
    }
}

impl fmt::Display for Places {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Place { topic, partition, runs }) in self.0.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(formatter, "{space}{topic}:{partition}:")?;
            for (index, run) in runs.iter().enumerate() {
                let comma = if index > 0 { "," } else { "" };
                write!(formatter, "{comma}{}+{}", run.start, run.end - run.start)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_runs_of_offsets_for_each_partition() {
        let delivered = |of: &[(usize, i32, i64)]| -> Vec<Delivered> {
            of.iter().map(|&(number, partition, offset)| Delivered { number, partition, offset }).collect()
        };
        let topic_of = |number| [None, Some("a"), Some("b")][usize::min(number, 2)];
        let places = Places::of(
            &delivered(&[(1, 0, 7), (1, 0, 8), (2, 0, 9), (0, 0, 3), (1, 1, 9), (1, 0, 9), (1, 0, 12)]),
            topic_of,
        );
        assert_eq!(places.to_string(), "a:0:7+3,12+1 b:0:9+1 a:1:9+1");
        assert_eq!(Places::parse(&places.to_string()), Some(places.clone()));
        let first = &places.0[0];
        assert_eq!((first.first(), first.last(), first.count()), (7, 12, 4));
        let found: Vec<i64> = (0..20).filter(|offset| first.has(*offset)).collect();
        assert_eq!(found, [7, 8, 9, 12]);
        assert!(Places::of(&delivered(&[(1, 0, 7), (1, 0, 6)]), topic_of).is_empty());
        assert!(Places::of(&delivered(&[(1, 0, 7), (1, 0, 7)]), topic_of).is_empty());
        // Of a batch that was sent twice, the brokers do not tell the offset.
        assert!(Places::of(&delivered(&[(1, 0, 7), (1, 1, -1001)]), topic_of).is_empty());
        let scattered: Vec<_> = (0..=4096).map(|run| (1, 0, 2 * run)).collect();
        assert!(Places::of(&delivered(&scattered), topic_of).is_empty());
        assert_eq!(Places::of(&delivered(&scattered[1..]), topic_of).0[0].count(), 4096);
        assert_eq!(Places::parse(""), Some(Places::default()));
        for wrong in [
            "a",
            "a:0",
            "a:0:",
            "a:0:7",
            "a:0:7+0",
            "a:0:-1+1",
            "a:x:7+1",
            "a:0:9223372036854775807+1",
            "a:0:7+2,8+1",
        ] {
            assert_eq!(Places::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_error_names_a_few_partitions() {
        let places = Places::parse("a:0:7+3,12+1 b:0:9+1").unwrap();
        assert_eq!(places.summary(), "a:0 from 7 to 12, b:0 from 9 to 9");
        let many: Vec<String> = (0..6).map(|partition| format!("a:{partition}:1+1")).collect();
        let summary = Places::parse(&many.join(" ")).unwrap().summary();
        assert!(summary.ends_with("a:3 from 1 to 1, and 2 more partitions"), "{summary}");
    }
}
