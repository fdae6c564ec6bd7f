//! The thread that keeps a connection: connects, says hello, sends batches, and begins anew when it breaks. Another thread, as long
//! as the connection, reads acknowledgements.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bbq_wire::StreamId;
use bbq_wire::session::{AckLevel, Hello, RefusalCode};

use crate::bell::Sleep;
use crate::queue::Next;
use crate::rotation::Rotation;
use crate::sender::Shared;
use crate::session::{ANSWER_TIMEOUT, Session, Trouble};
use crate::stream::Stream;
use crate::{AdaptiveReconnect, Notice, SendError, ServerAddress, ServerProgress};

/// A write that stands still is looked at again after this: the sender may be closed meanwhile.
const WRITE_SLICE: Duration = Duration::from_millis(500);
/// The preferred server is looked for so often while another is used.
const PREFERRED_INTERVAL: Duration = Duration::from_secs(5);
/// Naps of a linger without a record, before the next record has to wake the thread: in a busy time no `send` pays for that.
const NAPS: u32 = 10;
/// So many hellos without an answer are remembered. A server that goes on has read all of its backlog within a few tries, however
/// many wait there; and an answer that never comes, as behind a balancer without a server, is no reason to fight for a stream.
const UNANSWERED_MAX: u32 = 16;
/// Nothing is waited for that would not ring.
const LONG: Duration = Duration::from_secs(3600);

/// Servers that share one progress.
pub(crate) struct Outlet {
    index: usize,
    /// The preferred one first.
    servers: Vec<ServerAddress>,
    reconnect: Mutex<AdaptiveReconnect>,
    reconnects: AtomicU64,
    connected: AtomicBool,
    /// Which server is connected, or was tried last.
    present: AtomicU64,
}

/// A connection on its way.
struct Link<'a> {
    outlet: &'a Outlet,
    shared: &'a Arc<Shared>,
    stream: Stream,
    /// When the last acknowledgement came, or something was sent while nothing was on its way; with the number that was known.
    progress: (u64, Instant),
    /// When to look for the preferred server again, and what the look has found.
    preferred: Option<(Instant, Arc<AtomicBool>)>,
}

impl Outlet {
    pub(crate) fn new(index: usize, servers: Vec<ServerAddress>, reconnect: AdaptiveReconnect) -> Outlet {
        Outlet {
            index,
            servers,
            reconnect: Mutex::new(reconnect),
            reconnects: AtomicU64::new(0),
            connected: AtomicBool::new(false),
            present: AtomicU64::new(0),
        }
    }

