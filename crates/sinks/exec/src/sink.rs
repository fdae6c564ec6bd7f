//! The sink takes groups and returns settled groups. Between them is a run of the command, which is started again when it has ended.

use std::future::Future as _;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bbq_sink::{Goal, Now, Problem, Room, Settled, Sink};
use bbq_spool::{Group, LanePlace, Progress};
use rustix::event::{PollFd, PollFlags, poll};
use tracing::{debug, warn};

use super::alarm::Alarm;
use super::command_log::{CommandLog, Stream};
use super::limit::{FAILED_FOR, Limit};
use super::queue::Queue;
use super::run::{Ended, Finish, Logs, Run, timespec};
use super::settings::{Ack, Settings};

/// Exit codes of a command that fails whatever it got: it says so (`EX_TEMPFAIL` of sysexits.h), or the shell does, as it cannot run or find
/// the program.
const FAILS_ON_ANYTHING: [i32; 3] = [75, 126, 127];
/// A run of this length without messages works: the driver's next pause is the first one again.
const LONG_RUN: Duration = Duration::from_secs(5);
/// A command that has messages and takes none for so long is a problem that the status shows.
const STALL: Duration = Duration::from_secs(30);
/// How often it is looked what the command has read: no event tells.
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// See the module.
pub(super) struct ExecSink {
    settings: Settings,
    queue: Queue,
    run: Option<Run>,
    logs: Logs,
    goal: Goal,
    /// Since when nothing more is submitted.
    finishing_since: Option<Duration>,
    /// The command has ended in order with nothing left to do: the next message starts it.
    rests: bool,
    /// Most messages of a run.
    limit: Limit,
    /// A problem that the next call of `settle` returns.
    problem: Option<Problem>,
    /// When a message was delivered, or there was none.
    last_progress: Duration,
    progress: u64,
    has_told_stall: bool,
    /// The last run has failed, and no message was delivered since.
    has_failed: bool,
    /// How often the command has worked again without a message.
    recoveries: u64,
    /// The time of the last call.
    now: Duration,
    alarm: Arc<Alarm>,
}

impl ExecSink {
    pub(super) fn new(settings: Settings) -> io::Result<ExecSink> {
        let log = |stream| CommandLog::new(stream, &settings.name);
        Ok(ExecSink {
            queue: Queue::new(settings.format),
            run: None,
            logs: Logs { output: log(Stream::Output), error: log(Stream::Error) },
            goal: Goal::Deliver,
            finishing_since: None,
            rests: false,
            limit: Limit::new(),
            problem: None,
            last_progress: Duration::ZERO,
            progress: 0,
            has_told_stall: false,
            has_failed: false,
            recoveries: 0,
            now: Duration::ZERO,
            alarm: Alarm::new()?,
            settings,
        })
    }

    fn room(&self) -> Room {
        if self.queue.has_room() { Room::Free } else { Room::Full }
    }

    /// Whether there is something to start the command for.
    fn has_use(&self) -> bool {
        match self.goal {
            Goal::Deliver => !self.queue.is_empty() || !self.rests,
            Goal::Drain => !self.queue.is_empty(),
            Goal::Hold => false,
        }
    }

    /// Starts the command if it does not run and there is use for it. The pause after a failure is the driver's: there is no call meanwhile.
    fn start(&mut self) -> Result<(), Problem> {
        if self.run.is_none() && self.has_use() {
            let run = Run::start(&self.settings, self.now).map_err(Problem::Retry)?;
            debug!(sink = self.settings.name, "command started");
            (self.run, self.rests) = (Some(run), false);
        }
        Ok(())
    }

    /// Goes on as far as possible without waiting.
    fn advance(&mut self) -> Result<(), Problem> {
        self.start()?;
        let Some(run) = &mut self.run else { return Ok(()) };
        let is_hold = self.goal == Goal::Hold;
        let finish = self.finishing_since.map(|since| Finish { since, is_hold });
        let ended = run.advance(&mut self.queue, &mut self.logs, finish, self.now);
        let Some(ended) = ended else { return self.check_progress() };
        self.run = None;
        let handled = self.handle_end(&ended);
        self.queue.rewind(self.limit.messages());
        handled?;
        // At once, as nothing would end the wait for the next step.
        self.start()
    }

    fn handle_end(&mut self, ended: &Ended) -> Result<(), Problem> {
        let last_lines = [self.logs.error.end_run(self.now), self.logs.output.end_run(self.now)];
        let [last_error, _] = last_lines;
        let is_success = ended.status.is_none_or(|status| status.success()) && ended.wrong.is_none();
        let mut why = ended.wrong.clone().unwrap_or_else(|| describe(ended.status));
        if let Some(line) = last_error.filter(|_| !is_success) {
            why.push_str(": ");
            why.push_str(&line);
        }
        debug!(sink = self.settings.name, taken = ended.taken, why, "command ended");
        if ended.taken > 0 {
            self.limit.taken();
        }
        if ended.is_wanted && (self.goal == Goal::Hold || self.queue.is_empty()) {
            self.warn_of_end(ended, is_success, &why);
            return Ok(());
        }
        if (is_success || ended.took_all) && (self.queue.is_empty() || ended.taken > 0) {
            // If more waits, the command is started again at once: each run takes something.
            self.warn_of_end(ended, is_success, &why);
            self.rests = self.queue.is_empty();
            return Ok(());
        }
        if is_success {
            why.push_str(" before it took a message");
        }
        self.has_failed = true;
        // Without a status, as where SIGCHLD is ignored, nobody knows whether it has failed.
        let code = ended.status.map(|status| status.code());
        let is_of_anything =
            code.is_none_or(|code| code.is_some_and(|code| FAILS_ON_ANYTHING.contains(&code)));
        let was_ended_by_sink = ended.is_wanted && ended.was_killed;
        if is_of_anything || was_ended_by_sink {
            self.limit.forget_time();
        } else if ended.taken == 0 {
            self.narrow(&mut why);
        }
        Err(Problem::Retry(io::Error::other(why)))
    }

