//! The thread that keeps a connection: connects, says hello, sends batches, and begins anew when it breaks. Another thread, as long
//! as the connection, reads acknowledgements. Here are the sockets, the waiting and the threads; what is said and what it means is in
//! `link`, `session` and `course`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bbq_wire::session::{AckLevel, Hello};

use crate::ServerAddress;
use crate::bell::Sleep;
use crate::course::{After, Course};
use crate::environment::{Environment, System};
use crate::link::{self, Done, Link, Say};
use crate::outlet::Outlet;
use crate::session::{Session, Trouble};
use crate::shared::Shared;
use crate::stream::{ANSWER_TIMEOUT, Stream};

/// A write that stands still is looked at again after this: the sender may be closed meanwhile.
const WRITE_SLICE: Duration = Duration::from_millis(500);
/// The preferred server is looked for so often while another is used.
const PREFERRED_INTERVAL: Duration = Duration::from_secs(5);
/// Naps of a linger without a record, before the next record has to wake the thread: in a busy time no `send` pays for that.
const NAPS: u32 = 10;
/// Nothing is waited for that would not ring.
const LONG: Duration = Duration::from_secs(3600);

/// A connection on its way.
struct Wire<'a> {
    outlet: &'a Outlet,
    shared: &'a Arc<Shared>,
    stream: Stream,
    link: Link,
    /// When it was welcomed: its times count from here.
    begin: Instant,
    /// When to look for the preferred server again, and what the look has found.
    preferred: Option<(Instant, Arc<AtomicBool>)>,
}

/// Keeps a connection until everything is acknowledged or nothing can be.
pub(crate) fn run(outlet: &Outlet, shared: &Arc<Shared>) {
    shared.queue.bells[outlet.index].attend();
    let mut course = Course::new(outlet.servers());
    while !shared.queue.is_over(outlet.index) {
        course.begin(outlet, shared);
        let outcome = serve(outlet, shared, &mut course);
        match course.end(outlet, shared, outcome) {
            After::Again => {}
            After::Wait(wait) => pause(outlet, shared, wait),
            After::Over => return,
        }
    }
}

/// Waits, but not beyond the end.
fn pause(outlet: &Outlet, shared: &Shared, wait: Duration) {
    let end = Instant::now() + wait;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        && !shared.queue.is_over(outlet.index)
    {
        shared.queue.bells[outlet.index].sleep(Sleep::Change, left, || shared.queue.is_over(outlet.index));
    }
}

/// One connection from its beginning to its end.
fn serve(outlet: &Outlet, shared: &Arc<Shared>, course: &mut Course) -> Result<Done, Trouble> {
    let server = course.server();
    let address = outlet.address(server);
    let mut stream = Stream::connect(address)?;
    let mut session = Session::new(address.to_string());
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(WRITE_SLICE)?;
    let welcome = stream.begin(&mut session, &link::hello(shared, outlet.index)?)?;
    stream.set_read_timeout(None)?;
    shared.queue.compressor.connected(stream.is_remote());
    let begin = Instant::now();
    let link = course.welcomed(outlet, shared, &welcome, begin.elapsed())?;
    let mut acks = stream.try_clone()?;
    let listening = Arc::clone(shared);
    let index = outlet.index;
    let acks = std::thread::Builder::new().name("bbq-acks".to_owned()).spawn(move || {
        let trouble = loop {
            let heard = acks.hear(&mut session);
            let taken = heard.and_then(|heard| link::heard(&listening, index, server, &session, &heard));
            if let Err(trouble) = taken {
                break trouble;
            }
        };
        // Wakes the writer, which may be waiting for the socket or for work.
        acks.shutdown();
        listening.queue.set_broken(index);
        trouble
    })?;
    let look = || (begin + PREFERRED_INTERVAL, Arc::new(AtomicBool::new(false)));
    let preferred = course.is_substitute().then(look);
    let mut wire = Wire { outlet, shared, stream, link, begin, preferred };
    let written = wire.send();
    // Ends the reader, too.
    wire.stream.shutdown();
    // Its answer outranks ours: a refusal also breaks the writing.
    match acks.join() {
        Ok(trouble) if written.is_err() => Err(trouble),
        _ => written,
    }
}

impl Wire<'_> {
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
            match self.link.next(self.shared)? {
                Say::Write(bytes) => {
                    self.write(&bytes)?;
                    drop(bytes);
                    self.link.written(self.shared);
                    naps = 0;
                    // Others flood the queue: a thread that has little to say comes to its turn all the same.
                    let now = Instant::now();
                    if now.duration_since(collected) >= linger {
                        collected = now;
                        intake.collect(queue);
                    }
                }
                Say::Nothing => {
                    self.shared.report_drops(self.outlet.index);
                    queue.warm();
                    self.rest(naps);
                    collected = Instant::now();
                    naps = if intake.collect(queue) { 0 } else { naps + 1 };
                }
                Say::NothingYet => queue.bells[self.outlet.index]
                    .sleep(Sleep::Change, WRITE_SLICE, || queue.is_window_open(self.outlet.index)),
                Say::Leave(done) => return Ok(done),
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

    fn check_progress(&mut self) -> Result<(), Trouble> {
        self.link.check(self.shared, self.begin.elapsed())
    }

    /// Looks for the preferred server now and then, on a thread of its own, as that may take long.
    fn preferred_is_back(&mut self) -> bool {
        let Some((next, found)) = &mut self.preferred else { return false };
        if found.load(Ordering::Relaxed) {
            return true;
        }
        if Instant::now() >= *next {
            *next = Instant::now() + PREFERRED_INTERVAL;
            let (address, found) = (self.outlet.address(0).clone(), Arc::clone(found));
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
    let hello = Hello {
        stream: System.new_stream()?,
        ack: AckLevel::None,
        client: "bbq-client, looking".to_owned(),
        epoch: 0,
    };
    let mut stream = Stream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut frame = Vec::new();
    hello.encode(&mut frame);
    stream.begin(&mut Session::new(address.to_string()), &frame).map(drop)
}
