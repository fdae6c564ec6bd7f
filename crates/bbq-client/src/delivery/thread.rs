//! The thread that keeps a connection: connects, says hello, sends batches, and begins anew when it breaks. Another thread, as long
//! as the connection, reads acknowledgements. Here are the sockets, the waiting and the threads; what is said and what it means is in
//! `connection`, `session` and `failover`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bbq_wire::session::{AckLevel, Hello};

use crate::ServerAddress;
use crate::delivery::connection::{self, Action, CloseReason, Connection};
use crate::delivery::destination::Destination;
use crate::delivery::error::ConnectionError;
use crate::delivery::failover::{Failover, Retry};
use crate::delivery::session::Session;
use crate::delivery::stream::{ANSWER_TIMEOUT, Stream};
use crate::environment::{Environment, System};
use crate::queue::parker::ParkState;
use crate::shared::Shared;

/// A write that stands still is looked at again after this: the sender may be closed meanwhile.
const WRITE_SLICE: Duration = Duration::from_millis(500);
/// The preferred server is looked for so often while another is used.
const PREFERRED_INTERVAL: Duration = Duration::from_secs(5);
/// Naps of a linger without a record, before the next record has to wake the thread: in a busy time no `send` pays for that.
const LINGER_ROUNDS_MAX: u32 = 10;
/// Nothing is waited for that would not ring.
const LONG: Duration = Duration::from_secs(3600);

/// A connection on its way.
struct SendLoop<'a> {
    destination: &'a Destination,
    shared: &'a Arc<Shared>,
    stream: Stream,
    connection: Connection,
    /// When it was welcomed: its times count from here.
    begin: Instant,
    /// When to look for the preferred server again, and what the look has found.
    preferred: Option<(Instant, Arc<AtomicBool>)>,
}

/// Keeps a connection until everything is acknowledged or nothing can be.
pub(crate) fn run(destination: &Destination, shared: &Arc<Shared>) {
    shared.queue.parkers[destination.index].register_thread();
    let mut failover = Failover::new(destination.servers());
    while !shared.queue.is_over(destination.index) {
        failover.begin(destination, shared);
        let outcome = serve(destination, shared, &mut failover);
        match failover.end(destination, shared, outcome) {
            Retry::Now => {}
            Retry::After(wait) => pause(destination, shared, wait),
            Retry::Never => return,
        }
    }
}

/// Waits, but not beyond the end.
fn pause(destination: &Destination, shared: &Shared, wait: Duration) {
    let end = Instant::now() + wait;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        && !shared.queue.is_over(destination.index)
    {
        shared.queue.parkers[destination.index]
            .park(ParkState::Change, left, || shared.queue.is_over(destination.index));
    }
}

/// One connection from its beginning to its end.
fn serve(
    destination: &Destination,
    shared: &Arc<Shared>,
    failover: &mut Failover,
) -> Result<CloseReason, ConnectionError> {
    let server = failover.server();
    let address = destination.address(server);
    let mut stream = Stream::connect(address)?;
    let mut session = Session::new(address.to_string());
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(WRITE_SLICE)?;
    let welcome = stream.begin(&mut session, &connection::hello(shared, destination.index)?)?;
    stream.set_read_timeout(None)?;
    shared.queue.compressor.connected(stream.is_remote());
    let begin = Instant::now();
    let connection = failover.welcomed(destination, shared, &welcome, begin.elapsed())?;
    let mut acks = stream.try_clone()?;
    let listening = Arc::clone(shared);
    let index = destination.index;
    let acks = std::thread::Builder::new().name("bbq-acks".to_owned()).spawn(move || {
        let error = loop {
            let number = acks.read_acknowledgement(&mut session);
            let taken = number
                .and_then(|number| connection::acknowledged(&listening, index, server, &session, number));
            if let Err(error) = taken {
                break error;
            }
        };
        // Wakes the writer, which may be waiting for the socket or for work.
        acks.shutdown();
        listening.queue.set_broken(index);
        error
    })?;
    let look = || (begin + PREFERRED_INTERVAL, Arc::new(AtomicBool::new(false)));
    let preferred = failover.is_substitute().then(look);
    let mut send_loop = SendLoop { destination, shared, stream, connection, begin, preferred };
    let written = send_loop.send();
    // Ends the reader, too.
    send_loop.stream.shutdown();
    // Its answer outranks ours: a refusal also breaks the writing.
    match acks.join() {
        Ok(error) if written.is_err() => Err(error),
        _ => written,
    }
}

