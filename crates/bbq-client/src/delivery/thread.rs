//! The thread of a destination: connects, sends the hello and batches, and connects again when the connection breaks. Each connection
//! has a second thread, which reads acknowledgements. This module owns the sockets, the waiting and the threads; `connection`, `session`
//! and `failover` decide what is sent and what received frames mean.

use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bbq_wire::session::{AckLevel, Hello, Token};

use crate::ServerAddress;
use crate::delivery::connection::{Action, CloseReason, Connection};
use crate::delivery::destination::Destination;
use crate::delivery::error::ConnectionError;
use crate::delivery::failover::{Failover, Retry};
use crate::delivery::session::Session;
use crate::delivery::stream::{self, ANSWER_TIMEOUT, Writer};
use crate::delivery::tls;
use crate::environment::{Environment, System};
use crate::queue::parker::ParkState;
use crate::shared::Shared;

/// Time-out of a blocked write, after which the thread checks whether the sender was closed.
const WRITE_SLICE: Duration = Duration::from_millis(500);
/// How often the preferred server is probed while another one is used.
const PREFERRED_INTERVAL: Duration = Duration::from_secs(5);
/// After so many lingers without a record, the thread parks until a record wakes it. Under load no `send` pays for a wake-up.
const LINGER_ROUNDS_MAX: u32 = 10;
/// The time-out of a wait that always ends by a wake-up.
const LONG: Duration = Duration::from_secs(3600);

struct SendLoop<'a> {
    destination: &'a Destination,
    shared: &'a Arc<Shared>,
    writer: Writer,
    connection: Connection,
    /// When the server welcomed the sender: the times of `connection` count from here.
    begin: Instant,
    /// When to probe the preferred server next, and whether a probe has succeeded. `None` if the preferred server is connected.
    preferred: Option<(Instant, Arc<AtomicBool>)>,
}

