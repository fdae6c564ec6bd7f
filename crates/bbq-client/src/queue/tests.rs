//! The queue without threads, with a model of servers that follow the protocol.

use std::collections::VecDeque;

use bbq_wire::batch::{Batch, BatchLimits};
use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, MESSAGE_BYTES_MAX};
use bbq_wire::{Ranges, StreamId};
use proptest::prelude::*;

use super::*;
use crate::environment::System;
use crate::intake::Intake;
use crate::queue::destination_state::{ResumePoint, Told};
use crate::spool::Recovered;
use crate::{Delivery, Sender};

const QUEUE_BYTES: usize = 64 * 1024;
/// Bytes of a body and of a message.
const LIMITS: (u32, u32) = (BATCH_BODY_BYTES_MAX, MESSAGE_BYTES_MAX);

/// A server and the connection to it.
#[derive(Default)]
struct Server {
    /// Batches that are sent and not received.
    wire: VecDeque<Arc<Vec<u8>>>,
    last_sequence: u64,
    /// Numbers that are stored or were given up.
    known: Ranges,
    /// Each byte of its stream id.
    stream: u8,
    /// Numbers of the messages that it has stored.
    taken: Vec<u64>,
    /// How many of them are acknowledged.
    acknowledged: usize,
}

fn told(last: u64) -> Told {
    Told { last, highest: last, is_forgotten: false }
}

impl Server {
    /// Takes the next batch from the wire.
    fn receive(&mut self) {
        let Some(bytes) = self.wire.pop_front() else { return };
        let mut scratch = Vec::new();
        let limits =
            BatchLimits { body_bytes_max: BATCH_BODY_BYTES_MAX, message_bytes_max: MESSAGE_BYTES_MAX };
        let batch = Batch::verify(&bytes, limits, &mut scratch).expect("a sound batch");
        let header = batch.header;
        assert_eq!(header.stream, StreamId([self.stream; 16]), "a batch of another stream");
        if header.last_sequence() <= self.last_sequence {
            return;
        }
        assert!(header.first_sequence > self.last_sequence, "{header:?} overlaps {}", self.last_sequence);
        self.known.insert(batch.span());
        self.taken.extend(
            batch
                .records()
                .map(|record| u64::from_le_bytes(*record.first_chunk::<8>().expect("a number stands first"))),
        );
        self.last_sequence = header.last_sequence();
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Send this many messages of this size.
    Send(u8, u16),
    Collect,
    /// A destination sends a batch.
    Give(usize),
    Receive(usize),
    Acknowledge(usize),
    /// The connection breaks and loses its batches; another one begins.
    Reconnect(usize),
    /// The server loses its data, and another connection begins.
    Forget(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (1_u8..40, 8_u16..2000).prop_map(|(count, bytes)| Event::Send(count, bytes)),
        1 => Just(Event::Collect),
        6 => (0_usize..2).prop_map(Event::Give),
        6 => (0_usize..2).prop_map(Event::Receive),
        4 => (0_usize..2).prop_map(Event::Acknowledge),
        2 => (0_usize..2).prop_map(Event::Reconnect),
        1 => (0_usize..2).prop_map(Event::Forget),
    ];
    proptest::collection::vec(event, 1..120)
}

struct Model {
    queue: Queue,
    intake: Intake,
    servers: Vec<Server>,
    /// The number in the next message.
    number: u64,
    accepted: Vec<u64>,
}

impl Model {
    fn new(on_full: OnFull, servers: usize) -> Model {
        let options = Sender::builder()
            .queue_bytes_max(QUEUE_BYTES)
            .batch_bytes(2048)
            .delivery(Delivery::All)
            .on_full(on_full);
        let stream = StreamId([7; 16]);
        let destinations = Recovered::nothing(stream, servers).destinations;
        let queue = Queue::new(
            &options.options,
            Arc::new(System),
            1,
            destinations.into_iter().map(|before| (before, vec![1])),
        );
        let intake = Intake::new(on_full, None);
        let servers: Vec<Server> = (0..servers).map(|_| Server { stream: 7, ..Server::default() }).collect();
        (0..servers.len()).for_each(|destination| queue.connected(destination, 0, 0, LIMITS));
        Model { queue, intake, servers, number: 0, accepted: Vec::new() }
    }

    fn happen(&mut self, event: Event) {
        let count = self.servers.len();
        match event {
            Event::Send(messages, bytes) => {
                for _ in 0..messages {
                    let mut message = self.number.to_le_bytes().to_vec();
                    message.resize(usize::from(bytes), 0);
                    if self.intake.push(&self.queue, &message).is_ok() {
                        self.accepted.push(self.number);
                    }
                    self.number += 1;
                }
            }
            Event::Collect => {
                self.intake.collect(&self.queue);
            }
            Event::Give(at) => {
                if let Next::Send(bytes, _) = self.queue.next(at % count) {
                    self.servers[at % count].wire.push_back(bytes);
                }
            }
            Event::Receive(at) => self.servers[at % count].receive(),
            Event::Acknowledge(at) => {
                let (at, server) = (at % count, &mut self.servers[at % count]);
                let record = self.queue.check_ack(at, 0, server.last_sequence).expect("it was sent");
                server.acknowledged = server.taken.len();
                self.queue.acknowledged(at, record);
            }
            Event::Reconnect(at) => {
                let (at, server) = (at % count, &mut self.servers[at % count]);
                server.wire.clear();
                server.acknowledged = server.taken.len();
                let resume_point = self.queue.resume_point(at, 0, told(server.last_sequence));
                let ResumePoint::Has(record) = resume_point else {
                    panic!("{} was sent, and is not forgotten", server.last_sequence)
                };
                self.queue.connected(at, 0, record, LIMITS);
            }
            Event::Forget(at) => {
                let (at, server) = (at % count, &mut self.servers[at % count]);
                server.wire.clear();
                server.last_sequence = 0;
                // Acknowledged messages are lost for good; the others are sent again.
                server.taken.truncate(server.acknowledged);
                match self.queue.resume_point(at, 0, told(0)) {
                    ResumePoint::Has(record) => self.queue.connected(at, 0, record, LIMITS),
                    ResumePoint::Forgot { .. } => {
                        server.stream = server.stream.wrapping_add(1);
                        self.queue.replace_stream(at, StreamId([server.stream; 16]));
                        let has = self.queue.acknowledged_by(at);
                        assert_eq!(self.queue.resume_point(at, 0, told(0)), ResumePoint::Has(has));
                        self.queue.connected(at, 0, has, LIMITS);
                    }
                    ResumePoint::NeverSent => panic!("it knows nothing"),
                }
            }
        }
        let state = self.queue.locked();
        let (_, bytes) = state.queued();
        assert!(bytes <= QUEUE_BYTES as u64 + 2 * 2048, "{bytes}");
    }