    /// Tells what the command did in spite of the end of its standard input.
    fn warn_of_end(&self, ended: &Ended, is_success: bool, why: &str) {
        let sink = &self.settings.name;
        if ended.was_killed {
            warn!(sink, "the command did not end in time, and got a SIGTERM: {why}");
        } else if !is_success {
            warn!(sink, "at the end of its standard input, {why}");
        }
    }

    /// A run has failed that took nothing: the next one gets fewer messages. One that is alone is rejected in the end.
    fn narrow(&mut self, why: &mut String) {
        let given = self.queue.given();
        // With `Ack::Read` nobody knows on which message the command has failed.
        if self.settings.ack == Ack::Read {
            return;
        }
        if self.limit.failed(given, self.now) {
            self.queue.reject(why);
            why.push_str("; the message is now a dead letter");
        } else if given == 1 {
            let seconds = FAILED_FOR.as_secs();
            why.push_str(&format!(
                "; it got a single message, which becomes a dead letter if that lasts {seconds} s"
            ));
        }
    }

    /// Tells once that the command takes nothing.
    fn check_progress(&mut self) -> Result<(), Problem> {
        let progress = self.queue.progress();
        let has_moved = std::mem::replace(&mut self.progress, progress) != progress;
        if has_moved || self.queue.is_empty() || self.goal != Goal::Deliver {
            (self.last_progress, self.has_told_stall) = (self.now, false);
        }
        let is_long = self.run.as_ref().is_some_and(|run| run.age(self.now) >= LONG_RUN);
        if self.has_failed && (has_moved || (is_long && self.queue.is_empty())) {
            self.has_failed = false;
            self.recoveries += u64::from(!has_moved);
        }
        if self.has_told_stall || self.now.saturating_sub(self.last_progress) < STALL {
            return Ok(());
        }
        self.has_told_stall = true;
        let does = match self.settings.ack {
            Ack::Read => "read",
            Ack::Line => "acknowledged",
        };
        let why = format!("the command has {does} nothing for {} s", STALL.as_secs());
        Err(Problem::Retry(io::Error::other(why)))
    }
}

fn describe(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("the command ended with exit code {code}"),
        Some((None, Some(signal))) => format!("the command was ended by signal {signal}"),
        _ => "the command ended".to_owned(),
    }
}

impl Sink for ExecSink {
    fn set_goal(&mut self, goal: Goal) {
        if goal != self.goal {
            self.finishing_since = None;
            // A pause is no failure.
            self.limit.forget_time();
        }
        self.goal = goal;
    }

    fn submit(&mut self, group: Group, begun: u64, now: Now) -> Result<Room, Problem> {
        self.now = now.monotonic;
        self.queue.add(group, begun);
        self.finishing_since = None;
        Ok(self.room())
    }

    fn settle(&mut self, now: Now, settled: &mut Vec<Settled>) -> Result<Room, Problem> {
        self.now = now.monotonic;
        let advanced = match self.problem.take() {
            Some(problem) => Err(problem),
            None => self.advance(),
        };
        self.queue.take_settled(settled);
        advanced.map(|()| self.room())
    }

    fn settled_part(&mut self, until: LanePlace) -> Option<Settled> {
        self.queue.settled_part(until)
    }

    fn progress(&self) -> u64 {
        self.queue.progress() + self.recoveries
    }

    fn finish(&mut self, now: Now) -> bool {
        self.now = now.monotonic;
        self.finishing_since.get_or_insert(now.monotonic);
        if self.problem.is_none() {
            self.problem = self.advance().err();
        }
        self.run.is_none()
    }

    fn wait(&mut self, progress: &Progress, seen: u64, patience: Duration) {
        if self.problem.is_some() || self.queue.has_settled() {
            return;
        }
        let Some(run) = &self.run else { return progress.wait(seen, patience) };
        self.alarm.reset();
        let waker = Waker::from(Arc::clone(&self.alarm));
        let mut changed = pin!(progress.changed(seen));
        if changed.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return;
        }
        let (mut fds, due) = run.waits(&self.queue, self.now);
        fds.push(PollFd::new(&self.alarm, PollFlags::IN));
        let until = Instant::now() + patience.min(due);
        let (mut look, mut unread) = (LOOK_MIN, 0);
        run.has_read_more(&mut unread);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let interval = if run.is_being_read() { look } else { left };
            // An error is an interrupted call, or no memory: the next step looks again.
            if poll(&mut fds, Some(&timespec(left.min(interval)))) != Ok(0) || left.is_zero() {
                return;
            }
            if run.has_read_more(&mut unread) {
                return;
            }
            look = (look * 2).min(LOOK_MAX);
        }
    }

    fn may_give_up(&self) -> bool {
        true
    }

    /// A run that has messages which will come again is ended by force.
    fn roll_back(&mut self) -> io::Result<()> {
        self.run = None;
        self.queue.clear();
        self.limit.forget_time();
        Ok(())
    }

    fn idle(&mut self) {
        self.queue.trim();
    }
}
