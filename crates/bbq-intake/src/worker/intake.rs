//! The state that a worker's tasks share: the lane, the batches on their way to it, the read buffer, the budgets.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bbq_stored::ListenerLedger;
use bbq_wire::batch::Events;
use bbq_wire::framing::{Frame, FramingRules};
use bbq_wire::{Peer, SourceKind, StreamId};
use tokio::sync::Notify;

use crate::listen::OnFull;
use crate::listen::protocol::GELF;
use crate::worker::buffers::Buffers;
use crate::worker::disk::Disk;
use crate::worker::held_connections::HeldConnections;
use crate::worker::local_listener::LocalListener;
use crate::worker::session::rounds::Rounds;
use crate::worker::setup::Worker;
use crate::worker::stopping::Stopping;
use crate::worker::text::batcher::{Batcher, LaneInput, NotTaken, OwnStream};
use crate::worker::ticket::Ticket;
use crate::worker::view::WorkerView;

pub(crate) struct Intake {
    pub(crate) worker: usize,
    pub(crate) listeners: Vec<LocalListener>,
    /// Of the readers, whose sources come after those of the listeners.
    pub(crate) readers: Vec<Arc<ListenerLedger>>,
    /// For what is stored, and whoever waits for that.
    pub(crate) disk: Disk,
    /// For who accepts connections, and closes them.
    pub(crate) connections: HeldConnections,
    /// For who reads, and holds what is unfinished.
    pub(crate) buffers: Buffers,
    pub(crate) stopping: Stopping,
    pub(crate) rounds: Rounds,
    pub(crate) view: Arc<WorkerView>,
    own: RefCell<OwnStream>,
    flush_wanted: Notify,
}

impl Intake {
    pub(crate) fn new(worker: &Worker) -> io::Result<Intake> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        worker.streams.add_own(StreamId(id));
        let listeners = (0u16..)
            .zip(&worker.listeners)
            .map(|(source, listener)| LocalListener::new(source, listener, &worker.view.undurable));
        Ok(Intake {
            worker: worker.index,
            listeners: listeners.collect(),
            readers: worker.readers.clone(),
            disk: Disk::new(worker),
            connections: HeldConnections::new(worker),
            buffers: Buffers::new(worker.limits),
            stopping: Stopping::default(),
            rounds: Rounds::default(),
            view: Arc::clone(&worker.view),
            own: RefCell::new(OwnStream { id: StreamId(id), next: 1 }),
            flush_wanted: Notify::new(),
        })
    }

    /// The ledger of a source, by its index: of a listener, or of a reader behind them.
    pub(crate) fn ledger_of(&self, source: u16) -> Option<&ListenerLedger> {
        let source = usize::from(source);
        let listener = self.listeners.get(source).map(|listener| &*listener.ledger);
        listener
            .or_else(|| self.readers.get(source.checked_sub(self.listeners.len())?).map(|ledger| &**ledger))
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
        if !batcher.takes_frames() {
            drop((batcher, own));
            return if *listener.spec.protocol == GELF {
                self.gelf_frames(listener_index, peer, produce)
            } else {
                self.filtered_frames(listener_index, peer, produce)
            };
        }
        let mut to = self.lane_input(&mut own);
        produce(&listener.spec.rules, &mut |frame| batcher.take(frame, peer, &mut to));
        if was_empty && !batcher.is_empty() {
            self.flush_wanted.notify_one();
        }
        own.next + batcher.records() - before
    }

    /// The same for a listener with rules. What they leave out counts as taken, too.
    fn filtered_frames(
        &self,
        listener_index: usize,
        peer: Peer,
        produce: impl FnOnce(&FramingRules, &mut dyn FnMut(Frame<'_>)),
    ) -> u64 {
        let listener = &self.listeners[listener_index];
        let mut batcher = listener.batcher.borrow_mut();
        let mut own = self.own.borrow_mut();
        let was_empty = batcher.is_empty();
        let before = own.next + batcher.records() + batcher.left_out();
        let mut to = self.lane_input(&mut own);
        produce(&listener.spec.rules, &mut |frame| batcher.take_filtered(frame, peer, &mut to));
        if was_empty && !batcher.is_empty() {
            self.flush_wanted.notify_one();
        }
        own.next + batcher.records() + batcher.left_out() - before
    }

    /// Adds messages with times and fields whose sender has no copy.
    pub(crate) fn take_events(&self, listener_index: usize, events: &Events, peer: Peer) {
        let mut batcher = self.listeners[listener_index].batcher.borrow_mut();
        let mut own = self.own.borrow_mut();
        batcher.take_events(events, peer, &mut self.lane_input(&mut own));
        self.flush_wanted.notify_one();
    }

    fn lane_input<'a>(&'a self, stream: &'a mut OwnStream) -> LaneInput<'a> {
        LaneInput { lane: &self.disk.lane, stream, waiters: &self.disk.waiters }
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

    /// Does the same as [`Intake::append`] with messages that have times and fields.
    ///
    /// # Errors
    /// Why none was taken.
    pub(crate) fn append_events(
        &self,
        listener_index: usize,
        kind: SourceKind,
        events: &Events,
        peer: Peer,
    ) -> Result<Ticket, NotTaken> {
        let append =
            |batcher: &mut Batcher, to: &mut LaneInput<'_>| batcher.append_events(kind, events, peer, to);
        let taken = self.append_by(listener_index, append, Batcher::ticket)?;
        self.rounds.note_batch(&self.view.active_sessions);
        Ok(taken)
    }

    /// Does the same as [`Intake::append_events`], for a sender that does not wait for the disk.
    ///
    /// # Errors
    /// Why none was taken.
    pub(crate) fn append_events_unawaited(
        &self,
        listener_index: usize,
        kind: SourceKind,
        events: &Events,
        peer: Peer,
    ) -> Result<(), NotTaken> {
        let append =
            |batcher: &mut Batcher, to: &mut LaneInput<'_>| batcher.append_events(kind, events, peer, to);
        self.append_by(listener_index, append, |_, _| ())
    }

    fn append_to<'a, T>(
        &self,
        listener_index: usize,
        kind: SourceKind,
        records: impl Iterator<Item = &'a [u8]> + Clone,
        peer: Peer,
        then: impl FnOnce(&mut Batcher, u32) -> T,
    ) -> Result<T, NotTaken> {
        let append = |batcher: &mut Batcher, to: &mut LaneInput<'_>| batcher.append(kind, records, peer, to);
        self.append_by(listener_index, append, then)
    }

    fn append_by<T>(
        &self,
        listener_index: usize,
        append: impl FnOnce(&mut Batcher, &mut LaneInput<'_>) -> Result<u32, NotTaken>,
        then: impl FnOnce(&mut Batcher, u32) -> T,
    ) -> Result<T, NotTaken> {
        let mut batcher = self.listeners[listener_index].batcher.borrow_mut();
        let mut own = self.own.borrow_mut();
        let records = append(&mut batcher, &mut self.lane_input(&mut own))?;
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
            self.disk.room.notify_waiters();
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
            let room = self.disk.room.notified();
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
        while !self.has_room(listener_index) && self.disk.lane.failure().is_none() {
            self.disk.room.notified().await;
        }
    }
}