impl SendLoop<'_> {
    /// Sends batches as they come.
    fn send(&mut self) -> Result<CloseReason, ConnectionError> {
        let (queue, intake) = (&self.shared.queue, &self.shared.intake);
        let linger = self.shared.options.linger;
        let mut linger_rounds = 0;
        let mut collected = Instant::now();
        loop {
            if self.preferred_is_back() {
                if !queue.awaits(self.destination.index) {
                    return Ok(CloseReason::PreferredIsBack);
                }
                self.wait_for_acknowledgements()?;
                continue;
            }
            match self.connection.next(self.shared)? {
                Action::Write(bytes) => {
                    self.write(&bytes)?;
                    drop(bytes);
                    self.connection.written(self.shared);
                    linger_rounds = 0;
                    // Others flood the queue: a thread that has little to say comes to its turn all the same.
                    let now = Instant::now();
                    if now.duration_since(collected) >= linger {
                        collected = now;
                        intake.collect(queue);
                    }
                }
                Action::Idle => {
                    self.shared.report_drops(self.destination.index);
                    queue.warm();
                    self.wait_for_records(linger_rounds);
                    collected = Instant::now();
                    linger_rounds = if intake.collect(queue) { 0 } else { linger_rounds + 1 };
                }
                Action::AwaitAcknowledgement => {
                    queue.parkers[self.destination.index]
                        .park(ParkState::Change, WRITE_SLICE, || queue.is_window_open(self.destination.index))
                }
                Action::Close(done) => return Ok(done),
            }
            self.check_progress()?;
        }
    }

    /// Nothing more goes this way: waits a while for the acknowledgement of what went.
    fn wait_for_acknowledgements(&mut self) -> Result<(), ConnectionError> {
        let (queue, index) = (&self.shared.queue, self.destination.index);
        queue.parkers[index]
            .park(ParkState::Change, WRITE_SLICE, || !queue.awaits(index) || queue.is_broken(index));
        if queue.is_broken(index) {
            return Err(ConnectionError::Transient("the connection ended".to_owned()));
        }
        self.check_progress()
    }

    /// ParkStates until there may be something to send: first for linger_rounds, so that nobody has to wake it, then until it is woken.
    fn wait_for_records(&self, linger_rounds: u32) {
        let (queue, intake, index) = (&self.shared.queue, &self.shared.intake, self.destination.index);
        let linger = self.shared.options.linger;
        if linger_rounds >= LINGER_ROUNDS_MAX || linger.is_zero() {
            let bound = if queue.awaits(index) { WRITE_SLICE } else { LONG };
            let bound = if self.preferred.is_some() { bound.min(PREFERRED_INTERVAL) } else { bound };
            queue.parkers[index].park(ParkState::Work, bound, || queue.is_ready(index) || intake.has_some());
        }
        if !linger.is_zero() && !queue.is_closed() {
            queue.parkers[index].park(ParkState::Linger, linger, || queue.is_ready(index));
        }
    }

    /// Writes a batch. A server that stands still is left when it is over with its patience, or with the sender.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionError> {
        use std::io::{ErrorKind, Write};
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => {
                    return Err(ConnectionError::Transient(
                        "the connection takes nothing any more".to_owned(),
                    ));
                }
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.check_progress()?;
                    if self.shared.queue.is_over(self.destination.index) {
                        return Err(ConnectionError::Transient("the sender was closed".to_owned()));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn check_progress(&mut self) -> Result<(), ConnectionError> {
        self.connection.check(self.shared, self.begin.elapsed())
    }

    /// Looks for the preferred server now and then, on a thread of its own, as that may take long.
    fn preferred_is_back(&mut self) -> bool {
        let Some((next, found)) = &mut self.preferred else { return false };
        if found.load(Ordering::Relaxed) {
            return true;
        }
        if Instant::now() >= *next {
            *next = Instant::now() + PREFERRED_INTERVAL;
            let (address, found) = (self.destination.address(0).clone(), Arc::clone(found));
            // Without a thread it is looked for again later.
            let _probing = std::thread::Builder::new().name("bbq-probe".to_owned()).spawn(move || {
                if probe(&address).is_ok() {
                    found.store(true, Ordering::Relaxed);
                }
            });
        }
        false
    }
}

/// Whether a server takes senders: one that stands still takes connections, too, and one whose disk failed answers.
fn probe(address: &ServerAddress) -> Result<(), ConnectionError> {
    let hello = Hello {
        stream: System.new_stream()?,
        ack: AckLevel::None,
        client: "bbq-client, probing".to_owned(),
        epoch: 0,
    };
    let mut stream = Stream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut frame = Vec::new();
    hello.encode(&mut frame);
    stream.begin(&mut Session::new(address.to_string()), &frame).map(drop)
}
