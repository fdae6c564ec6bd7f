//! The queue: accepted records that are not acknowledged yet, in the order of their numbers, and the progress of each destination.
//!
//! ```text
//! entries   | batch | batch | batch | records | records |  <- blocks of the application's threads
//!            ^       ^               ^
//!            front   acknowledged    sent              marks of one destination; `sent` moves back when a connection breaks
//! ```
//!
//! An entry is removed when every destination has acknowledged it. A block gets its numbers when it is queued, and becomes a batch when
//! the first destination sends it.
//!
//! Invariant: the memory of entries, blocks and spare buffers together stays under the bound.
//! Invariant: the records and numbers of a batch never change, so that the server recognises a batch that is sent again.
//! Invariant: a batch says which numbers directly before it were given up, if none of them was ever sent.

pub(crate) mod block;
mod compressor;
pub(crate) mod destination_state;
pub(crate) mod parker;
mod progress;
mod repair;
mod state;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bbq_wire::BatchBuilder;
use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};

use crate::OnFull;
use crate::environment::Environment;
use crate::numbering::Numbering;
use crate::options::Options;
use crate::queue::block::{Block, Body, Packing, body_bytes, buffer_bytes, with_given_up};
use crate::queue::compressor::Compressor;
use crate::queue::destination_state::DestinationState;
use crate::queue::parker::Parker;
use crate::spool::{Extent, RecoveredDestination};

pub(crate) use repair::Repair;
use state::{Entry, State};

/// The queue has room for at least this many blocks, so that one can be filled while another is sent.
const BLOCKS_MIN: usize = 8;
/// Buffers that are allocated before they are needed, so that `send` does not wait for the system's memory.
const SPARE_BUFFERS: usize = 2;

pub(crate) struct Queue {
    state: Mutex<State>,
    /// Signals room, a server's limit, or the end.
    room: Condvar,
    /// Signals an acknowledgement, a finished batch, or the end.
    progressed: Condvar,
    bytes_max: usize,
    /// Memory of a block, unless it holds a larger record.
    block_bytes: usize,
    /// Bytes that may be sent and not acknowledged. The rest of the queue can be dropped for newer records.
    window_bytes_max: usize,
    pub(crate) compressor: Compressor,
    /// Whether there was no room for a block, and nothing was removed since. Changes only with the lock held.
    is_full: AtomicBool,
    /// The largest message that all servers take, of those whose limits are known.
    message_bytes_max: AtomicU32,
    pub(crate) parkers: Box<[Parker]>,
    environment: Arc<dyn Environment>,
}

/// What a destination should do next.
pub(crate) enum Next {
    /// Send this batch, whose last record has this number.
    Send(Arc<Vec<u8>>, u64),
    /// Wait for records.
    Idle,
    /// Wait for acknowledgements.
    Window,
    /// Connect again: the connection broke.
    Reconnect,
    /// Connect again: the next record belongs to another stream.
    OtherStream,
    /// Tell that records were given up, and ask again.
    GaveUp(GaveUp),
    /// Stop: everything is delivered, or nothing ever will be.
    End,
}

/// Records that were given up before they were sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GaveUp {
    pub(crate) records: u64,
    pub(crate) reason: GiveUpReason,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum GiveUpReason {
    /// They are larger than the server's limit.
    TooLarge,
    /// The spool cannot be read.
    Unreadable,
}

struct PackedBatch {
    bytes: Vec<u8>,
    /// A buffer that was not needed, to be reused.
    spare: Vec<u8>,
    /// Bytes of the largest record.
    largest: usize,
}

