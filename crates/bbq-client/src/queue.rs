//! What is taken and not acknowledged, in the order of its numbers, and how far each outlet is with it.
//!
//! ```text
//! entries   | batch | batch | batch | records | records |  <- blocks of the application's threads
//!            ^       ^               ^
//!            front   acknowledged    sent              one pair of marks per outlet; sent goes back with a connection
//! ```
//!
//! An entry goes when every outlet's server has acknowledged it. Records are numbered when their block comes in, and made into a
//! batch when the first outlet comes to them.
//!
//! Invariant: the memory of entries, blocks and spare buffers together stays under the bound.
//! Invariant: a batch's bytes never change, so that the server can tell one that is sent again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};
use bbq_wire::{BatchBuilder, StreamId};

use crate::bell::Bell;
use crate::block::{Block, Body, Packing, buffer_bytes};
use crate::compress::Compressor;
use crate::outlet_state::OutletState;
use crate::spool::{Extent, Recovered};
use crate::{OnFull, SendError, SenderBuilder};

/// The queue is at least so many blocks, so that one can be filled while another is sent.
const BLOCKS_MIN: usize = 8;
/// Buffers that are made before they are needed: an application's thread then never waits for the system's memory.
const WARM: usize = 2;

pub(crate) struct Entry {
    first: u64,
    records: u32,
    /// Memory it takes.
    charge: usize,
    /// Bytes of its largest record, or more: what is only in the spool was not looked at.
    largest: usize,
    body: Body,
    /// Where the same records stand in the spool.
    extent: Option<Extent>,
}

impl Entry {
    fn last(&self) -> u64 {
        self.first + u64::from(self.records) - 1
    }
}

pub(crate) struct State {
    entries: VecDeque<Entry>,
    /// Number of the next record that comes in.
    next_sequence: u64,
    /// Memory of the entries and of the blocks that are being filled.
    charged: usize,
    /// Empty buffers of `block_bytes`.
    spare: Vec<Vec<u8>>,
    pub(crate) outlets: Vec<OutletState>,
    pub(crate) acknowledged: u64,
    pub(crate) sent: u64,
    pub(crate) dropped_oldest: u64,
    pub(crate) abandoned: u64,
    /// Number of the first record that was given up at the end.
    abandoned_from: Option<u64>,
    /// Nothing comes in any more.
    closed: bool,
    failed: Option<SendError>,
}

/// Shared by the application's threads and the outlets'.
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
    stream: StreamId,
    pub(crate) compressor: Compressor,
    /// There was no room for a block, and nothing has gone since: so that a record need not ask again. Changes with the lock held.
    is_full: AtomicBool,
    /// The largest message that every server takes, as far as known.
    message_bytes_max: AtomicU32,
    pub(crate) bells: Box<[Bell]>,
}