    /// Delivers everything and closes the queue.
    fn settle(&mut self) {
        self.intake.close(&self.queue);
        self.queue.close();
        for destination in 0..self.servers.len() {
            for _ in 0..1000 {
                self.happen(Event::Give(destination));
                self.happen(Event::Receive(destination));
                self.happen(Event::Acknowledge(destination));
            }
            assert!(matches!(self.queue.next(destination), Next::End));
        }
    }
}

fn run(on_full: OnFull, servers: usize, events: &[Event]) {
    let mut model = Model::new(on_full, servers);
    events.iter().for_each(|event| model.happen(*event));
    model.settle();
    let state = model.queue.locked();
    assert_eq!(state.queued().0, 0);
    assert_eq!(state.acknowledged + state.dropped_oldest, model.accepted.len() as u64);
    for server in &model.servers {
        // One thread has sent the messages in order, so each is stored at most once.
        assert!(server.taken.is_sorted_by(|before, after| before < after));
        assert!(server.taken.iter().all(|number| model.accepted.binary_search(number).is_ok()));
        let missing = (model.accepted.len() - server.taken.len()) as u64;
        assert!(missing <= state.dropped_oldest, "{missing} of {}", state.dropped_oldest);
    }
    if on_full != OnFull::DropOldest {
        assert!(model.servers.iter().all(|server| server.taken == model.accepted));
    }
}

proptest! {
    #[test]
    fn each_server_takes_each_message_once(events in events(), servers in 1_usize..3) {
        run(OnFull::DropNewest, servers, &events);
    }

    #[test]
    fn what_is_dropped_for_newer_ones_is_counted(events in events(), servers in 1_usize..3) {
        run(OnFull::DropOldest, servers, &events);
    }
}

#[test]
fn a_connection_begins_in_the_middle_of_a_batch_when_the_server_knows_its_beginning() {
    let mut model = Model::new(OnFull::DropNewest, 1);
    model.happen(Event::Send(10, 8));
    model.happen(Event::Collect);
    model.happen(Event::Give(0));
    // As after a restart of the sender, which made other batches of the same records.
    model.servers[0].wire.clear();
    model.servers[0].last_sequence = 4;
    model.happen(Event::Reconnect(0));
    model.settle();
    assert_eq!(model.servers[0].taken, [4, 5, 6, 7, 8, 9]);
}

#[test]
fn the_window_keeps_half_of_the_queue_for_what_can_still_be_dropped() {
    let mut model = Model::new(OnFull::DropOldest, 1);
    for _ in 0..60 {
        model.happen(Event::Send(4, 500));
        model.happen(Event::Give(0));
    }
    assert!(matches!(model.queue.next(0), Next::Window));
    let sent: usize = model.servers[0].wire.iter().map(|batch| batch.len()).sum();
    assert!(sent <= QUEUE_BYTES / 2, "{sent}");
    assert!(model.queue.locked().dropped_oldest > 0);
}

/// A batch says what was given up before it, unless a server may have it.
#[test]
fn what_was_dropped_before_it_was_sent_is_stated_by_the_next_batch() {
    let options = Options { queue_bytes_max: QUEUE_BYTES, ..Options::default() };
    let before = Recovered::nothing(StreamId([7; 16]), 1);
    let destinations = before.destinations.into_iter().map(|destination| (destination, vec![1]));
    let queue = Queue::new(&options, Arc::new(System), 1, destinations);
    queue.connected(0, 0, 0, LIMITS);
    let append = |records: u8| {
        let mut block = queue.reserve(8, OnFull::DropOldest).unwrap();
        (0..records).for_each(|_| block.push(b"a record"));
        queue.append(block);
    };
    let next = || {
        let Next::Send(bytes, _) = queue.next(0) else { panic!("a batch waits") };
        let mut scratch = Vec::new();
        let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
        (batch.header.first_sequence, batch.given_up())
    };
    (0..4).for_each(|_| append(10));
    assert_eq!(next(), (1, 0));
    // 11 to 30.
    assert!(queue.locked().drop_oldest() && queue.locked().drop_oldest());
    assert_eq!(next(), (31, 20));
    // The connection breaks: 1 to 10 and 31 to 40 may have arrived.
    queue.connected(0, 0, 0, LIMITS);
    assert!(queue.locked().drop_oldest());
    assert_eq!(next(), (31, 20));
    queue.connected(0, 0, 0, LIMITS);
    assert!(queue.locked().drop_oldest());
    append(10);
    assert_eq!(next(), (41, 0));
}
