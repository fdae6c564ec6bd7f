//! The state that a worker's tasks share: the lane, the batches on their way to it, the read buffer, the budgets.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_spec::RateLimitedLog;
use bbq_spool::Lane;
use bbq_stored::{Replicas, Retention, Streams};
use bbq_wire::framing::{Frame, FramingRules};
use bbq_wire::{Peer, SourceKind, StreamId};
use tokio::sync::Notify;

use crate::listen::OnFull;
use crate::worker::accept::budget::ConnectionBudget;
use crate::worker::accept::open::OpenConnections;
use crate::worker::accept::paused::PausedConnection;
use crate::worker::http::{OpenHttp, TurnedAway};
use crate::worker::limits::{IntakeLimits, READ_BYTES, SPARE_BUFFER_BYTES};
use crate::worker::local_listener::LocalListener;
use crate::worker::memory_budget::MemoryBudget;
use crate::worker::scratch::Scratch;
use crate::worker::session::handover::WorkerMesh;
use crate::worker::session::rounds::Rounds;
use crate::worker::session::socket::SessionSocket;
use crate::worker::setup::Worker;
use crate::worker::stopping::Stopping;
use crate::worker::text::batcher::{Batcher, LaneInput, NotTaken, OwnStream};
use crate::worker::ticket::Ticket;
use crate::worker::view::WorkerView;
use crate::worker::waiters::Waiters;

/// Size of a buffer that is allocated while memory is scarce: still enough for a read that is worth its system call.
const SMALL_BUFFER_BYTES: usize = READ_BYTES / 4;

pub(crate) struct Intake {
    pub(crate) worker: usize,
    pub(crate) lane: Lane,
    pub(crate) listeners: Vec<LocalListener>,
    pub(crate) streams: Arc<Streams>,
    pub(crate) retention: Arc<Retention>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) mesh: WorkerMesh,
    /// Reports streams whose order could not be kept.
    pub(crate) order_lost: RateLimitedLog,
    pub(crate) budget: Arc<ConnectionBudget>,
    pub(crate) stopping: Stopping,
    pub(crate) rounds: Rounds,
    /// Connections that another worker continues after this worker has ended.
    pub(crate) paused: RefCell<Vec<PausedConnection>>,
    pub(crate) waiters: Waiters<SessionSocket>,
    /// Notified by the lane's writer, and when a next server has more.
    pub(crate) lane_moved: Arc<Notify>,
    /// Notified when the lane may have room: tasks that wait for room check again.
    pub(crate) room: Notify,
    pub(crate) view: Arc<WorkerView>,
    own: RefCell<OwnStream>,
    /// Text connections are read into this buffer.
    pub(super) buffer: RefCell<Box<[u8]>>,
    spare: RefCell<Vec<Vec<u8>>>,
    flush_wanted: Notify,
    /// Those of HTTP among the connections that are open here.
    pub(crate) open_http: Rc<OpenHttp>,
    pub(crate) turned_away: TurnedAway,
    /// The connections that are open here.
    pub(crate) open: Rc<OpenConnections>,
    pub(crate) limits: IntakeLimits,
    pub(crate) memory: MemoryBudget,
    /// For compressed bodies.
    pub(crate) scratch: Scratch,
    /// Reports connections closed to make room.
    pub(crate) evictions: RateLimitedLog,
}

