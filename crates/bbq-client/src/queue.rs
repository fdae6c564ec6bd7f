//! What is taken and not acknowledged, in the order of its numbers, and how far each destination is with it.
//!
//! ```text
//! entries   | batch | batch | batch | records | records |  <- blocks of the application's threads
//!            ^       ^               ^
//!            front   acknowledged    sent              one pair of marks per destination; sent goes back with a connection
//! ```
//!
//! An entry goes when every destination's server has acknowledged it. Records are numbered when their block comes in, and made into a
//! batch when the first destination comes to them.
//!
//! Invariant: the memory of entries, blocks and spare buffers together stays under the bound.
//! Invariant: a batch's bytes never change, so that the server can tell one that is sent again.

pub(crate) mod block;
mod compressor;
pub(crate) mod destination_state;
pub(crate) mod parker;
mod progress;
mod repair;
mod state;
mod waiting;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bbq_wire::BatchBuilder;
use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};

use crate::OnFull;
use crate::environment::Environment;
use crate::numbering::Numbering;
use crate::options::Options;
use crate::queue::block::{Block, Body, Packing, body_bytes, buffer_bytes};
use crate::queue::compressor::Compressor;
use crate::queue::destination_state::DestinationState;
use crate::queue::parker::Parker;
use crate::spool::{Extent, RecoveredDestination};

pub(crate) use repair::Repair;
use state::{Entry, State};

/// The queue is at least so many blocks, so that one can be filled while another is sent.
const BLOCKS_MIN: usize = 8;
/// Buffers that are made before they are needed: an application's thread then never waits for the system's memory.
const WARM: usize = 2;

/// Shared by the application's threads and the destinations'.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// There is room, or never will be.
    room: Condvar,
    /// An acknowledgement, a finished batch, or the end.
    moved: Condvar,
    bytes_max: usize,
    /// Memory of one block.
    block_bytes: usize,
    /// What may be sent and not acknowledged: the rest can be dropped for newer records.
    window_bytes_max: usize,
    pub(crate) compressor: Compressor,
    /// There was no room for a block, and nothing has gone since: so that a record need not ask again. Changes with the lock held.
    is_full: AtomicBool,
    /// The largest message that every server takes, as far as known.
    message_bytes_max: AtomicU32,
    pub(crate) parkers: Box<[Parker]>,
    environment: Arc<dyn Environment>,
}

/// What a destination should do next.
pub(crate) enum Next {
    /// Send this, up to the record.
    Send(Arc<Vec<u8>>, u64),
    /// Nothing is ready.
    Idle,
    /// Wait for acknowledgements.
    Window,
    /// The connection is of no use any more.
    Reconnect,
    /// What follows is another stream's, and so another connection's.
    OtherStream,
    /// Everything is done, or nothing ever will be.
    End,
}

/// A batch that was made of records.
struct Made {
    batch: Vec<u8>,
    /// A buffer that is left over.
    left: Vec<u8>,
    /// Bytes of the largest record.
    largest: usize,
}

/// There is no room for a block.
pub(crate) struct NoRoom;

impl Queue {
    /// A queue whose first record gets the number `next_sequence`. Of each destination, where it goes on and its servers.
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
        let state = State {
            entries: VecDeque::new(),
            next_sequence,
            charged: 0,
            spare: Vec::new(),
            destinations,
            acknowledged: 0,
            sent: 0,
            dropped_oldest: 0,
            abandoned: 0,
            abandoned_from: None,
            closed: false,
            failed: None,
        };
        let queue = Queue {
            state: Mutex::new(state),
            room: Condvar::new(),
            moved: Condvar::new(),
            bytes_max: options.queue_bytes_max,
            block_bytes,
            window_bytes_max: options.queue_bytes_max / 2,
            compressor: Compressor::new(options.compress),
            is_full: AtomicBool::new(false),
            message_bytes_max: AtomicU32::new(MESSAGE_BYTES_DEFAULT),
            parkers,
            environment,
        };
        queue.warm();
        queue
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The largest message that is taken without asking.
    #[inline]
    pub(crate) fn message_bytes_max(&self) -> usize {
        self.message_bytes_max.load(Ordering::Relaxed) as usize
    }

