//! What a worker's tasks share: the lane and the batches on their way to it, the read buffer, the budgets.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_listen::OpenCount;
use bbq_spool::Lane;
use bbq_wire::framing::{Frame, FramingRules};
use bbq_wire::{Peer, StreamId};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::sync::Notify;

use super::acks::Acks;
use super::batcher::OwnStream;
use super::door::Door;
use super::framer::{Framer, Misfit};
use super::rounds::Rounds;
use super::stopping::Stopping;
use super::{ConnectionBudget, ParkedConnection, Worker, WorkerView};
use crate::config::OnFull;
use crate::ledger::DropReason;
use crate::retention::Retention;
use crate::streams::Streams;

/// One read at most: as large as a batch should be, and it stays in the second-level cache.
pub(super) const READ_BYTES: usize = 256 * 1024;

/// What the connections of one worker may hold in unfinished messages together: a burst of slow senders with large
/// messages must not take the machine's memory. Beyond it the connection that asks for more is closed and counted.
const HELD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Buffers for unfinished batches that are kept for the next session that needs one, and how large they are. More
/// sessions than this in the middle of a batch at the same moment allocate.
const SPARE_BUFFERS_MAX: usize = 16;
const SPARE_BUFFER_BYTES: usize = 2 * READ_BYTES;

/// How long a listener that drops the oldest waits before it looks whether there is room now.
const ROOM_RETRY: Duration = Duration::from_millis(20);

pub(super) struct Intake {
    pub(super) worker: usize,
    pub(super) lane: Lane,
    pub(super) doors: Vec<Door>,
    pub(super) streams: Arc<Streams>,
    pub(super) retention: Arc<Retention>,
    pub(super) budget: Arc<ConnectionBudget>,
    pub(super) stopping: Stopping,
    pub(super) rounds: Rounds,
    /// Connections that another worker goes on with, once this one has ended.
    pub(super) parked: RefCell<Vec<ParkedConnection>>,
    pub(super) acks: Acks,
    /// Woken by the lane's writer.
    pub(super) lane_moved: Arc<Notify>,
    /// The lane took something, so those who wait for room look again.
    pub(super) room: Notify,
    pub(super) view: Arc<WorkerView>,
    own: RefCell<OwnStream>,
    buffer: RefCell<Box<[u8]>>,
    spare: RefCell<Vec<Vec<u8>>>,
    flush_wanted: Notify,
    open: Cell<usize>,
    all_closed: Notify,
    held: Cell<usize>,
}

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// Messages were taken, and more bytes may be there.
    More,
    /// Messages were taken, and the socket was empty behind them.
    Drained,
    /// Nothing was there.
    Blocked,
    /// The connection is finished with: its sender ended it, it broke, or it must be closed.
    Finished,
}