impl Queue {
    /// Makes a queue whose first record gets the number `next_sequence`. A destination is given by its saved progress, and the ids of its
    /// servers.
    pub(crate) fn new(
        options: &Options,
        environment: Arc<dyn Environment>,
        next_sequence: u64,
        destinations: impl Iterator<Item = (RecoveredDestination, Vec<u32>)>,
    ) -> Queue {
        let destinations: Vec<DestinationState> =
            destinations.map(|(before, servers)| DestinationState::new(before, &servers)).collect();
        let parkers = destinations.iter().map(|_| Parker::default()).collect();
        let block_bytes = buffer_bytes(options.batch_bytes).min(options.queue_bytes_max / BLOCKS_MIN);
        let queue = Queue {
            state: Mutex::new(State { next_sequence, destinations, ..State::default() }),
            room: Condvar::new(),
            progressed: Condvar::new(),
            bytes_max: options.queue_bytes_max,
            block_bytes,
            window_bytes_max: options.queue_bytes_max / 2,
            compressor: Compressor::new(options.compress),
            is_full: AtomicBool::new(false),
            message_bytes_max: AtomicU32::new(MESSAGE_BYTES_DEFAULT),
            parkers,
            environment,
        };
        queue.prepare_buffers();
        queue
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    #[inline]
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max.load(Ordering::Relaxed) as usize
    }

    /// An empty block with room for a record of `record_bytes`. `None` if the queue is full.
    pub(crate) fn reserve(&self, record_bytes: usize, on_full: OnFull) -> Option<Block> {
        let mut charge = self.block_bytes.max(buffer_bytes(record_bytes));
        let mut state = self.locked();
        if !state.has_room(charge, self.bytes_max) {
            self.unload_to_spool(&mut state);
        }
        if on_full == OnFull::DropOldest {
            while !state.has_room(charge, self.bytes_max) && state.drop_oldest() {}
        }
        if !state.has_room(charge, self.bytes_max) {
            // If a large record has no room, a small one still may.
            self.is_full.store(charge == self.block_bytes, Ordering::Relaxed);
            return None;
        }
        let buffer = if charge == self.block_bytes { state.spare.pop() } else { None };
        charge = buffer.as_ref().map_or(charge, Vec::capacity);
        state.charged += charge;
        while state.spare_bytes() + state.charged > self.bytes_max && state.spare.pop().is_some() {}
        drop(state);
        let buffer = buffer.unwrap_or_else(|| Vec::with_capacity(charge));
        Some(Block { builder: BatchBuilder::with_buffer(buffer), charge, largest: 0, extent: None })
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Signals that memory was freed. The caller holds the lock.
    fn made_room(&self) {
        self.is_full.store(false, Ordering::Relaxed);
        self.room.notify_all();
    }

    /// Numbers the records of a block and queues them.
    pub(crate) fn append(&self, mut block: Block) {
        let mut state = self.locked();
        let (first, records) = (state.next_sequence, block.builder.records());
        if records == 0 {
            state.charged -= block.charge;
            return self.made_room();
        }
        state.next_sequence += u64::from(records);
        let extent = block.extent.take().map(|extent| extent.with_records(records));
        let (charge, largest) = (block.charge, block.largest);
        let mut entry = Entry { first, records, charge, largest, body: Body::Records(block), extent };
        // Beyond half of the memory, records stay only in the spool: the rest is for records that are sent soon.
        if entry.extent.is_some() && state.charged > self.bytes_max / 2 {
            self.unload(&mut state, &mut entry);
        }
        state.entries.push_back(entry);
        drop(state);
        self.parkers.iter().for_each(Parker::unpark_for_work);
    }

    /// Removes an entry's records from memory; the spool has them.
    fn unload(&self, state: &mut State, entry: &mut Entry) {
        state.charged -= std::mem::take(&mut entry.charge);
        self.recycle_body(state, std::mem::replace(&mut entry.body, Body::Stored));
        self.made_room();
    }

    /// Unloads every entry that the spool has and that is not in flight.
    fn unload_to_spool(&self, state: &mut State) {
        let mut entries = std::mem::take(&mut state.entries);
        for entry in &mut entries {
            if entry.extent.is_some() && entry.charge > 0 && !state.is_in_flight(entry) {
                self.unload(state, entry);
            }
        }
        state.entries = entries;
    }

    /// Queues the records that an earlier sender has left in the spool. Returns their number, including the `damaged` ones.
    pub(crate) fn recover(&self, extents: Vec<Extent>, damaged: u64) -> u64 {
        let mut state = self.locked();
        let acknowledged_by_all = state.acknowledged_by_all();
        state.abandoned = damaged;
        let mut count = damaged;
        for extent in extents {
            if extent.last() > acknowledged_by_all {
                let first = extent.first.max(acknowledged_by_all + 1);
                let records = (extent.last() + 1 - first) as u32;
                count += u64::from(records);
                let (extent, body) = (Some(extent), Body::Stored);
                let entry = Entry { first, records, charge: 0, largest: usize::MAX, body, extent };
                state.entries.push_back(entry);
            }
        }
        count
    }

    /// Number of the last record that was queued.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.locked().next_sequence - 1
    }