    /// Memory for records of which one has `record_bytes`.
    pub(crate) fn reserve(&self, record_bytes: usize, on_full: OnFull) -> Result<Block, NoRoom> {
        let mut charge = self.block_bytes.max(buffer_bytes(record_bytes));
        let mut state = self.locked();
        if !state.has_room(charge, self.bytes_max) {
            self.leave_to_the_spool(&mut state);
        }
        if !state.has_room(charge, self.bytes_max) && on_full == OnFull::DropOldest {
            while !state.has_room(charge, self.bytes_max) && state.drop_oldest() {}
        }
        if !state.has_room(charge, self.bytes_max) {
            // A large record may find none where a small one does.
            self.is_full.store(charge == self.block_bytes, Ordering::Relaxed);
            return Err(NoRoom);
        }
        let buffer = if charge == self.block_bytes { state.spare.pop() } else { None };
        charge = buffer.as_ref().map_or(charge, Vec::capacity);
        state.charged += charge;
        while state.spare_bytes() + state.charged > self.bytes_max && state.spare.pop().is_some() {}
        drop(state);
        let buffer = buffer.unwrap_or_else(|| Vec::with_capacity(charge));
        Ok(Block { builder: BatchBuilder::with_buffer(buffer), charge, largest: 0, extent: None })
    }

    /// Whether there is no room for another block.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Memory may have been given back. With the lock held.
    fn made_room(&self) {
        self.is_full.store(false, Ordering::Relaxed);
        self.room.notify_all();
    }

    /// Gives back a block that was not used.
    pub(crate) fn release(&self, block: Block) {
        let mut state = self.locked();
        state.charged -= block.charge;
        self.made_room();
        drop(state);
        drop(block);
    }

    /// Numbers the records of a block and puts them in line.
    pub(crate) fn append(&self, mut block: Block) {
        let mut state = self.locked();
        let (first, records) = (state.next_sequence, block.builder.records());
        if records == 0 {
            drop(state);
            return self.release(block);
        }
        state.next_sequence += u64::from(records);
        let extent = block.extent.take().map(|extent| extent.of(records));
        let (charge, largest) = (block.charge, block.largest);
        let mut entry = Entry { first, records, charge, largest, body: Body::Records(block), extent };
        // Memory is kept for what is sent soon.
        if entry.extent.is_some() && state.charged > self.bytes_max / 2 {
            state.charged -= entry.charge;
            self.leave_entry(&mut state, &mut entry);
        }
        state.entries.push_back(entry);
        drop(state);
        self.parkers.iter().for_each(Parker::unpark_for_work);
    }

    /// Forgets an entry's records, which the spool has. Its charge was given back.
    fn leave_entry(&self, state: &mut State, entry: &mut Entry) {
        entry.charge = 0;
        match std::mem::replace(&mut entry.body, Body::Stored) {
            Body::Records(block) => self.recycle(state, block.builder.into_buffer()),
            Body::Batch(bytes) => {
                if let Ok(buffer) = Arc::try_unwrap(bytes) {
                    self.recycle(state, buffer);
                }
            }
            Body::Busy | Body::Stored => {}
        }
        self.made_room();
    }

    /// Keeps in memory only what is on its way, of all that the spool has as well.
    fn leave_to_the_spool(&self, state: &mut State) {
        let mut entries = std::mem::take(&mut state.entries);
        for entry in &mut entries {
            if entry.extent.is_some() && entry.charge > 0 && !state.is_on_its_way(entry) {
                state.charged -= entry.charge;
                self.leave_entry(state, entry);
            }
        }
        state.entries = entries;
    }