impl Intake {
    pub(super) fn new(worker: &Worker) -> io::Result<Intake> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        let lane_moved = Arc::new(Notify::new());
        let tell = Arc::clone(&lane_moved);
        worker.lane.on_progress(move || tell.notify_one());
        let doors = (0u16..).zip(&worker.listeners).map(|(source, listener)| Door::new(source, listener));
        Ok(Intake {
            worker: worker.index,
            lane: worker.lane.clone(),
            doors: doors.collect(),
            streams: Arc::clone(&worker.streams),
            retention: Arc::clone(&worker.retention),
            budget: Arc::clone(&worker.budget),
            stopping: Stopping::default(),
            rounds: Rounds::default(),
            parked: RefCell::default(),
            acks: Acks::default(),
            lane_moved,
            room: Notify::new(),
            view: Arc::clone(&worker.view),
            own: RefCell::new(OwnStream { id: StreamId(id), next: 1 }),
            buffer: RefCell::new(vec![0; READ_BYTES].into_boxed_slice()),
            spare: RefCell::default(),
            flush_wanted: Notify::new(),
            open: Cell::new(0),
            all_closed: Notify::new(),
            held: Cell::new(0),
        })
    }

    /// Reads a connection once through the worker's buffer and takes every message that is whole.
    pub(super) fn read(
        &self,
        door: usize,
        stream: impl AsFd,
        framer: &mut Framer,
        peer: Peer,
    ) -> ReadOutcome {
        let held = framer.held_bytes();
        let outcome = self.read_and_take(door, stream, framer, peer);
        if outcome == ReadOutcome::Finished {
            self.hold(held, 0);
        }
        outcome
    }

    fn read_and_take(&self, door: usize, stream: impl AsFd, framer: &mut Framer, peer: Peer) -> ReadOutcome {
        let mut buffer = self.buffer.borrow_mut();
        let bytes = match recv(stream, &mut **buffer, RecvFlags::DONTWAIT) {
            Ok((_, bytes)) => bytes,
            Err(Errno::AGAIN) => return ReadOutcome::Blocked,
            Err(Errno::INTR) => return ReadOutcome::More,
            Err(_) => {
                self.frames(door, peer, |rules, emit| framer.abort(rules, emit));
                return ReadOutcome::Finished;
            }
        };
        if bytes == 0 {
            self.frames(door, peer, |rules, emit| framer.finish(rules, emit));
            return ReadOutcome::Finished;
        }
        let held_before = framer.held_bytes();
        let mut pushed = Ok(());
        self.frames(door, peer, |rules, emit| pushed = framer.push(rules, &buffer[..bytes], emit));
        if let Err(error) = pushed {
            match error {
                Misfit::Framing(_) => self.doors[door].ledger.add_dropped(DropReason::Malformed, 1),
                Misfit::Hello(_) => self.doors[door].ledger.add_refused(1),
            }
            if let Some(repeats) = self.doors[door].trouble.report() {
                tracing::warn!(listener = self.doors[door].spec.source, ?peer, %error, repeats, "connection closed");
            }
            return ReadOutcome::Finished;
        }
        if !self.hold(held_before, framer.held_bytes()) {
            self.doors[door].ledger.add_dropped(DropReason::Memory, 1);
            return ReadOutcome::Finished;
        }
        if bytes < buffer.len() { ReadOutcome::Drained } else { ReadOutcome::More }
    }

    /// Ends a connection in the middle of what it was sending.
    pub(super) fn abort(&self, door: usize, framer: &mut Framer, peer: Peer) {
        self.hold(framer.held_bytes(), 0);
        self.frames(door, peer, |rules, emit| framer.abort(rules, emit));
    }

    /// Lets `produce` emit frames into the door's batch.
    pub(super) fn frames(
        &self,
        door: usize,
        peer: Peer,
        produce: impl FnOnce(&FramingRules, &mut dyn FnMut(Frame<'_>)),
    ) {
        let door = &self.doors[door];
        let mut batcher = door.batcher.borrow_mut();
        let mut own = self.own.borrow_mut();
        let was_empty = batcher.is_empty();
        produce(&door.spec.rules, &mut |frame| batcher.take(frame, peer, &self.lane, &mut own));
        if was_empty && !batcher.is_empty() {
            self.flush_wanted.notify_one();
        }
    }

    /// Adds a message that is whole already.
    pub(super) fn message(&self, door: usize, message: &[u8], peer: Peer) {
        self.frames(door, peer, |_, emit| emit(Frame::Message(message)));
    }

    /// Hands batches on after the tasks that were ready have added theirs.
    pub(super) async fn flush_when_wanted(self: Rc<Self>) {
        loop {
            self.flush_wanted.notified().await;
            self.flush_all();
            // A full batch that the lane took is room, too: nobody else says so before the lane has written it.
            self.room.notify_waiters();
        }
    }

    /// Hands every batch on that the lane takes.
    pub(super) fn flush_all(&self) {
        let mut own = self.own.borrow_mut();
        let mut handed = 0;
        for door in &self.doors {
            let mut batcher = door.batcher.borrow_mut();
            batcher.flush(&self.lane, &mut own);
            handed += batcher.take_handed();
        }
        self.view.text_weight.fetch_add(handed, Ordering::Relaxed);
    }

    /// Waits until the lane has taken every batch, or failed.
    pub(super) async fn flushed(&self) {
        loop {
            let room = self.room.notified();
            self.flush_all();
            if self.doors.iter().all(|door| door.batcher.borrow().is_empty()) {
                return;
            }
            room.await;
        }
    }

    /// Hands every batch on; what the lane does not take now, at the very end, is counted as lost.
    pub(super) fn flush_or_count(&self) {
        self.flush_all();
        for door in &self.doors {
            door.batcher.borrow_mut().give_up();
        }
    }

    pub(super) fn has_room(&self, door: usize) -> bool {
        self.doors[door].spec.on_full == OnFull::DropNewest || self.doors[door].batcher.borrow().has_room()
    }

    /// Waits until the door may read on.
    pub(super) async fn wait_room(&self, door: usize) {
        while !self.has_room(door) && self.lane.failure().is_none() {
            self.wait_lane_moved(door).await;
        }
    }

    /// Waits until the lane may have room, and makes some where that is the door's way.
    pub(super) async fn wait_lane_moved(&self, door: usize) {
        let room = self.room.notified();
        if self.doors[door].spec.on_full != OnFull::DropOldest {
            return room.await;
        }
        if self.lane.is_waiting_for_space() {
            self.retention.drop_oldest();
        }
        let _looks_again = tokio::time::timeout(ROOM_RETRY, room).await;
    }

    /// Accounts for unfinished messages; `false` when they are too many.
    pub(super) fn hold(&self, before: usize, after: usize) -> bool {
        let held = self.held.get().saturating_sub(before) + after;
        if after > before && held > HELD_BYTES_MAX {
            return false;
        }
        self.held.set(held);
        true
    }

    /// An empty buffer for unfinished batches.
    pub(super) fn spare_buffer(&self) -> Vec<u8> {
        self.spare.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(SPARE_BUFFER_BYTES))
    }

    /// Keeps a buffer for the next one, if it has the usual size and there are not enough.
    pub(super) fn give_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if buffer.capacity() == SPARE_BUFFER_BYTES && spare.len() < SPARE_BUFFERS_MAX {
            buffer.clear();
            spare.push(buffer);
        }
    }

    /// Counts a connection that stays; the budget was claimed for it.
    pub(super) fn connection_opened(self: &Rc<Self>, handed: Option<OpenCount>) -> OpenConnection {
        self.open.set(self.open.get() + 1);
        self.view.connections.fetch_add(1, Ordering::Relaxed);
        OpenConnection { intake: Rc::clone(self), _handed: handed }
    }

    /// Waits until no connection is open.
    pub(super) async fn connections_closed(&self) {
        while self.open.get() > 0 {
            self.all_closed.notified().await;
        }
    }
}

/// A connection that is counted as open while this lives, whether it has a task or not.
pub(super) struct OpenConnection {
    intake: Rc<Intake>,
    /// Held for its drop: the distribution counts it, too.
    _handed: Option<OpenCount>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let intake = &self.intake;
        intake.open.set(intake.open.get() - 1);
        intake.view.connections.fetch_sub(1, Ordering::Relaxed);
        intake.budget.give_back(1);
        if intake.open.get() == 0 {
            intake.all_closed.notify_one();
        }
    }
}
