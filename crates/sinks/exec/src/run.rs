//! One life of the command, with its pipes.
//!
//! ```text
//! started -> written to -> standard input closed -> ended            in order
//!                      \-> SIGTERM -> SIGKILL -> ended               it does not end, or breaks the rules
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use memchr::memchr_iter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread};
use rustix::process::Signal;

use super::acknowledgements::Acknowledgements;
use super::command_log::CommandLog;
use super::process::{Pipes, Process};
use super::queue::Queue;
use super::settings::{Ack, Settings};
use super::unconfirmed::Unconfirmed;

/// Bytes that are read from a pipe at once: what a pipe holds unless somebody changes that.
const READ_BYTES: usize = 64 * 1024;
/// Most reads from a pipe, and most writes, before other things have their turn.
const CALLS_MAX: usize = 16;
/// Messages of equal length that follow each other count as one. This bounds the memory that unconfirmed messages take.
const UNCONFIRMED_ENTRIES_MAX: usize = 64 * 1024;
/// A server that is to hold writes for as long; then the command gets nothing more.
const HOLD_WRITES: Duration = Duration::from_secs(1);
/// A command has this long from there until it gets a SIGTERM. With [`KILL_GRACE`] this is less than a pause waits for its sinks.
const HOLD_GRACE: Duration = Duration::from_secs(1);
/// A command that has read the last message of its run has so long to take what it got before its standard input is closed: one that
/// collects messages for a moment need not do so at the end of its input.
const LIMIT_GRACE: Duration = Duration::from_secs(1);
/// How long a command may live that reads nothing more while the server works.
const CLOSED_GRACE: Duration = Duration::from_secs(5);
/// The time between SIGTERM and SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(1);
/// The same when the sink is dropped: there is no more time then.
const DROP_GRACE: Duration = Duration::from_millis(500);
/// How often it is looked whether a process has ended that has no pidfd, or is killed.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What a finishing sink wants of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish {
    pub(super) since: Duration,
    /// The server is to hold: the time is limited.
    pub(super) is_hold: bool,
}

/// The logs of both outputs.
pub(super) struct Logs {
    pub(super) output: CommandLog,
    pub(super) error: CommandLog,
}

/// How a run has ended.
pub(super) struct Ended {
    /// `None` if the kernel does not tell.
    pub(super) status: Option<ExitStatus>,
    /// What the command did wrong, for which it was ended.
    pub(super) wrong: Option<String>,
    /// The sink has closed its standard input, or wanted its end.
    pub(super) is_wanted: bool,
    pub(super) was_killed: bool,
    /// How many messages it took.
    pub(super) taken: u64,
    /// The sink has closed its standard input, and it took everything before that.
    pub(super) took_all: bool,
}

/// See the module.
pub(super) struct Run {
    /// `None` once the process is reaped.
    process: Option<Process>,
    /// `None` once it is closed.
    input: Option<OwnedFd>,
    /// No process reads it any more.
    is_input_broken: bool,
    /// It was closed behind the last message that this run gets while the server works.
    is_limited: bool,
    /// When it is closed at the latest, as this run gets nothing more. `None` until all is read.
    close_at: Option<Duration>,
    output: Option<OwnedFd>,
    error: Option<OwnedFd>,
    ack: Ack,
    /// In bytes or lines, as `ack` counts.
    unconfirmed: Unconfirmed,
    written_bytes: u64,
    written_lines: u64,
    acknowledgements: Acknowledgements,
    finished_lines: u64,
    taken: u64,
    began: Duration,
    is_wanted: bool,
    wrong: Option<String>,
    terminate_at: Option<Duration>,
    kill_at: Option<Duration>,
    is_killed: bool,
    buffer: Vec<u8>,
}