/// What an outlet should do next.
pub(crate) enum Next {
    /// Send this.
    Send(Arc<Vec<u8>>),
    /// Nothing is ready.
    Idle,
    /// Wait for acknowledgements.
    Window,
    /// The connection is of no use any more.
    Reconnect,
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
    /// A queue for `outlets` outlets, whose first record gets the number `next_sequence`.
    pub(crate) fn new(
        options: &SenderBuilder,
        stream: StreamId,
        next_sequence: u64,
        outlets: usize,
    ) -> Queue {
        let block_bytes = buffer_bytes(options.batch_bytes).min(options.queue_bytes_max / BLOCKS_MIN);
        let state = State {
            entries: VecDeque::new(),
            next_sequence,
            charged: 0,
            spare: Vec::new(),
            outlets: (0..outlets).map(|_| OutletState::default()).collect(),
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
            stream,
            compressor: Compressor::new(options.compress),
            is_full: AtomicBool::new(false),
            message_bytes_max: AtomicU32::new(MESSAGE_BYTES_DEFAULT),
            bells: (0..outlets).map(|_| Bell::default()).collect(),
        };
        queue.warm();
        queue
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
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
        self.locked().charged -= block.charge;
        drop(block);
        self.made_room();
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
        self.bells.iter().for_each(Bell::work);
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

    /// Puts in line what an earlier sender has left; answers how many records that are.
    pub(crate) fn recover(&self, recovered: Recovered) -> u64 {
        let mut state = self.locked();
        for (outlet, acknowledged) in state.outlets.iter_mut().zip(recovered.acknowledged) {
            outlet.acknowledge(acknowledged.min(recovered.next_sequence - 1), 0);
        }
        let everyone = state.everyone_has();
        state.abandoned = recovered.damaged;
        let mut count = recovered.damaged;
        for extent in recovered.extents {
            if extent.last() > everyone {
                let first = extent.first.max(everyone + 1);
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

    /// What the outlet should do next.
    pub(crate) fn next(&self, outlet: usize) -> Next {
        let mut state = self.locked();
        loop {
            if state.failed.is_some() || state.outlets[outlet].ended {
                return Next::End;
            }
            let mine = &state.outlets[outlet];
            if mine.broken {
                return Next::Reconnect;
            }
            let (sent, limit) = (mine.sent, mine.message_bytes_max.unwrap_or(MESSAGE_BYTES_MAX) as usize);
            let at = state.entries.partition_point(|entry| entry.last() <= sent);
            let Some(entry) = state.entries.get_mut(at) else {
                return if state.closed && state.is_done(outlet) { Next::End } else { Next::Idle };
            };
            let (first, last, records, largest) = (entry.first, entry.last(), entry.records, entry.largest);
            match &entry.body {
                Body::Batch(bytes) if largest > limit => {
                    let parts = self.packing().split(bytes, limit);
                    state.replace(at, parts, limit);
                }
                Body::Batch(bytes) => {
                    let mut bytes = Arc::clone(bytes);
                    if state.outlets[outlet].is_over_window(bytes.len(), self.window_bytes_max) {
                        return Next::Window;
                    }
                    if first <= sent
                        && let Some(rest) = self.packing().rest_of(&bytes, sent + 1)
                    {
                        bytes = Arc::new(rest);
                    }
                    state.sent += state.outlets[outlet].send(last, records, bytes.len());
                    return Next::Send(bytes);
                }
                Body::Busy => state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner),
                Body::Records(_) | Body::Stored => {
                    let extent = entry.extent.clone();
                    let body = std::mem::replace(&mut entry.body, Body::Busy);
                    drop(state);
                    let made = self.make(body, extent, first);
                    state = self.locked();
                    self.made(&mut state, first, made);
                }
            }
        }
    }

    fn packing(&self) -> Packing {
        Packing { stream: self.stream, compression: self.compressor.choose() }
    }

    /// Makes a batch, with no lock held. `None` when the spool cannot be read.
    fn make(&self, body: Body, extent: Option<Extent>, first: u64) -> Option<Made> {
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
        let packing = self.packing();
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

    /// All up to `sequence` is at the level that was asked for; answers up to which number every outlet has everything.
    pub(crate) fn acknowledged(&self, outlet: usize, sequence: u64) -> u64 {
        let mut state = self.locked();
        // A server cannot have what was never sent, whatever it says.
        let sequence = sequence.min(state.next_sequence - 1);
        state.acknowledge(outlet, sequence);
        let everyone = state.everyone_has();
        self.forget(&mut state, everyone);
        let is_over = state.closed && state.is_done(outlet);
        drop(state);
        self.moved.notify_all();
        // Who naps or waits for records goes on doing so: or each acknowledgement would cut its batches short.
        if is_over {
            self.bells[outlet].all()
        } else {
            self.bells[outlet].change()
        }
        everyone
    }

    /// Lets entries go that every outlet's server has.
    fn forget(&self, state: &mut State, everyone: u64) {
        let before = state.charged;
        while state
            .entries
            .front()
            .is_some_and(|front| front.last() <= everyone && !matches!(front.body, Body::Busy))
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

    /// A new connection: the server has everything up to `last_sequence`, the rest is sent again.
    pub(crate) fn connected(&self, outlet: usize, last_sequence: u64, message_bytes_max: u32) {
        self.acknowledged(outlet, last_sequence);
        let mut state = self.locked();
        state.outlets[outlet].connected(message_bytes_max.min(MESSAGE_BYTES_MAX));
        let least = state.outlets.iter().filter_map(|outlet| outlet.message_bytes_max).min();
        self.message_bytes_max.store(least.unwrap_or(MESSAGE_BYTES_DEFAULT), Ordering::Relaxed);
        drop(state);
        self.room.notify_all();
    }

    /// The reader of the outlet's present connection ended.
    pub(crate) fn set_broken(&self, outlet: usize) {
        self.locked().outlets[outlet].broken = true;
        self.bells[outlet].all();
    }

    /// The outlet's server will never take anything. When no other is left, this is the end.
    pub(crate) fn fail(&self, outlet: usize, error: &SendError) {
        let mut state = self.locked();
        state.outlets[outlet].ended = true;
        if state.outlets.iter().all(|outlet| outlet.ended) {
            state.failed.get_or_insert_with(|| error.clone());
        }
        let everyone = state.everyone_has();
        self.forget(&mut state, everyone);
        drop(state);
        self.wake_all();
    }

    /// Nothing comes in any more, and the outlets end when everything is acknowledged.
    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.wake_all();
    }

    /// Ends everything now, and counts what is left as abandoned unless the spool has it.
    pub(crate) fn end(&self, error: SendError, spooled: bool) {
        let mut state = self.locked();
        if state.failed.is_none() {
            state.failed = Some(error);
        }
        state.closed = true;
        if !spooled {
            let left: u64 = state.entries.iter().map(|entry| u64::from(entry.records)).sum();
            state.abandoned += left;
            state.abandoned_from = state.entries.front().map(|front| front.first);
            state.entries.clear();
        }
        drop(state);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.moved.notify_all();
        self.room.notify_all();
        self.bells.iter().for_each(Bell::all);
    }

    /// Everything up to this number is acknowledged by the outlet's server.
    pub(crate) fn acknowledged_by(&self, outlet: usize) -> u64 {
        self.locked().outlets[outlet].acknowledged
    }

    /// Everything up to this number was given to the outlet's connection.
    pub(crate) fn sent_by(&self, outlet: usize) -> u64 {
        self.locked().outlets[outlet].sent
    }

    /// Whether the outlet's connection is of no use any more, or nothing is.
    pub(crate) fn is_broken(&self, outlet: usize) -> bool {
        let state = self.locked();
        state.outlets[outlet].broken || state.failed.is_some()
    }

    /// Whether the outlet has sent what is not acknowledged.
    pub(crate) fn awaits(&self, outlet: usize) -> bool {
        self.locked().outlets[outlet].awaits()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.locked().closed
    }

    pub(crate) fn failure(&self) -> Option<SendError> {
        self.locked().failed.clone()
    }

    pub(crate) fn is_over(&self, outlet: usize) -> bool {
        let state = self.locked();
        state.failed.is_some() || state.outlets[outlet].ended || (state.closed && state.is_done(outlet))
    }

    /// Whether the outlet finds something new if it looks.
    pub(crate) fn is_ready(&self, outlet: usize) -> bool {
        let state = self.locked();
        let mine = &state.outlets[outlet];
        state.failed.is_some()
            || (state.closed && state.is_done(outlet))
            || mine.broken
            || state.entries.back().is_some_and(|back| back.last() > mine.sent)
    }

    /// Whether an outlet that waits for acknowledgements need not wait longer.
    pub(crate) fn is_window_open(&self, outlet: usize) -> bool {
        let state = self.locked();
        let mine = &state.outlets[outlet];
        let at = state.entries.partition_point(|entry| entry.last() <= mine.sent);
        let over = state.entries.get(at).is_some_and(|entry| match &entry.body {
            Body::Batch(bytes) => mine.is_over_window(bytes.len(), self.window_bytes_max),
            _ => false,
        });
        !over || mine.broken || mine.ended || state.failed.is_some()
    }

    /// Waits for room, the end, or the deadline; `false` at the deadline.
    pub(crate) fn wait_for_room(&self, record_bytes: usize, deadline: Option<Instant>) -> bool {
        let charge = self.block_bytes.max(buffer_bytes(record_bytes));
        let mut state = self.locked();
        loop {
            if state.failed.is_some() || state.closed || state.has_room(charge, self.bytes_max) {
                return true;
            }
            state = match wait(&self.room, state, deadline) {
                Some(state) => state,
                None => return false,
            };
        }
    }

    /// Waits a little for something that nobody tells of; `false` at the deadline.
    pub(crate) fn pause(&self, pause: Duration, deadline: Option<Instant>) -> bool {
        let now = Instant::now();
        let state = self.locked();
        if state.failed.is_none() && !state.closed {
            let end = deadline.map_or(now + pause, |deadline| deadline.min(now + pause));
            let _woken = wait(&self.room, state, Some(end));
        }
        deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Whether no server has said yet what it takes.
    pub(crate) fn limit_is_unknown(&self) -> bool {
        self.locked().outlets.iter().all(|outlet| outlet.message_bytes_max.is_none())
    }

    /// Waits until a server has said what it takes; `false` at the deadline.
    pub(crate) fn wait_for_limit(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.locked();
        while !state.outlets.iter().any(|outlet| outlet.message_bytes_max.is_some())
            && state.failed.is_none()
            && !state.closed
        {
            state = match wait(&self.room, state, deadline) {
                Some(state) => state,
                None => return false,
            };
        }
        true
    }

    /// Waits until everything that came in before is acknowledged.
    pub(crate) fn wait_acknowledged(&self, timeout: Duration) -> Result<(), SendError> {
        let start = Instant::now();
        let deadline = start.checked_add(timeout);
        let mut state = self.locked();
        let target = state.next_sequence - 1;
        while let Some(queued) = state.queued_up_to(target) {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = match wait(&self.moved, state, deadline) {
                Some(state) => state,
                None => return Err(SendError::Timeout { queued, waited: timeout }),
            };
        }
        match state.abandoned_from {
            Some(from) if from <= target => Err(state.failed.clone().unwrap_or(SendError::Closed)),
            _ => Ok(()),
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

/// Waits on the condition variable; `None` when the deadline had passed before.
fn wait<'a>(
    condition: &Condvar,
    state: MutexGuard<'a, State>,
    deadline: Option<Instant>,
) -> Option<MutexGuard<'a, State>> {
    let Some(deadline) = deadline else {
        return Some(condition.wait(state).unwrap_or_else(PoisonError::into_inner));
    };
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
    Some(condition.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0)
}

impl State {
    fn spare_bytes(&self) -> usize {
        self.spare.iter().map(Vec::capacity).sum()
    }

    /// One block always fits, whatever its size.
    fn has_room(&self, charge: usize, bytes_max: usize) -> bool {
        self.charged == 0 || self.charged + charge <= bytes_max
    }

    /// Whether the outlet has nothing left to do.
    fn is_done(&self, outlet: usize) -> bool {
        let acknowledged = self.outlets[outlet].acknowledged;
        self.entries.back().is_none_or(|back| back.last() <= acknowledged)
    }

    fn everyone_has(&self) -> u64 {
        let live = self.outlets.iter().filter(|outlet| !outlet.ended);
        live.map(|outlet| outlet.acknowledged).min().unwrap_or(0)
    }

    fn acknowledge(&mut self, outlet: usize, sequence: u64) {
        let before = self.outlets[outlet].acknowledged;
        if sequence <= before {
            return;
        }
        let bytes = self
            .entries
            .iter()
            .skip(self.entries.partition_point(|entry| entry.last() <= before))
            .take_while(|entry| entry.last() <= sequence)
            .map(|entry| if let Body::Batch(bytes) = &entry.body { bytes.len() } else { 0 })
            .sum();
        self.outlets[outlet].acknowledge(sequence, bytes);
    }

    /// Records up to number `target` that some live outlet does not have; `None` when there are none.
    fn queued_up_to(&self, target: u64) -> Option<u64> {
        let everyone = self.everyone_has();
        let queued = self
            .entries
            .iter()
            .filter(|entry| entry.first <= target && entry.last() > everyone)
            .map(|entry| u64::from(entry.records))
            .sum();
        (queued > 0).then_some(queued)
    }

    /// Whether a thread is making a batch of it, or a server has it and has not acknowledged it.
    fn is_on_its_way(&self, entry: &Entry) -> bool {
        let sent = |outlet: &OutletState| outlet.sent >= entry.first && outlet.acknowledged < entry.last();
        matches!(entry.body, Body::Busy) || self.outlets.iter().any(sent)
    }

    /// Puts the parts of a batch in its place. What is in none of them is too large for a server, and given up.
    fn replace(&mut self, at: usize, parts: Vec<(u64, u32, Vec<u8>)>, largest: usize) {
        let Some(entry) = self.entries.remove(at) else { return };
        self.charged -= entry.charge;
        self.abandoned += u64::from(entry.records);
        for (index, (first, records, bytes)) in parts.into_iter().enumerate() {
            self.abandoned -= u64::from(records);
            let charge = bytes.capacity();
            self.charged += charge;
            let body = Body::Batch(Arc::new(bytes));
            self.entries.insert(at + index, Entry { first, records, charge, largest, body, extent: None });
        }
    }

    /// Drops the oldest entry that no outlet has on its way; `false` when there is none.
    fn drop_oldest(&mut self) -> bool {
        let droppable = |entry: &Entry| entry.charge > 0 && !self.is_on_its_way(entry);
        let Some(at) = self.entries.iter().position(droppable) else { return false };
        let Some(entry) = self.entries.remove(at) else { return false };
        self.charged -= entry.charge;
        self.dropped_oldest += u64::from(entry.records);
        true
    }

    /// Records in line, and their memory with that of spare buffers and blocks.
    pub(crate) fn queued(&self) -> (u64, u64) {
        let records = self.entries.iter().map(|entry| u64::from(entry.records)).sum();
        (records, (self.charged + self.spare_bytes()) as u64)
    }
}

#[cfg(test)]
mod tests;