    pub(crate) fn reconnect(&self) -> MutexGuard<'_, AdaptiveReconnect> {
        self.reconnect.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self, acknowledged_sequence: u64, missing: u64) -> ServerProgress {
        ServerProgress {
            server: self.servers[self.present.load(Ordering::Relaxed) as usize].to_string(),
            connected: self.connected.load(Ordering::Relaxed),
            acknowledged_sequence,
            missing,
            reconnects: self.reconnects(),
            reconnect: self.reconnect().now(),
        }
    }

    /// Keeps a connection until everything is acknowledged or nothing can be.
    pub(crate) fn run(&self, shared: &Arc<Shared>) {
        shared.queue.bells[self.index].attend();
        let mut rotation = Rotation::new(self.servers.len());
        // Hellos that nobody has answered. A server that stood still may read one late, when its connection is long gone, and take
        // that for the newest.
        let mut unanswered = 0;
        // Whether the last notice was good news; a change is told, not each try.
        let mut told = None;
        while !shared.queue.is_over(self.index) {
            self.present.store(rotation.present() as u64, Ordering::Relaxed);
            let server = &self.servers[rotation.present()];
            let before = shared.queue.acknowledged_by(self.index);
            let outcome = self.serve(shared, server, rotation.is_substitute(), &mut told, &mut unanswered);
            self.connected.store(false, Ordering::Relaxed);
            let why = match outcome {
                Ok(Done::End) => return,
                Ok(Done::Preferred) => {
                    rotation.back_to_preferred();
                    continue;
                }
                Err(Trouble::Final(error)) if is_taken_over(&error) && unanswered > 0 => {
                    unanswered -= 1;
                    error.to_string()
                }
                Err(Trouble::Final(error)) => {
                    let notice = Notice::Ended { server: server.to_string(), why: error.to_string() };
                    tell(shared, &mut told, &notice);
                    // Whoever has taken the stream over would do so everywhere.
                    if is_taken_over(&error) || !rotation.refuse() {
                        return shared.fail(self.index, &error);
                    }
                    error.to_string()
                }
                Err(Trouble::Passing(why)) => why,
            };
            tell(shared, &mut told, &Notice::Unreachable { server: server.to_string(), why });
            self.reconnects.fetch_add(1, Ordering::Relaxed);
            // A welcome alone is no success: a server whose disk failed welcomes, too, and then refuses.
            if rotation.go_on(shared.queue.acknowledged_by(self.index) > before) {
                let wait = self.reconnect().failed();
                self.pause(shared, wait);
            }
        }
    }

    /// Waits, but not beyond the end.
    fn pause(&self, shared: &Shared, wait: Duration) {
        let end = Instant::now() + wait;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            && !shared.queue.is_over(self.index)
        {
            shared.queue.bells[self.index].sleep(Sleep::Change, left, || shared.queue.is_over(self.index));
        }
    }

    /// One connection from its beginning to its end.
    fn serve(
        &self,
        shared: &Arc<Shared>,
        address: &ServerAddress,
        is_substitute: bool,
        told: &mut Option<bool>,
        unanswered: &mut u32,
    ) -> Result<Done, Trouble> {
        let mut stream = Stream::connect(address)?;
        let mut session = Session::new(address.to_string());
        let options = &shared.options;
        let hello = Hello { stream: shared.queue.stream(), ack: options.ack, client: options.name.clone() };
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(WRITE_SLICE)?;
        let welcome = session.begin(&mut stream, &hello);
        if session.is_unanswered() {
            *unanswered = (*unanswered + 1).min(UNANSWERED_MAX);
        }
        let welcome = welcome?;
        stream.set_read_timeout(None)?;
        shared.queue.compressor.connected(stream.is_remote());
        shared.begin_connection(self.index, &welcome, address)?;
        self.connected.store(true, Ordering::Relaxed);
        tell(shared, told, &Notice::Connected { server: address.to_string() });
        let mut acks = stream.try_clone()?;
        let listening = Arc::clone(shared);
        let index = self.index;
        let acks = std::thread::Builder::new().name("bbq-acks".to_owned()).spawn(move || {
            let trouble = session.listen(&mut acks, |sequence| listening.acknowledged(index, sequence));
            // Wakes the writer, which may be waiting for the socket or for work.
            acks.shutdown();
            listening.queue.set_broken(index);
            trouble
        })?;
        let now = Instant::now();
        let preferred = is_substitute.then(|| (now + PREFERRED_INTERVAL, Arc::new(AtomicBool::new(false))));
        let mut link = Link { outlet: self, shared, stream, progress: (0, now), preferred };
        let written = link.send();
        // Ends the reader, too.
        link.stream.shutdown();
        // Its answer outranks ours: a refusal also breaks the writing.
        match acks.join() {
            Ok(trouble) if written.is_err() => Err(trouble),
            _ => written,
        }
    }
}

/// How a connection ends well.
enum Done {
    /// Nothing is left to do.
    End,
    /// The preferred server takes over.
    Preferred,
}

