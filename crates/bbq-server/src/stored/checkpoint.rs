//! The checkpoint of streams as text: the state of each stream, and the part of the segments that is covered.
//!
//! ```text
//! bbq streams 1 <crc>                         see bbq_spool::sealed
//! lane <index> <position>                     the segments before it are covered
//! stream <id> <last sequence> <unix seconds of its last batch> <home lane> <position behind its last batch>
//! identity <id> <name of the token with which the stream was begun>         if there is one, behind its stream
//! ```
//!
//! Not here: when a checkpoint is written, and which streams it forgets (`streams`).

use std::fmt::Write as _;
use std::sync::Arc;

use bbq_spool::{LanePlace, sealed};
use bbq_wire::StreamId;

/// A stream's row in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: StreamId,
    /// Its last durable sequence.
    pub(crate) last: u64,
    /// Unix seconds of its last batch.
    pub(crate) seen: u64,
    /// The lane of its last batch, and a position that is not before it.
    pub(crate) home: Option<(u32, u64)>,
    /// The name of the token with which it was begun.
    pub(crate) identity: Option<Arc<str>>,
}

pub(crate) fn encode(ends: &[LanePlace], rows: &[Known]) -> String {
    let mut body = String::new();
    // Writing to a String cannot fail.
    for end in ends {
        let _infallible = writeln!(body, "lane {} {}", end.lane, end.position);
    }
    for Known { id, last, seen, home, identity } in rows.iter().filter(|row| row.last > 0) {
        let _infallible = write!(body, "stream {id} {last} {seen}");
        if let Some((lane, position)) = home {
            let _infallible = write!(body, " {lane} {position}");
        }
        body.push('\n');
        if let Some(identity) = identity {
            let _infallible = writeln!(body, "identity {id} {identity}");
        }
    }
    sealed::seal("streams", &body)
}

pub(crate) type Checkpoint = (Vec<Known>, Vec<LanePlace>);

pub(crate) fn decode(text: &str) -> Option<Checkpoint> {
    let body = sealed::open("streams", text)?;
    let (mut streams, mut places) = Checkpoint::default();
    for line in body.lines() {
        let mut words = line.split(' ');
        match words.next()? {
            "lane" => places.push(LanePlace {
                lane: words.next()?.parse().ok()?,
                position: words.next()?.parse().ok()?,
                record: 0,
            }),
            "stream" => {
                let id = id(words.next()?)?;
                let last = words.next()?.parse().ok()?;
                let seen = words.next()?.parse().ok()?;
                // Earlier versions wrote no home.
                let home = match words.next() {
                    Some(lane) => Some((lane.parse().ok()?, words.next()?.parse().ok()?)),
                    None => None,
                };
                streams.push(Known { id, last, seen, home, identity: None });
            }
            "identity" => {
                let id = id(words.next()?)?;
                let known: &mut Known = streams.last_mut().filter(|known| known.id == id)?;
                known.identity = Some(words.next()?.into());
            }
            _ => {}
        }
    }
    Some((streams, places))
}

fn id(word: &str) -> Option<StreamId> {
    Some(StreamId(u128::from_str_radix(word, 16).ok()?.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkpoint_comes_back_and_damage_is_noticed() {
        let ends = [LanePlace { lane: 1, position: 77, record: 0 }];
        let id = StreamId([0x0f, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff]);
        let known = Known { id, last: 9, seen: 5, home: Some((1, 70)), identity: None };
        let older = Known { home: None, identity: Some("till-4".into()), ..known.clone() };
        let unknown = Known { id: StreamId([0; 16]), last: 0, seen: 6, home: None, identity: None };
        let text = encode(&ends, &[known.clone(), older.clone(), unknown]);
        assert_eq!(decode(&text), Some((vec![known, older], ends.to_vec())));
        assert_eq!(decode(&text.replace("77", "78")), None);
    }
}