    /// Returns the destination's next step.
    pub(crate) fn next(&self, destination: usize) -> Next {
        let mut state = self.locked();
        loop {
            if state.failed.is_some() || state.destinations[destination].ended {
                return Next::End;
            }
            let current = &state.destinations[destination];
            if current.broken {
                return Next::Reconnect;
            }
            let (sent, limit) =
                (current.sent, current.message_bytes_max.unwrap_or(MESSAGE_BYTES_MAX) as usize);
            let (numbering, body_bytes_max) = (current.numbering(), current.body_bytes_max);
            let is_in_flight = current.is_in_flight();
            let at = state.entries.partition_point(|entry| entry.last() <= sent);
            let Some(entry) = state.entries.get_mut(at) else {
                return if state.closed && state.is_done(destination) { Next::End } else { Next::Idle };
            };
            let (first, last, records, largest) = (entry.first, entry.last(), entry.records, entry.largest);
            if first > numbering.until {
                return if is_in_flight { Next::Window } else { Next::OtherStream };
            }
            match &entry.body {
                Body::Batch(bytes) if largest > limit => {
                    let is_too_large = |_, record: &[u8]| record.len() > limit;
                    let parts = self.packing(numbering).parts(bytes, first, is_too_large);
                    let records = state.replace(at, parts, limit);
                    if records > 0 {
                        return Next::GaveUp(GaveUp { records, reason: GiveUpReason::TooLarge });
                    }
                }
                Body::Batch(bytes) if records > 1 && body_bytes(bytes) > body_bytes_max => {
                    let parts = self.packing(numbering).halves(bytes, first, records);
                    state.replace(at, parts, largest);
                }
                Body::Batch(bytes) => {
                    let mut bytes = Arc::clone(bytes);
                    if state.destinations[destination].is_over_window(bytes.len(), self.window_bytes_max) {
                        return Next::Window;
                    }
                    if let Some(changed) = self.packing(numbering).adapted(&bytes, first, sent) {
                        bytes = Arc::new(changed);
                    }
                    let given_up = state.given_up_before(first);
                    if given_up > 0 && sent < first {
                        bytes = Arc::new(with_given_up(&bytes, given_up));
                    }
                    state.sent += state.destinations[destination].send(last, records, bytes.len());
                    return Next::Send(bytes, last);
                }
                Body::Busy => state = self.progressed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Body::Records(_) | Body::Stored => {
                    let extent = entry.extent.clone();
                    let body = std::mem::replace(&mut entry.body, Body::Busy);
                    drop(state);
                    let batch = self.pack(body, extent, first, numbering);
                    state = self.locked();
                    let records = self.packed(&mut state, first, batch);
                    if records > 0 {
                        return Next::GaveUp(GaveUp { records, reason: GiveUpReason::Unreadable });
                    }
                }
            }
        }
    }