impl Intake {
    pub(crate) fn new(worker: &Worker) -> io::Result<Intake> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        worker.streams.add_own(StreamId(id));
        let lane_moved = Arc::new(Notify::new());
        let notify = Arc::clone(&lane_moved);
        worker.lane.on_progress(move || notify.notify_one());
        let notify = Arc::clone(&lane_moved);
        worker.replicas.on_advance(move || notify.notify_one());
        let listeners = (0u16..)
            .zip(&worker.listeners)
            .map(|(source, listener)| LocalListener::new(source, listener, &worker.view.undurable));
        Ok(Intake {
            worker: worker.index,
            lane: worker.lane.clone(),
            listeners: listeners.collect(),
            streams: Arc::clone(&worker.streams),
            retention: Arc::clone(&worker.retention),
            replicas: Arc::clone(&worker.replicas),
            mesh: worker.mesh.clone(),
            order_lost: RateLimitedLog::default(),
            budget: Arc::clone(&worker.budget),
            stopping: Stopping::default(),
            rounds: Rounds::default(),
            paused: RefCell::default(),
            waiters: Waiters::default(),
            lane_moved,
            room: Notify::new(),
            view: Arc::clone(&worker.view),
            own: RefCell::new(OwnStream { id: StreamId(id), next: 1 }),
            buffer: RefCell::new(vec![0; READ_BYTES].into_boxed_slice()),
            spare: RefCell::default(),
            flush_wanted: Notify::new(),
            open_http: Rc::default(),
            turned_away: TurnedAway::default(),
            open: Rc::new(OpenConnections::new(&worker.budget, &worker.view)),
            limits: worker.limits,
            memory: MemoryBudget::new(worker.limits.unfinished_bytes_max),
            scratch: Scratch::default(),
            evictions: RateLimitedLog::default(),
        })
    }

    /// Lets `produce` emit frames into the listener's batch; returns how many messages were taken.
    pub(crate) fn frames(
        &self,
        listener_index: usize,
        peer: Peer,
        produce: impl FnOnce(&FramingRules, &mut dyn FnMut(Frame<'_>)),
    ) -> u64 {
        let listener = &self.listeners[listener_index];
        let mut batcher = listener.batcher.borrow_mut();
        let mut own = self.own.borrow_mut();
        let was_empty = batcher.is_empty();
        let before = own.next + batcher.records();
        let mut to = self.lane_input(&mut own);
        produce(&listener.spec.rules, &mut |frame| batcher.take(frame, peer, &mut to));
        if was_empty && !batcher.is_empty() {
            self.flush_wanted.notify_one();
        }
        own.next + batcher.records() - before
    }

    fn lane_input<'a>(&'a self, stream: &'a mut OwnStream) -> LaneInput<'a> {
        LaneInput { lane: &self.lane, stream, waiters: &self.waiters }
    }

    /// Takes all of these records or none, and returns a ticket that waits until they are durable. They share a batch, and
    /// therefore a sync, with the listener's other messages.
    ///
    /// # Errors
    /// Why none was taken. After [`NotTaken::Full`], [`Intake::wait_room`] tells when to try again.
    pub(crate) fn append<'a>(
        &self,
        listener_index: usize,
        kind: SourceKind,
        records: impl Iterator<Item = &'a [u8]> + Clone,
        peer: Peer,
    ) -> Result<Ticket, NotTaken> {
        let taken = self.append_to(listener_index, kind, records, peer, Batcher::ticket)?;
        self.rounds.note_batch(&self.view.active_sessions);
        Ok(taken)
    }

    /// Does the same as [`Intake::append`], for a sender that does not wait for the disk.
    ///
    /// # Errors
    /// Why none was taken.
    pub(crate) fn append_unawaited<'a>(
        &self,
        listener_index: usize,
        kind: SourceKind,
        records: impl Iterator<Item = &'a [u8]> + Clone,
        peer: Peer,
    ) -> Result<(), NotTaken> {
        self.append_to(listener_index, kind, records, peer, |_, _| ())
    }

    fn append_to<'a, T>(
        &self,
        listener_index: usize,
        kind: SourceKind,
        records: impl Iterator<Item = &'a [u8]> + Clone,
        peer: Peer,
        then: impl FnOnce(&mut Batcher, u32) -> T,
    ) -> Result<T, NotTaken> {
        let mut batcher = self.listeners[listener_index].batcher.borrow_mut();
        let mut own = self.own.borrow_mut();
        let records = batcher.append(kind, records, peer, &mut self.lane_input(&mut own))?;
        self.flush_wanted.notify_one();
        Ok(then(&mut batcher, records))
    }

    /// Adds a complete message.
    pub(crate) fn message(&self, listener_index: usize, message: &[u8], peer: Peer) {
        let _added = self.frames(listener_index, peer, |_, emit| emit(Frame::Message(message)));
    }

    /// Hands batches to the lane after the ready tasks have added their messages.
    pub(crate) async fn flush_when_wanted(self: Rc<Self>) {
        loop {
            self.flush_wanted.notified().await;
            self.flush_all();
            // If the lane took a full batch, the batch has room again. No other notification comes before the lane has written.
            self.room.notify_waiters();
        }
    }

    /// Hands over every batch that the lane takes.
    pub(crate) fn flush_all(&self) {
        let mut own = self.own.borrow_mut();
        let mut to = self.lane_input(&mut own);
        let mut handed = 0;
        for listener in &self.listeners {
            let mut batcher = listener.batcher.borrow_mut();
            batcher.flush(&mut to);
            handed += batcher.take_handed();
        }
        self.view.text_weight.fetch_add(handed, Ordering::Relaxed);
    }

    /// Waits until the lane has taken every batch, or failed.
    pub(crate) async fn flushed(&self) {
        loop {
            let room = self.room.notified();
            self.flush_all();
            if self.listeners.iter().all(|listener| listener.batcher.borrow().is_empty()) {
                return;
            }
            room.await;
        }
    }

    /// Hands over every batch at the very end; counts what the lane does not take as lost.
    pub(crate) fn flush_or_count(&self) {
        self.flush_all();
        for listener in &self.listeners {
            listener.batcher.borrow_mut().give_up();
        }
    }

    pub(crate) fn has_room(&self, listener_index: usize) -> bool {
        self.listeners[listener_index].spec.on_full == OnFull::DropNewest
            || self.listeners[listener_index].batcher.borrow().has_room()
    }

    /// Waits until there is room to read the listener's connections, or the lane has failed.
    pub(crate) async fn wait_room(&self, listener_index: usize) {
        while !self.has_room(listener_index) && self.lane.failure().is_none() {
            self.room.notified().await;
        }
    }

    /// An empty buffer for unfinished batches.
    pub(crate) fn spare_buffer(&self) -> Vec<u8> {
        if self.memory.is_scarce() || self.limits.has_little_memory {
            return Vec::with_capacity(SMALL_BUFFER_BYTES);
        }
        self.spare.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(SPARE_BUFFER_BYTES))
    }

    /// Keeps a buffer as a spare if it has the usual size and a spare is missing.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if buffer.capacity() == SPARE_BUFFER_BYTES && spare.len() < self.limits.spare_buffers_max {
            buffer.clear();
            spare.push(buffer);
        }
    }
}
