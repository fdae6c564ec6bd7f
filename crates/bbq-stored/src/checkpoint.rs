//! The checkpoint of streams as text: the state of each stream, and the part of the segments that is covered.
//!
//! ```text
//! bbq streams 1 <crc>                         see bbq_spool::sealed
//! lane <index> <position>                     the segments before it are covered
//! forgotten <count>                           streams with records that were forgotten so far, if there are any
//! stream <id> <highest number> <unix seconds of its last batch> <home lane> <position behind its last batch>
//!        <holder, with + if its client keeps it> <told> <numbers> <told from>            see access::Identity, stream, bbq_wire::Ranges
//! identity <id> <name of the token with which the stream was begun>         if there is one, behind its stream
//! marked <id> <24 bits of that name>                                       if only the lanes tell of it, see belongs
//! ```
//!
//! Earlier versions wrote a stream up to its highest number, its position or its numbers, and read no further.
//!
//! Not here: when a checkpoint is written, and which streams it forgets (`streams`, `crowd`).

use std::fmt::Write as _;

use bbq_spool::{LanePlace, NameMark, sealed};
use bbq_wire::{Ranges, StreamId};

use super::belongs::Belongs;
use crate::identity::Identity;

/// A stream's row in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: StreamId,
    /// Its durable numbers, and those that were given up.
    pub(crate) numbers: Ranges,
    /// The highest number that the client itself was told to be stored.
    pub(crate) told: u64,
    /// The lowest such number since the stream came into the table, 0 for none.
    pub(crate) told_from: u64,
    /// Unix seconds of its last batch.
    pub(crate) seen: u64,
    /// The lane of its last batch, and a position that is not before it.
    pub(crate) home: Option<(u32, u64)>,
    /// The name of the token with which it was begun.
    pub(crate) belongs: Belongs,
    /// Who sent it.
    pub(crate) holder: Identity,
    /// Its client goes on with it after a restart.
    pub(crate) is_kept: bool,
}

impl Default for Known {
    fn default() -> Known {
        Known {
            id: StreamId([0; 16]),
            numbers: Ranges::default(),
            told: 0,
            told_from: 0,
            seen: 0,
            home: None,
            belongs: Belongs::ToNobody,
            holder: Identity::Unknown,
            is_kept: false,
        }
    }
}

impl Known {
    /// A stream of which all numbers up to this one are stored, and its client was told so.
    fn from_the_first(id: StreamId, highest: u64) -> Known {
        let (numbers, told_from) = (Ranges::up_to(highest), u64::from(highest > 0));
        Known { id, numbers, told: highest, told_from, ..Known::default() }
    }
}

/// What a checkpoint says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) streams: Vec<Known>,
    /// Up to where each lane is covered.
    pub(crate) places: Vec<LanePlace>,
    /// How many streams with records were forgotten.
    pub(crate) forgotten: u64,
}

pub(crate) fn encode(ends: &[LanePlace], forgotten: u64, rows: &[Known]) -> String {
    let mut body = String::new();
    // Writing to a String cannot fail.
    for end in ends {
        let _infallible = writeln!(body, "lane {} {}", end.lane, end.position);
    }
    if forgotten > 0 {
        let _infallible = writeln!(body, "forgotten {forgotten}");
    }
    for row in rows.iter().filter(|row| !row.numbers.is_empty()) {
        let Known { id, numbers, told, told_from, seen, home, belongs, holder, is_kept } = row;
        // Position 0 is before everything: such a stream has nothing unread there.
        let (lane, position) = home.unwrap_or_default();
        let kept = if *is_kept { "+" } else { "" };
        let (highest, numbers) = (numbers.highest(), numbers.encode());
        let _infallible = writeln!(
            body,
            "stream {id} {highest} {seen} {lane} {position} {holder}{kept} {told} {numbers} {told_from}"
        );
        let _infallible = match belongs {
            Belongs::ToNobody => Ok(()),
            Belongs::To(name) => writeln!(body, "identity {id} {name}"),
            Belongs::ToMarked(mark) => writeln!(body, "marked {id} {mark}"),
        };
    }
    sealed::seal("streams", &body)
}