impl Run {
    /// Starts the command.
    pub(super) fn start(settings: &Settings, now: Duration) -> io::Result<Run> {
        let (process, Pipes { input, output, error }) =
            Process::start(&settings.shell_command, &settings.options())?;
        Ok(Run {
            process: Some(process),
            input: Some(input),
            is_input_broken: false,
            is_limited: false,
            close_at: None,
            output: Some(output),
            error: Some(error),
            ack: settings.ack,
            unconfirmed: Unconfirmed::default(),
            written_bytes: 0,
            written_lines: 0,
            acknowledgements: Acknowledgements::default(),
            finished_lines: 0,
            taken: 0,
            began: now,
            is_wanted: false,
            wrong: None,
            terminate_at: None,
            kill_at: None,
            is_killed: false,
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Writes, reads and confirms what can be without waiting. Returns how the run has ended once it has.
    pub(super) fn advance(
        &mut self,
        queue: &mut Queue,
        logs: &mut Logs,
        finish: Option<Finish>,
        now: Duration,
    ) -> Option<Ended> {
        // First: what the command did before its end is read below.
        let has_ended = self.process.as_ref().is_none_or(Process::has_ended);
        self.is_input_broken |= self.input.as_ref().is_some_and(is_broken);
        if !has_ended && self.wrong.is_none() {
            self.write(queue);
        }
        self.read_error(logs, now);
        self.read_output(logs, now);
        self.confirm(queue);
        if has_ended && self.is_gone() {
            return Some(self.end());
        }
        self.finish(queue, finish, now);
        self.enforce(now);
        None
    }

    fn write(&mut self, queue: &mut Queue) {
        let Some(input) = self.input.as_ref().filter(|_| !self.is_input_broken) else { return };
        for _ in 0..CALLS_MAX {
            if queue.outgoing().is_empty() {
                let (ack, unconfirmed) = (self.ack, &mut self.unconfirmed);
                let may_add = unconfirmed.entries() < UNCONFIRMED_ENTRIES_MAX;
                let note = |message: &[u8]| unconfirmed.add(units(ack, message));
                if !may_add || !queue.format_next(note) {
                    return;
                }
            }
            match rustix::io::write(input, queue.outgoing()) {
                Ok(bytes) => {
                    self.written_bytes += bytes as u64;
                    self.written_lines += lines(&queue.outgoing()[..bytes]);
                    queue.advance(bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.is_input_broken = true;
                    return;
                }
            }
        }
    }

    fn read_error(&mut self, logs: &mut Logs, now: Duration) {
        read(&mut self.error, &mut self.buffer, |bytes| logs.error.take(bytes, now));
    }

    fn read_output(&mut self, logs: &mut Logs, now: Duration) {
        let Run { ack, acknowledgements, finished_lines, written_lines, wrong, .. } = self;
        read(&mut self.output, &mut self.buffer, |bytes| match ack {
            Ack::Read => logs.output.take(bytes, now),
            Ack::Line if wrong.is_none() => match acknowledgements.take(bytes, *written_lines) {
                Ok(finished) => *finished_lines = finished,
                Err(why) => *wrong = Some(why),
            },
            Ack::Line => {}
        });
    }

    fn confirm(&mut self, queue: &mut Queue) {
        let total = match self.ack {
            Ack::Read => self.written_bytes.saturating_sub(self.unread()),
            Ack::Line => self.finished_lines,
        };
        let messages = self.unconfirmed.confirm(total);
        if messages > 0 {
            self.taken += messages;
            queue.confirm(messages);
        }
    }

    /// Bytes that are in the pipe. With [`Ack::Read`] there are none when it is closed in order.
    fn unread(&self) -> u64 {
        self.input.as_ref().map_or(0, |input| ioctl_fionread(input).unwrap_or(u64::MAX))
    }

    /// Lets the command end in order.
    fn finish(&mut self, queue: &mut Queue, finish: Option<Finish>, now: Duration) {
        if queue.is_at_limit() && self.input.is_some() && !self.is_input_broken {
            if self.unread() == 0 {
                self.close_at.get_or_insert(now + LIMIT_GRACE);
            }
            if self.unconfirmed.is_empty() || self.close_at.is_some_and(|at| now >= at) {
                (self.input, self.is_limited) = (None, true);
            }
        }
        let takes_nothing = self.input.is_none() || self.is_input_broken || queue.is_cut();
        let Some(Finish { since, is_hold }) = finish else {
            // Behind a limit, the command has as long as it takes for what it got.
            if takes_nothing && (!self.is_limited || self.unconfirmed.is_empty()) {
                self.terminate_at.get_or_insert(now + CLOSED_GRACE);
            }
            return;
        };
        self.is_wanted = true;
        if is_hold && now >= since + HOLD_WRITES {
            queue.cut();
        }
        let is_read = self.ack == Ack::Line || self.unread() == 0;
        if !queue.has_more() && is_read && !self.is_input_broken {
            self.input = None;
        }
        if is_hold {
            let by = since + HOLD_WRITES + HOLD_GRACE;
            self.terminate_at = Some(self.terminate_at.map_or(by, |at| at.min(by)));
        }
    }

    /// Ends the command by force, if it is time.
    fn enforce(&mut self, now: Duration) {
        let Some(process) = &self.process else { return };
        let is_over = self.wrong.is_some() || self.terminate_at.is_some_and(|at| now >= at);
        if is_over && self.kill_at.is_none() {
            process.signal(Signal::TERM);
            self.kill_at = Some(now + KILL_GRACE);
        }
        if !self.is_killed && self.kill_at.is_some_and(|at| now >= at) {
            process.signal(Signal::KILL);
            self.is_killed = true;
        }
    }

    /// Whether nothing is left to wait for once the command has ended. Other processes of the group may go on, unless the command is
    /// ended by force: then they have as much time, as their ends of the pipes tell.
    fn is_gone(&self) -> bool {
        self.kill_at.is_none() || self.is_killed || (self.output.is_none() && self.error.is_none())
    }

    fn end(&mut self) -> Ended {
        Ended {
            status: self.process.take().and_then(Process::reap),
            took_all: self.input.is_none() && self.wrong.is_none() && self.unconfirmed.is_empty(),
            wrong: self.wrong.take().or_else(|| {
                let is_deaf = self.is_input_broken && self.kill_at.is_some() && !self.is_wanted;
                is_deaf.then(|| "the command closed its standard input and went on".to_owned())
            }),
            is_wanted: self.is_wanted,
            was_killed: self.kill_at.is_some(),
            taken: self.taken,
        }
    }

    /// How long ago the run began.
    pub(super) fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.began)
    }

    /// Whether only a look at the pipe tells what the command has read.
    pub(super) fn is_being_read(&self) -> bool {
        self.ack == Ack::Read && !self.unconfirmed.is_empty() && self.input.is_some() && !self.is_input_broken
    }

    /// Whether the command has read something since the last look.
    pub(super) fn has_read_more(&self, unread: &mut u64) -> bool {
        std::mem::replace(unread, self.unread()) != *unread
    }

    /// What to wait for, and for how long at most, from `now` on.
    pub(super) fn waits(&self, queue: &Queue, now: Duration) -> (Vec<PollFd<'_>>, Duration) {
        let is_writing = queue.has_more() && self.unconfirmed.entries() < UNCONFIRMED_ENTRIES_MAX;
        let writing = if is_writing { PollFlags::OUT } else { PollFlags::empty() };
        let input = self.input.as_ref().filter(|_| !self.is_input_broken);
        let mut fds: Vec<PollFd<'_>> = [&self.output, &self.error]
            .into_iter()
            .flatten()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        fds.extend(input.map(|input| PollFd::new(input, writing)));
        let pidfd = self.process.as_ref().and_then(Process::pidfd);
        // A leader that has ended is waited for no more, but for others of its group.
        let pidfd = pidfd.filter(|_| self.kill_at.is_none());
        let patience = if pidfd.is_some() { Duration::MAX } else { LOOK_INTERVAL };
        fds.extend(pidfd.map(|pidfd| PollFd::from_borrowed_fd(pidfd, PollFlags::IN)));
        let at = [
            self.close_at.filter(|_| input.is_some()),
            self.terminate_at.filter(|_| self.kill_at.is_none()),
            self.kill_at.filter(|_| !self.is_killed),
        ];
        let due = at.into_iter().flatten().map(|at| at.saturating_sub(now)).min();
        (fds, due.map_or(patience, |due| due.min(patience)))
    }
}

/// Ends the processes by force.
impl Drop for Run {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        self.input = None;
        process.signal(Signal::TERM);
        let start = Instant::now();
        let mut is_killed = false;
        loop {
            for pipe in [&mut self.output, &mut self.error] {
                read(pipe, &mut self.buffer, |_| {});
            }
            let has_ended = process.has_ended();
            if has_ended && (is_killed || (self.output.is_none() && self.error.is_none())) {
                process.reap();
                return;
            }
            if start.elapsed() >= 2 * DROP_GRACE {
                // The system does not let go of it. It is reaped with this process.
                return;
            }
            if !is_killed && start.elapsed() >= DROP_GRACE {
                process.signal(Signal::KILL);
                is_killed = true;
            }
            let mut fds: Vec<PollFd<'_>> = [&self.output, &self.error]
                .into_iter()
                .flatten()
                .map(|fd| PollFd::new(fd, PollFlags::IN))
                .collect();
            fds.extend(
                process.pidfd().filter(|_| !has_ended).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            );
            // Whatever it returns, the loop looks again.
            let _ready = poll(&mut fds, Some(&timespec(LOOK_INTERVAL)));
        }
    }
}

/// Of a message or several.
fn units(ack: Ack, text: &[u8]) -> u64 {
    match ack {
        Ack::Read => text.len() as u64,
        Ack::Line => lines(text),
    }
}

fn lines(text: &[u8]) -> u64 {
    memchr_iter(b'\n', text).count() as u64
}

/// Whether no process has the other end of a pipe open.
fn is_broken(input: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(input, PollFlags::empty())];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok() && fds[0].revents().contains(PollFlags::ERR)
}

/// Reads what is there, but not without an end. Closes the pipe at its end.
fn read(pipe: &mut Option<OwnedFd>, buffer: &mut [u8], mut take: impl FnMut(&[u8])) {
    for _ in 0..CALLS_MAX {
        let Some(open) = pipe.as_ref() else { return };
        match rustix::io::read(open.as_fd(), &mut *buffer) {
            Ok(0) => *pipe = None,
            Ok(bytes) => take(&buffer[..bytes]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return,
            Err(_) => *pipe = None,
        }
    }
}

/// For poll(2).
pub(super) fn timespec(duration: Duration) -> Timespec {
    let tv_sec = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(duration.subsec_nanos()) }
}