    /// Puts in line what an earlier sender has left, `damaged` records of it unreadable; returns how many records that are.
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
                let extent = Some(extent);
                let largest = usize::MAX;
                state.entries.push_back(Entry {
                    first,
                    records,
                    charge: 0,
                    largest,
                    body: Body::Stored,
                    extent,
                });
            }
        }
        count
    }

    /// Number of the record that comes in next.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.locked().next_sequence
    }

    /// What the destination should do next.
    pub(crate) fn next(&self, destination: usize) -> Next {
        let mut state = self.locked();
        loop {
            if state.failed.is_some() || state.destinations[destination].ended {
                return Next::End;
            }
            let mine = &state.destinations[destination];
            if mine.broken {
                return Next::Reconnect;
            }
            let (sent, limit) = (mine.sent, mine.message_bytes_max.unwrap_or(MESSAGE_BYTES_MAX) as usize);
            let (numbering, body_bytes_max, awaits) = (mine.numbering(), mine.body_bytes_max, mine.awaits());
            let at = state.entries.partition_point(|entry| entry.last() <= sent);
            let Some(entry) = state.entries.get_mut(at) else {
                return if state.closed && state.is_done(destination) { Next::End } else { Next::Idle };
            };
            let (first, last, records, largest) = (entry.first, entry.last(), entry.records, entry.largest);
            if first > numbering.until {
                return if awaits { Next::Window } else { Next::OtherStream };
            }
            match &entry.body {
                Body::Batch(bytes) if largest > limit => {
                    let parts = self.packing(numbering).split(bytes, first, limit);
                    state.replace(at, parts, limit);
                }
                Body::Batch(bytes) if records > 1 && body_bytes(bytes) > body_bytes_max => {
                    let parts = self.packing(numbering).halves(bytes, first);
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
                    state.sent += state.destinations[destination].send(last, records, bytes.len());
                    return Next::Send(bytes, last);
                }
                Body::Busy => state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner),
                Body::Records(_) | Body::Stored => {
                    let extent = entry.extent.clone();
                    let body = std::mem::replace(&mut entry.body, Body::Busy);
                    drop(state);
                    let made = self.make(body, extent, first, numbering);
                    state = self.locked();
                    self.made(&mut state, first, made);
                }
            }
        }
    }

    fn packing(&self, numbering: Numbering) -> Packing<'_> {
        let compression = self.compressor.choose();
        Packing { numbering, compression, environment: &*self.environment }
    }

    /// Makes a batch, with no lock held. `None` when the spool cannot be read.
    fn make(&self, body: Body, extent: Option<Extent>, first: u64, numbering: Numbering) -> Option<Made> {
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
        let (batch, left) = packing.pack(builder, first);
        if packing.compression != bbq_wire::Compression::None {
            self.compressor.outcome(raw_bytes, batch.len());
        }
        // A large buffer with little in it would fill the bound with nothing.
        let (batch, left) = if batch.len() < batch.capacity() / 2 {
            (batch.as_slice().to_vec(), batch)
        } else {
            (batch, left)
        };
        Some(Made { batch, left, largest })
    }

    /// Puts a batch in its entry's place. Entries that are busy stay where they are until then.
    fn made(&self, state: &mut State, first: u64, made: Option<Made>) {
        let at = state.entries.partition_point(|entry| entry.first < first);
        match made {
            Some(Made { batch, left, largest }) => {
                let charge = batch.capacity();
                if let Some(entry) = state.entries.get_mut(at).filter(|entry| entry.first == first) {
                    let before = std::mem::replace(&mut entry.charge, charge);
                    entry.body = Body::Batch(Arc::new(batch));
                    entry.largest = largest;
                    state.charged = state.charged - before + charge;
                }
                self.recycle(state, left);
            }
            None => {
                if state.entries.get(at).is_some_and(|entry| entry.first == first)
                    && let Some(entry) = state.entries.remove(at)
                {
                    state.abandoned += u64::from(entry.records);
                    state.charged -= entry.charge;
                }
            }
        }
        self.moved.notify_all();
        self.made_room();
    }

    /// Keeps a buffer for the next block.
    fn recycle(&self, state: &mut State, buffer: Vec<u8>) {
        let fits = (self.block_bytes..=self.block_bytes / 8 * 9).contains(&buffer.capacity());
        if fits && state.spare_bytes() + state.charged + buffer.capacity() <= self.bytes_max {
            state.spare.push(buffer);
        }
    }

    /// All up to `sequence` is at the level that was asked for; answers up to which number every destination has everything.
    pub(crate) fn acknowledged(&self, destination: usize, sequence: u64) -> u64 {
        let mut state = self.locked();
        state.acknowledge(destination, sequence);
        let acknowledged_by_all = state.acknowledged_by_all();
        self.forget(&mut state, acknowledged_by_all);
        let is_over = state.closed && state.is_done(destination);
        drop(state);
        self.moved.notify_all();
        // Who naps or waits for records goes on doing so: or each acknowledgement would cut its batches short.
        if is_over {
            self.parkers[destination].unpark()
        } else {
            self.parkers[destination].unpark_for_change()
        }
        acknowledged_by_all
    }

    /// Lets entries go that every destination's server has.
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
            match front.body {
                Body::Batch(bytes) => {
                    if let Ok(buffer) = Arc::try_unwrap(bytes) {
                        self.recycle(state, buffer);
                    }
                }
                Body::Records(block) => self.recycle(state, block.builder.into_buffer()),
                Body::Busy | Body::Stored => {}
            }
        }
        if state.charged < before {
            self.made_room();
        }
    }

    /// Makes buffers for the blocks that come next, while there is time.
    pub(crate) fn warm(&self) {
        for _ in 0..WARM {
            let state = self.locked();
            let enough = state.spare.len() >= WARM
                || state.charged + state.spare_bytes() + self.block_bytes > self.bytes_max / 2;
            drop(state);
            if enough {
                return;
            }
            // Written to, so that the system gives the pages now.
            let buffer = vec![1; self.block_bytes];
            self.recycle(&mut self.locked(), buffer);
        }
    }
}

#[cfg(test)]
mod tests;