    fn packing(&self, numbering: Numbering) -> Packing<'_> {
        let compression = self.compressor.choose();
        Packing { numbering, compression, environment: &*self.environment }
    }

    /// Makes a batch, with no lock held. `None` if the spool cannot be read.
    fn pack(
        &self,
        body: Body,
        extent: Option<Extent>,
        first: u64,
        numbering: Numbering,
    ) -> Option<PackedBatch> {
        let (builder, largest) = match (body, extent) {
            (Body::Records(block), _) => (block.builder, block.largest),
            (Body::Stored, Some(extent)) => {
                let mut builder = BatchBuilder::with_buffer(Vec::with_capacity(self.block_bytes));
                let mut largest = 0;
                let read = extent.read(first, |record| {
                    largest = largest.max(record.len());
                    builder.push(record);
                });
                read.ok()?;
                (builder, largest)
            }
            _ => return None,
        };
        let packing = self.packing(numbering);
        let raw_bytes = builder.body_bytes();
        let (mut bytes, mut spare) = packing.pack(builder, first);
        if packing.compression != bbq_wire::Compression::None {
            self.compressor.outcome(raw_bytes, bytes.len());
        }
        // A large buffer with a small batch would waste the queue's memory.
        if bytes.len() < bytes.capacity() / 2 {
            (bytes, spare) = (bytes.as_slice().to_vec(), bytes);
        }
        Some(PackedBatch { bytes, spare, largest })
    }

    /// Puts a batch into its entry, or gives the entry up if there is no batch. Returns how many records are given up. A busy entry stays
    /// in the queue, unless the queue was cleared.
    fn packed(&self, state: &mut State, first: u64, batch: Option<PackedBatch>) -> u64 {
        let mut given_up = 0;
        let at = state.entries.partition_point(|entry| entry.first < first);
        let entry = state.entries.get_mut(at).filter(|entry| entry.first == first);
        match (batch, entry) {
            (Some(PackedBatch { bytes, spare, largest }), entry) => {
                if let Some(entry) = entry {
                    let before = std::mem::replace(&mut entry.charge, bytes.capacity());
                    state.charged = state.charged - before + entry.charge;
                    entry.body = Body::Batch(Arc::new(bytes));
                    entry.largest = largest;
                }
                self.recycle(state, spare);
            }
            (None, Some(_)) => given_up = state.replace(at, Vec::new(), 0),
            (None, None) => {}
        }
        self.progressed.notify_all();
        self.made_room();
        given_up
    }

    fn recycle_body(&self, state: &mut State, body: Body) {
        match body {
            Body::Records(block) => self.recycle(state, block.builder.into_buffer()),
            Body::Batch(bytes) => {
                if let Ok(buffer) = Arc::try_unwrap(bytes) {
                    self.recycle(state, buffer);
                }
            }
            Body::Busy | Body::Stored => {}
        }
    }

    /// Keeps a buffer for the next block, if it has the right size and there is room.
    fn recycle(&self, state: &mut State, buffer: Vec<u8>) {
        let fits = (self.block_bytes..=self.block_bytes / 8 * 9).contains(&buffer.capacity());
        if fits && state.spare_bytes() + state.charged + buffer.capacity() <= self.bytes_max {
            state.spare.push(buffer);
        }
    }

    /// Notes that the destination has every record up to `sequence`. Returns the number up to which all destinations have every record.
    pub(crate) fn acknowledged(&self, destination: usize, sequence: u64) -> u64 {
        let mut state = self.locked();
        state.acknowledge(destination, sequence);
        let acknowledged_by_all = state.acknowledged_by_all();
        self.forget(&mut state, acknowledged_by_all);
        let is_over = state.closed && state.is_done(destination);
        drop(state);
        self.progressed.notify_all();
        // A thread that lingers or waits for records is not woken, or each acknowledgement would cut a batch short.
        if is_over {
            self.parkers[destination].unpark()
        } else {
            self.parkers[destination].unpark_for_change()
        }
        acknowledged_by_all
    }

    /// Removes the entries that every destination has acknowledged.
    fn forget(&self, state: &mut State, acknowledged_by_all: u64) {
        let before = state.charged;
        while state
            .entries
            .front()
            .is_some_and(|front| front.last() <= acknowledged_by_all && !matches!(front.body, Body::Busy))
        {
            let Some(front) = state.entries.pop_front() else { break };
            state.acknowledged += u64::from(front.records);
            state.charged -= front.charge;
            self.recycle_body(state, front.body);
        }
        state.forget_given_up(acknowledged_by_all);
        if state.charged < before {
            self.made_room();
        }
    }

    /// Allocates buffers for the next blocks, while the thread is idle.
    pub(crate) fn prepare_buffers(&self) {
        for _ in 0..SPARE_BUFFERS {
            let state = self.locked();
            let enough = state.spare.len() >= SPARE_BUFFERS
                || state.charged + state.spare_bytes() + self.block_bytes > self.bytes_max / 2;
            drop(state);
            if enough {
                return;
            }
            // Fills the buffer, so that the system allocates its pages now.
            let buffer = vec![1; self.block_bytes];
            self.recycle(&mut self.locked(), buffer);
        }
    }
}

#[cfg(test)]
mod tests;
