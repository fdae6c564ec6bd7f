//! `null:` counts messages and forgets them: for measurements, and as the shortest example of a sink.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bbq_spool::{Group, GroupCursor, Scratch};
use bbq_storage::Storage;

use super::interface::{Now, OpenError, Problem, Room, Settled, Sink};
use super::kind::{Kind, Target};

/// `null:`
pub static NULL: Kind = Kind {
    word: "null",
    argument: "",
    summary: "counts messages and discards them",
    options: &[],
    is_exclusive: false,
    parse: |_, _| Ok(Arc::new(NullTarget)),
};

#[derive(Debug)]
struct NullTarget;

impl Target for NullTarget {
    fn open(&self, _: &Arc<dyn Storage>, _: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        Ok(Box::new(NullSink::default()))
    }
}

#[derive(Default)]
struct NullSink {
    settled: Vec<Settled>,
    scratch: Scratch,
}

impl Sink for NullSink {
    fn submit(&mut self, group: Group, _begun: u64, _now: Now) -> Result<Room, Problem> {
        let mut cursor = GroupCursor::default();
        let mut received_ns = 0;
        let Ok(()) = group.try_for_each(&mut cursor, &mut self.scratch, |entry| {
            received_ns = entry.envelope.received_ns;
            Ok::<(), Infallible>(())
        });
        let (until, delivered) = (group.until(), cursor.records());
        self.settled.push(Settled {
            until,
            delivered,
            rejected: Vec::new(),
            letters: Vec::new(),
            received_ns,
        });
        Ok(Room::Free)
    }

    fn settle(&mut self, _now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        settled.append(&mut self.settled);
        Ok(Room::Free)
    }

    fn idle(&mut self) {
        self.scratch.trim();
    }

    fn roll_back(&mut self) -> io::Result<()> {
        self.settled.clear();
        Ok(())
    }
}
