//! The checkpoint of streams as text: the state of each stream, and the part of the segments that is covered.
//!
//! ```text
//! bbq streams 1 <crc>                         see bbq_spool::sealed
//! lane <index> <position>                     the segments before it are covered
//! forgotten <count>                           streams with records that were forgotten so far, if there are any
//! stream <id> <highest number> <unix seconds of its last batch> <home lane> <position behind its last batch>
//!        <holder, with + if its client keeps it> <told> <numbers>                        see access::Identity, stream, bbq_wire::Ranges
//! identity <id> <name of the token with which the stream was begun>         if there is one, behind its stream
//! ```
//!
//! Earlier versions wrote a stream up to its highest number or up to its position, and read no further.
//!
//! Not here: when a checkpoint is written, and which streams it forgets (`streams`, `crowd`).

use std::fmt::Write as _;
use std::sync::Arc;

use bbq_spool::{LanePlace, sealed};
use bbq_wire::{Ranges, StreamId};

use crate::access::Identity;

/// A stream's row in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: StreamId,
    /// Its durable numbers, and those that were given up.
    pub(crate) numbers: Ranges,
    /// The highest number that the client itself was told to be stored.
    pub(crate) told: u64,
    /// Unix seconds of its last batch.
    pub(crate) seen: u64,
    /// The lane of its last batch, and a position that is not before it.
    pub(crate) home: Option<(u32, u64)>,
    /// The name of the token with which it was begun.
    pub(crate) identity: Option<Arc<str>>,
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
            seen: 0,
            home: None,
            identity: None,
            holder: Identity::Unknown,
            is_kept: false,
        }
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
        let Known { id, numbers, told, seen, home, identity, holder, is_kept } = row;
        // Position 0 is before everything: such a stream has nothing unread there.
        let (lane, position) = home.unwrap_or_default();
        let kept = if *is_kept { "+" } else { "" };
        let (highest, numbers) = (numbers.highest(), numbers.encode());
        let _infallible =
            writeln!(body, "stream {id} {highest} {seen} {lane} {position} {holder}{kept} {told} {numbers}");
        if let Some(identity) = identity {
            let _infallible = writeln!(body, "identity {id} {identity}");
        }
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
            "identity" => {
                let id = id(words.next()?)?;
                let known: &mut Known = checkpoint.streams.last_mut().filter(|known| known.id == id)?;
                known.identity = Some(words.next()?.into());
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
    let known = Known { id, numbers: Ranges::up_to(highest), told: highest, seen, home, ..Known::default() };
    let Some(holder) = words.next() else { return Some(known) };
    let (holder, is_kept) = match holder.strip_suffix('+') {
        Some(holder) => (holder, true),
        None => (holder, false),
    };
    let told = words.next()?.parse().ok()?;
    Some(Known {
        holder: Identity::parse(holder)?,
        is_kept,
        told,
        numbers: Ranges::decode(words.next()?)?,
        ..known
    })
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
        let numbers = Ranges::up_to(9);
        let known = Known { id, numbers, told: 9, seen: 5, home: Some((1, 70)), ..Known::default() };
        let mut numbers = known.numbers.clone();
        numbers.insert(Span { first: 20, last: 30 });
        let holder = Identity::User(7);
        let other = Known {
            numbers,
            told: 3,
            identity: Some("till-4".into()),
            holder,
            is_kept: true,
            ..known.clone()
        };
        let unknown = Known { seen: 6, ..Known::default() };
        let text = encode(&ends, 3, &[known.clone(), other.clone(), unknown]);
        let streams = vec![known, other];
        assert_eq!(decode(&text), Some(Checkpoint { streams, places: ends.to_vec(), forgotten: 3 }));
        assert_eq!(decode(&text.replace("77", "78")), None);
    }

    #[test]
    fn rows_of_earlier_versions_are_read() {
        let id = StreamId([1; 16]);
        let body = format!("stream {id} 9 5\nstream {id} 8 5 1 70\n");
        let known = Known { id, numbers: Ranges::up_to(9), told: 9, seen: 5, ..Known::default() };
        let later = Known { numbers: Ranges::up_to(8), told: 8, home: Some((1, 70)), ..known.clone() };
        let decoded = decode(&sealed::seal("streams", &body)).unwrap();
        assert_eq!(decoded.streams, [known, later]);
    }
}
