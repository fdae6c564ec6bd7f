//! Tells whether a worker's thread comes back to its event loop: by its heartbeat, and by what the kernel says of a thread that
//! sleeps.
//!
//! One that a debugger holds, that waits for a disk, or whose processor a thread of a higher priority has, may have said that it
//! sleeps. But the kernel does not say so.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bbq_listen::Heartbeat;

/// The first fields of proc_pid_stat(5), up to the state: a number, a name of at most 15 bytes, and a letter.
const STAT_BYTES: usize = 64;

/// See the module. Made on the worker's thread.
#[derive(Debug)]
pub struct Liveness {
    heartbeat: Arc<Heartbeat>,
    /// What the kernel says of the thread. `None` without /proc: then a thread that says that it sleeps is believed.
    stat: Option<File>,
    /// The thread's id; `None` without /proc.
    thread: Option<u32>,
    seen: Mutex<Seen>,
}

/// What the last look at a thread saw that said that it sleeps, while the kernel did not.
#[derive(Debug, Default)]
struct Seen {
    beats: u64,
    since: Option<Instant>,
}

impl Liveness {
    pub(crate) fn of_this_thread() -> Self {
        Self {
            heartbeat: Heartbeat::of_this_thread(),
            stat: File::open("/proc/thread-self/stat").ok(),
            thread: thread_id(),
            seen: Mutex::default(),
        }
    }

    /// For how long the thread has not come back to its event loop, measured by the calls of this function; zero while it waits for
    /// events.
    pub(crate) fn away_for(&self) -> Duration {
        let beats = self.heartbeat.beats();
        let is_held = self.heartbeat.is_asleep() && !self.is_waiting();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_held {
            *seen = Seen::default();
            return self.heartbeat.running_for();
        }
        if seen.beats != beats {
            *seen = Seen { beats, since: None };
        }
        seen.since.get_or_insert_with(Instant::now).elapsed()
    }

    /// Whether the kernel has the thread wait for something that may come.
    fn is_waiting(&self) -> bool {
        self.state().is_none_or(|state| state == 'S')
    }

    /// The state of the thread, as proc_pid_stat(5) writes it; `None` if the system does not tell.
    pub fn state(&self) -> Option<char> {
        let mut start = [0; STAT_BYTES];
        let bytes = self.stat.as_ref()?.read_at(&mut start, 0).ok()?;
        // A name may have a parenthesis. Its last one is the last of what was read: numbers come behind it.
        let after_name = start[..bytes].iter().rposition(|&byte| byte == b')')?;
        start.get(after_name + 2).map(|state| char::from(*state))
    }

    /// The process that traces the thread, such as a debugger, if any does and the system tells.
    pub fn tracer(&self) -> Option<u32> {
        let thread = self.thread?;
        let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).ok()?;
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
        tracer.trim().parse().ok().filter(|pid| *pid != 0)
    }
}

/// The end of the link, `PID/task/TID`.
fn thread_id() -> Option<u32> {
    let link = fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}
