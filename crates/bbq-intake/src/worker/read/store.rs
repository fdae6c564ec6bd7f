//! The server as a reader sees it: positions from the table of streams, batches to the workers.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bbq_read::{FileBatch, Outcome, Settled, Store};
use bbq_stored::{Stream, Streams};
use bbq_wire::StreamId;

use super::handed::{HANDED_MAX, HandedRead};
use super::link::{ReaderLink, Told};
use crate::worker::handover::WorkerMesh;

/// Bytes of the batches of a reader that workers have and no lane has, so that many readers of a full lane take little memory. A single batch may be larger.
const HANDED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What a server lends to one of its readers.
pub struct ReaderStore {
    /// The index of the reader in the configuration.
    reader: usize,
    mesh: WorkerMesh,
    table: Arc<Streams>,
    link: Arc<ReaderLink>,
    /// Those of the files that the reader has asked for.
    streams: HashMap<StreamId, Known>,
    handed: usize,
    handed_bytes: usize,
}

struct Known {
    stream: Arc<Stream>,
    /// Where its last batch was appended, or where its first one goes.
    lane: u32,
}

impl ReaderStore {
    /// For the reader with this index. `link` tells it what became of its batches.
    #[must_use]
    pub fn new(reader: usize, mesh: WorkerMesh, table: Arc<Streams>, link: Arc<ReaderLink>) -> ReaderStore {
        ReaderStore { reader, mesh, table, link, streams: HashMap::new(), handed: 0, handed_bytes: 0 }
    }

    fn known(&mut self, id: StreamId) -> &mut Known {
        let ReaderStore { mesh, table, streams, .. } = self;
        streams.entry(id).or_insert_with(|| {
            let stream = table.of_reader(id);
            let lane = first_lane(id, mesh, stream.position() == 0);
            Known { stream, lane }
        })
    }

    /// Notes what an outcome says beside itself.
    fn note(&mut self, told: Told) {
        let Told { settled: Settled { stream, outcome, .. }, lane, bytes } = told;
        if bytes > 0 {
            self.handed = self.handed.saturating_sub(1);
            self.handed_bytes = self.handed_bytes.saturating_sub(bytes);
        }
        if outcome == Outcome::Appended
            && let Some(known) = self.streams.get_mut(&stream)
        {
            known.lane = lane;
        }
    }
}

/// The lane of a stream by its id, which is random. A new stream needs no lane that failed: nothing of it is there.
fn first_lane(id: StreamId, mesh: &WorkerMesh, is_new: bool) -> u32 {
    let lanes = mesh.lanes();
    let first = (u128::from_be_bytes(id.0) % lanes.len().max(1) as u128) as usize;
    let mut others = (0..lanes.len()).map(|step| (first + step) % lanes.len());
    let working = others.find(|lane| !is_new || lanes[*lane].failure().is_none());
    working.unwrap_or(first) as u32
}

impl Store for ReaderStore {
    fn position(&mut self, stream: StreamId) -> u64 {
        self.known(stream).stream.position()
    }

    fn hand_over(&mut self, batch: FileBatch) -> Result<(), FileBatch> {
        let bytes = batch.bytes.capacity();
        let is_full = self.handed >= HANDED_MAX
            || (self.handed > 0 && self.handed_bytes.saturating_add(bytes) > HANDED_BYTES_MAX);
        if is_full || self.link.is_stopping() {
            return Err(batch);
        }
        let (reader, link) = (self.reader, Arc::clone(&self.link));
        let known = self.known(batch.stream);
        let lane = known.lane;
        let handed = HandedRead { stream: Arc::clone(&known.stream), batch, reader, link, moves: 0 };
        self.mesh.hand_read(lane, handed).map_err(|handed| handed.batch)?;
        self.handed += 1;
        self.handed_bytes = self.handed_bytes.saturating_add(bytes);
        Ok(())
    }

    fn settled(&mut self) -> Option<Settled> {
        let told = self.link.pop()?;
        self.note(told);
        Some(told.settled)
    }

    fn forget(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
        self.table.forget_read(stream);
    }

    fn save(&self, save: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        self.link.save(save)
    }

    fn ready(&self) -> BorrowedFd<'_> {
        self.link.event()
    }

    fn is_stopping(&self) -> bool {
        self.link.is_stopping()
    }
}