pub(crate) fn decode(text: &str) -> Option<Checkpoint> {
    let body = sealed::open("streams", text)?;
    let mut checkpoint = Checkpoint::default();
    for line in body.lines() {
        let mut words = line.split(' ');
        match words.next()? {
            "lane" => checkpoint.places.push(LanePlace {
                lane: words.next()?.parse().ok()?,
                position: words.next()?.parse().ok()?,
                record: 0,
            }),
            "forgotten" => checkpoint.forgotten = words.next()?.parse().ok()?,
            "stream" => checkpoint.streams.push(stream(words)?),
            word @ ("identity" | "marked") => {
                let id = id(words.next()?)?;
                let known: &mut Known = checkpoint.streams.last_mut().filter(|known| known.id == id)?;
                let name = words.next()?;
                known.belongs = match word {
                    "identity" => Belongs::To(name.into()),
                    _ => Belongs::ToMarked(NameMark::parse(name)?),
                };
            }
            _ => {}
        }
    }
    Some(checkpoint)
}

fn stream<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Known> {
    let id = id(words.next()?)?;
    let highest = words.next()?.parse().ok()?;
    let seen = words.next()?.parse().ok()?;
    let home = match words.next() {
        Some(lane) => Some((lane.parse().ok()?, words.next()?.parse().ok()?)),
        None => None,
    };
    let known = Known { seen, home, ..Known::from_the_first(id, highest) };
    let Some(holder) = words.next() else { return Some(known) };
    let (holder, is_kept) = match holder.strip_suffix('+') {
        Some(holder) => (holder, true),
        None => (holder, false),
    };
    let told = words.next()?.parse().ok()?;
    let numbers = Ranges::decode(words.next()?)?;
    let told_from = match words.next() {
        Some(number) => number.parse().ok()?,
        None => u64::from(told > 0),
    };
    Some(Known { holder: Identity::parse(holder)?, is_kept, told, told_from, numbers, ..known })
}

fn id(word: &str) -> Option<StreamId> {
    Some(StreamId(u128::from_str_radix(word, 16).ok()?.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use bbq_wire::Span;

    use super::*;

    #[test]
    fn the_checkpoint_comes_back_and_damage_is_noticed() {
        let ends = [LanePlace { lane: 1, position: 77, record: 0 }];
        let id = StreamId([0x0f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff]);
        let known = Known { seen: 5, home: Some((1, 70)), ..Known::from_the_first(id, 9) };
        let mut numbers = known.numbers.clone();
        numbers.insert(Span { first: 20, last: 30 });
        let holder = Identity::User(7);
        let other = Known {
            numbers,
            told: 3,
            told_from: 2,
            belongs: Belongs::To("till-4".into()),
            holder,
            is_kept: true,
            ..known.clone()
        };
        let marked = Known { belongs: Belongs::ToMarked(NameMark::of("till-4")), ..known.clone() };
        let unknown = Known { seen: 6, ..Known::default() };
        let text = encode(&ends, 3, &[known.clone(), other.clone(), marked.clone(), unknown]);
        let streams = vec![known, other, marked];
        assert_eq!(decode(&text), Some(Checkpoint { streams, places: ends.to_vec(), forgotten: 3 }));
        assert_eq!(decode(&text.replace("77", "78")), None);
    }

    #[test]
    fn rows_of_earlier_versions_are_read() {
        let id = StreamId([1; 16]);
        let body = format!("stream {id} 9 5\nstream {id} 8 5 1 70\nstream {id} 7 5 1 70 -+ 7 7\n");
        let known = Known { seen: 5, ..Known::from_the_first(id, 9) };
        let later = Known { seen: 5, home: Some((1, 70)), ..Known::from_the_first(id, 8) };
        let kept = Known { is_kept: true, ..Known { numbers: Ranges::up_to(7), told: 7, ..later.clone() } };
        let decoded = decode(&sealed::seal("streams", &body)).unwrap();
        assert_eq!(decoded.streams, [known, later, kept]);
    }
}