impl Link<'_> {
    /// Sends batches as they come.
    fn send(&mut self) -> Result<Done, Trouble> {
        let (queue, intake) = (&self.shared.queue, &self.shared.intake);
        let linger = self.shared.options.linger;
        let mut naps = 0;
        let mut collected = Instant::now();
        loop {
            if self.preferred_is_back() {
                if !queue.awaits(self.outlet.index) {
                    return Ok(Done::Preferred);
                }
                self.wait_for_the_rest()?;
                continue;
            }
            match queue.next(self.outlet.index) {
                Next::Send(bytes) => {
                    self.write(&bytes)?;
                    drop(bytes);
                    if self.shared.options.ack == AckLevel::None {
                        self.shared.written(self.outlet.index);
                    }
                    naps = 0;
                    // Others flood the queue: a thread that has little to say comes to its turn all the same.
                    let now = Instant::now();
                    if now.duration_since(collected) >= linger {
                        collected = now;
                        intake.collect(queue);
                    }
                }
                Next::Idle => {
                    self.shared.report_drops(self.outlet.index);
                    queue.warm();
                    self.rest(naps);
                    collected = Instant::now();
                    naps = if intake.collect(queue) { 0 } else { naps + 1 };
                }
                Next::Window => queue.bells[self.outlet.index]
                    .sleep(Sleep::Change, WRITE_SLICE, || queue.is_window_open(self.outlet.index)),
                Next::Reconnect => return Err(Trouble::Passing("the connection ended".to_owned())),
                Next::End => return Ok(Done::End),
            }
            self.check_progress()?;
        }
    }

    /// Nothing more goes this way: waits a while for the acknowledgement of what went.
    fn wait_for_the_rest(&mut self) -> Result<(), Trouble> {
        let (queue, index) = (&self.shared.queue, self.outlet.index);
        queue.bells[index]
            .sleep(Sleep::Change, WRITE_SLICE, || !queue.awaits(index) || queue.is_broken(index));
        if queue.is_broken(index) {
            return Err(Trouble::Passing("the connection ended".to_owned()));
        }
        self.check_progress()
    }

    /// Sleeps until there may be something to send: first for naps, so that nobody has to wake it, then until it is woken.
    fn rest(&self, naps: u32) {
        let (queue, intake, index) = (&self.shared.queue, &self.shared.intake, self.outlet.index);
        let linger = self.shared.options.linger;
        if naps >= NAPS || linger.is_zero() {
            let bound = if queue.awaits(index) { WRITE_SLICE } else { LONG };
            let bound = if self.preferred.is_some() { bound.min(PREFERRED_INTERVAL) } else { bound };
            queue.bells[index].sleep(Sleep::Work, bound, || queue.is_ready(index) || intake.has_some());
        }
        if !linger.is_zero() && !queue.is_closed() {
            queue.bells[index].sleep(Sleep::Linger, linger, || queue.is_ready(index));
        }
    }

    /// Writes a batch. A server that stands still is left when it is over with its patience, or with the sender.
    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Trouble> {
        use std::io::{ErrorKind, Write};
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(Trouble::Passing("the connection takes nothing any more".to_owned())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.check_progress()?;
                    if self.shared.queue.is_over(self.outlet.index) {
                        return Err(Trouble::Passing("the sender was closed".to_owned()));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Leaves a server that acknowledges nothing although something waits.
    fn check_progress(&mut self) -> Result<(), Trouble> {
        let (acknowledged, awaits) = self.shared.queue.progress(self.outlet.index);
        let now = Instant::now();
        if acknowledged > self.progress.0 || !awaits {
            self.progress = (acknowledged, now);
        }
        let timeout = self.shared.options.delivery_timeout;
        if now.duration_since(self.progress.1) >= timeout {
            return Err(Trouble::Passing(format!("it has acknowledged nothing for {timeout:?}")));
        }
        Ok(())
    }

    /// Looks for the preferred server now and then, on a thread of its own, as that may take long.
    fn preferred_is_back(&mut self) -> bool {
        let Some((next, found)) = &mut self.preferred else { return false };
        if found.load(Ordering::Relaxed) {
            return true;
        }
        if Instant::now() >= *next {
            *next = Instant::now() + PREFERRED_INTERVAL;
            let (address, found) = (self.outlet.servers[0].clone(), Arc::clone(found));
            // Without a thread it is looked for again later.
            let _looking = std::thread::Builder::new().name("bbq-look".to_owned()).spawn(move || {
                if is_welcome(&address).is_ok() {
                    found.store(true, Ordering::Relaxed);
                }
            });
        }
        false
    }
}

/// Whether a server takes senders: one that stands still takes connections, too, and one whose disk failed answers.
fn is_welcome(address: &ServerAddress) -> Result<(), Trouble> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| Trouble::Passing(error.to_string()))?;
    let hello =
        Hello { stream: StreamId(random), ack: AckLevel::None, client: "bbq-client, looking".to_owned() };
    let mut stream = Stream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Session::new(address.to_string()).begin(&mut stream, &hello).map(drop)
}

/// Whether another connection sends the same stream.
fn is_taken_over(error: &SendError) -> bool {
    matches!(error, SendError::Refused { refusal, .. } if refusal.code == RefusalCode::TakenOver)
}

/// Tells the application when good became bad or bad became good.
fn tell(shared: &Shared, told: &mut Option<bool>, notice: &Notice) {
    let good = matches!(notice, Notice::Connected { .. });
    if (told.replace(good) != Some(good) || matches!(notice, Notice::Ended { .. }))
        && let Some(handler) = &shared.options.notice
    {
        handler(notice);
    }
}