/// Runs until everything is acknowledged, or no server will ever take the rest.
pub(crate) fn run(destination: &Destination, shared: &Arc<Shared>) {
    shared.queue.parkers[destination.index].register_thread();
    let mut failover = Failover::new(destination.servers.len());
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

/// Waits for this time, or until the sender ends.
fn pause(destination: &Destination, shared: &Shared, wait: Duration) {
    let end = Instant::now() + wait;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        && !shared.queue.is_over(destination.index)
    {
        shared.queue.parkers[destination.index]
            .park(ParkState::Change, left, || shared.queue.is_over(destination.index));
    }
}

/// Makes a connection and uses it until it ends.
fn serve(
    destination: &Destination,
    shared: &Arc<Shared>,
    failover: &mut Failover,
) -> Result<CloseReason, ConnectionError> {
    let server = failover.server();
    let address = &destination.servers[server];
    let (mut writer, mut reader) = stream::connect(address, shared.tls.as_deref())?;
    let mut session = Session::new(address.to_string());
    reader.socket().set_read_timeout(Some(ANSWER_TIMEOUT))?;
    writer.socket().set_write_timeout(Some(WRITE_SLICE))?;
    let hello = shared.hello(destination.index)?;
    let welcome = stream::begin(&mut writer, &mut reader, &mut session, &hello)?;
    reader.socket().set_read_timeout(None)?;
    shared.queue.compressor.connected(stream::is_remote(writer.socket()));
    let begin = Instant::now();
    let connection = failover.welcomed(destination, shared, &welcome, begin.elapsed())?;
    let receiver = Arc::clone(shared);
    let index = destination.index;
    let acks = std::thread::Builder::new().name("bbq-acks".to_owned()).spawn(move || {
        let error = loop {
            let received = stream::read_acknowledgement(&mut reader, &mut session)
                .and_then(|number| receiver.received_ack(index, server, &session, number));
            if let Err(error) = received {
                break error;
            }
        };
        // Wakes the sending thread, which may wait for the socket or for work.
        let _closed_already = reader.socket().shutdown(Shutdown::Both);
        receiver.queue.set_broken(index);
        error
    })?;
    let preferred = failover.is_substitute().then(|| (begin + PREFERRED_INTERVAL, Arc::default()));
    let mut send_loop = SendLoop { destination, shared, writer, connection, begin, preferred };
    let written = send_loop.send();
    if written.is_ok() {
        // If this fails, the server still sees that the socket is shut down.
        let _told = send_loop.writer.finish();
    }
    // Ends the reading thread, too.
    let _closed_already = send_loop.writer.socket().shutdown(Shutdown::Both);
    // The error of the reading thread comes first: after a refusal, writing fails as well.
    match acks.join() {
        Ok(error) if written.is_err() => Err(error),
        _ => written,
    }
}

impl SendLoop<'_> {
    /// Sends batches until the connection ends.
    fn send(&mut self) -> Result<CloseReason, ConnectionError> {
        let (queue, intake) = (&self.shared.queue, &self.shared.intake);
        let linger = self.shared.options.linger;
        let mut linger_rounds = 0;
        let mut collected = Instant::now();
        loop {
            if self.preferred_is_back() {
                if !queue.progress(self.destination.index).1 {
                    return Ok(CloseReason::PreferredIsBack);
                }
                self.wait_for_acknowledgements()?;
                continue;
            }
            match self.connection.next(self.shared)? {
                Action::Write(bytes) => {
                    self.write(&bytes)?;
                    drop(bytes);
                    self.shared.written(self.destination.index);
                    linger_rounds = 0;
                    // While other threads fill the queue, records in blocks that are not full must not wait longer than the linger.
                    let now = Instant::now();
                    if now.duration_since(collected) >= linger {
                        collected = now;
                        intake.collect(queue);
                    }
                }
                Action::Idle => {
                    self.shared.report_drops(self.destination.index);
                    queue.prepare_buffers();
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

    /// Waits a while for acknowledgements, before the connection ends.
    fn wait_for_acknowledgements(&mut self) -> Result<(), ConnectionError> {
        let (queue, index) = (&self.shared.queue, self.destination.index);
        queue.parkers[index]
            .park(ParkState::Change, WRITE_SLICE, || !queue.progress(index).1 || queue.is_broken(index));
        if queue.is_broken(index) {
            return Err(ConnectionError::Transient("the connection ended".to_owned()));
        }
        self.check_progress()
    }

    /// Parks until there may be something to send. Parks for single lingers at first, so that no `send` has to wake the thread, and then
    /// until a `send` wakes it.
    fn wait_for_records(&self, linger_rounds: u32) {
        let (queue, intake, index) = (&self.shared.queue, &self.shared.intake, self.destination.index);
        let linger = self.shared.options.linger;
        if linger_rounds >= LINGER_ROUNDS_MAX || linger.is_zero() {
            let bound = if queue.progress(index).1 { WRITE_SLICE } else { LONG };
            let bound = if self.preferred.is_some() { bound.min(PREFERRED_INTERVAL) } else { bound };
            queue.parkers[index]
                .park(ParkState::Work, bound, || queue.is_ready(index) || intake.has_records());
        }
        if !linger.is_zero() && !queue.is_closed() {
            queue.parkers[index].park(ParkState::Linger, linger, || queue.is_ready(index));
        }
    }

    /// Writes a batch. Fails if the server takes nothing until the delivery time-out has passed or the sender has ended.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            match self.writer.write(bytes) {
                Ok(0) => {
                    return Err(ConnectionError::Transient(
                        "the connection accepts no more bytes".to_owned(),
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

    /// Whether the preferred server is reachable again. Probes it now and then, on a thread of its own, as that may take long.
    fn preferred_is_back(&mut self) -> bool {
        let Some((next, found)) = &mut self.preferred else { return false };
        if found.load(Ordering::Relaxed) {
            return true;
        }
        if Instant::now() >= *next {
            *next = Instant::now() + PREFERRED_INTERVAL;
            let (address, found) = (self.destination.servers[0].clone(), Arc::clone(found));
            let (tls, token) = (self.shared.tls.clone(), self.shared.options.token.clone());
            // If the system refuses the thread, the next probe comes later.
            let _probing = std::thread::Builder::new().name("bbq-probe".to_owned()).spawn(move || {
                if probe(&address, tls.as_deref(), token).is_ok() {
                    found.store(true, Ordering::Relaxed);
                }
            });
        }
        false
    }
}

/// Succeeds if a server welcomes senders. An accepted connection does not prove that, as the backlog of a hung server accepts, too.
fn probe(
    address: &ServerAddress,
    tls: Option<&tls::Client>,
    token: Option<Token>,
) -> Result<(), ConnectionError> {
    let hello = Hello {
        stream: System.new_stream()?,
        ack: AckLevel::None,
        client: "bbq-client, probing".to_owned(),
        epoch: 0,
        relays: false,
        token,
        progress: None,
    };
    let (mut writer, mut reader) = stream::connect(address, tls)?;
    reader.socket().set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut frame = Vec::new();
    hello.encode(&mut frame);
    stream::begin(&mut writer, &mut reader, &mut Session::new(address.to_string()), &frame).map(drop)
}
