//! The order in which lanes are read after their number has changed.
//!
//! A lane that is no longer written may have batches of a stream whose later batches go to another lane. So the start of a run
//! writes a *barrier*: the end of every lane at that moment. Batches before the barrier, in any lane, are read before batches
//! behind the barrier in any other lane. Within a run, batches that must stay in order are in one lane.
//!
//! ```text
//! bbq barriers 1 <crc>                       see crate::sealed
//! barrier <lane>:<position> ...              one line per barrier, oldest first
//! ```

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use bbq_storage::is_unreadable;
use tracing::error;

use crate::cursor::LanePlace;
use crate::{LaneReader, SpoolError, Storage, sealed};

/// The most barriers that are kept: one for each change of the number of workers while a sink stands still. A further barrier
/// replaces the oldest, and a sink that has not passed the oldest barrier loses the order.
const BARRIERS_MAX: usize = 64;

type Barrier = Vec<LanePlace>;

/// The barriers that a reader of all lanes has not passed.
#[derive(Clone, Debug, Default)]
pub struct ReadOrder {
    barriers: VecDeque<Barrier>,
}

impl ReadOrder {
    /// Reads the barriers of earlier starts, and adds one if there are lanes that this run does not write. `ends` are the ends of
    /// all lanes, of which the first `written` are written in this run. Durable on return.
    pub(crate) fn begin_run(
        storage: &dyn Storage,
        directory: &Path,
        ends: &[LanePlace],
        written: u32,
    ) -> Result<ReadOrder, SpoolError> {
        let path = directory.join("barriers");
        let mut order = ReadOrder { barriers: load(storage, &path)? };
        let is_known = |end: &LanePlace| {
            end.position == 0
                || order.barriers.iter().any(|barrier| position_in(barrier, end.lane) == end.position)
        };
        if ends.iter().filter(|end| end.lane >= written).all(is_known) {
            return Ok(order);
        }
        order.barriers.push_back(ends.to_vec());
        while order.barriers.len() > BARRIERS_MAX {
            order.barriers.pop_front();
        }
        storage.replace(&path, encode(&order.barriers).as_bytes()).map_err(SpoolError::io("write", path))?;
        Ok(order)
    }

    /// Whether the reader at `index` may continue: the other readers have read everything that comes before.
    pub fn is_due(&mut self, readers: &[LaneReader], index: usize) -> bool {
        while let Some(barrier) = self.barriers.front() {
            let is_behind = |reader: &LaneReader| {
                let place = reader.place();
                // A reader whose files were removed by hand never gets to the barrier.
                place.position < position_in(barrier, place.lane) && !reader.is_caught_up()
            };
            if readers.iter().any(is_behind) {
                return is_behind(&readers[index]);
            }
            self.barriers.pop_front();
        }
        true
    }
}

fn position_in(barrier: &Barrier, lane: u32) -> u64 {
    barrier.iter().find(|place| place.lane == lane).map_or(0, |place| place.position)
}

/// A damaged or unreadable file is renamed and counts as missing: order may be lost, but no message.
fn load(storage: &dyn Storage, path: &PathBuf) -> Result<VecDeque<Barrier>, SpoolError> {
    let why = match storage.read(path) {
        Ok(bytes) => match std::str::from_utf8(&bytes).ok().and_then(decode) {
            Some(barriers) => return Ok(barriers),
            None => "its checksum does not match".to_owned(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(VecDeque::new()),
        Err(error) if is_unreadable(&error) => error.to_string(),
        Err(error) => return Err(SpoolError::io("read", path)(error)),
    };
    let beside = path.with_extension("damaged");
    error!(path = %path.display(), moved_to = %beside.display(), why,
        "the barriers are damaged: messages of former runs may come out in another order");
    storage.rename_durably(path, &beside).map_err(SpoolError::io("rename", path))?;
    Ok(VecDeque::new())
}

fn encode(barriers: &VecDeque<Barrier>) -> String {
    let mut body = String::new();
    for barrier in barriers {
        body.push_str("barrier");
        for place in barrier {
            // Writing to a String cannot fail.
            let _infallible = write!(body, " {}:{}", place.lane, place.position);
        }
        body.push('\n');
    }
    sealed::seal("barriers", &body)
}

fn decode(text: &str) -> Option<VecDeque<Barrier>> {
    let body = sealed::open("barriers", text)?;
    let place = |word: &str| {
        let (lane, position) = word.split_once(':')?;
        Some(LanePlace { lane: lane.parse().ok()?, position: position.parse().ok()?, record: 0 })
    };
    body.lines().map(|line| line.strip_prefix("barrier")?.split_whitespace().map(place).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_damage_is_noticed() {
        let place = |lane, position| LanePlace { lane, position, record: 0 };
        let barriers = VecDeque::from([vec![place(0, 4096), place(3, 1 << 40)], vec![place(1, 7)]]);
        let text = encode(&barriers);
        assert_eq!(decode(&text), Some(barriers));
        assert_eq!(decode(&text.replace("4096", "4097")), None);
    }
}
