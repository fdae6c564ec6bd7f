//! Standard error behind a queue, for the log of a server: a thread that logs never waits for a reader of the log. Without the queue a
//! full pipe would stop lanes and control.
//!
//! Invariant: the queue holds [`QUEUE_BYTES_MAX`] at most. What has no room is dropped, and the log says how many lines.

use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Some thousand lines: more than a server logs while its log's reader is busy.
const QUEUE_BYTES_MAX: usize = 1024 * 1024;
/// How long the end of the program waits for a reader of what is queued.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// See the module. All clones are the same queue.
#[derive(Clone, Default)]
pub(crate) struct LogQueue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    moved: Condvar,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    /// Lines that had no room.
    dropped: u64,
    /// The thread writes what it has taken.
    is_writing: bool,
    /// There is no thread: every line is written at once.
    is_direct: bool,
}

impl LogQueue {
    /// Starts the thread that writes. Where no thread can be made, lines are written at once.
    pub(crate) fn start() -> LogQueue {
        let queue = LogQueue::default();
        let shared = Arc::clone(&queue.shared);
        if thread::Builder::new().name("log".to_owned()).spawn(move || shared.run()).is_err() {
            queue.shared.locked().is_direct = true;
        }
        queue
    }

    /// Waits until everything is written, but not for a reader that takes nothing. Returns whether it is.
    pub(crate) fn finish(&self) -> bool {
        let queue = self.shared.locked();
        let busy = |queue: &mut Queue| queue.is_writing || !queue.bytes.is_empty() || queue.dropped > 0;
        let waited = self.shared.moved.wait_timeout_while(queue, END_PATIENCE, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Shared {
    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) -> ! {
        let mut taken = Vec::new();
        let mut queue = self.locked();
        loop {
            let is_idle = |queue: &mut Queue| queue.bytes.is_empty() && queue.dropped == 0;
            queue = self.moved.wait_while(queue, is_idle).unwrap_or_else(PoisonError::into_inner);
            taken.clear();
            std::mem::swap(&mut taken, &mut queue.bytes);
            let dropped = std::mem::take(&mut queue.dropped);
            queue.is_writing = true;
            drop(queue);
            if dropped > 0 {
                taken.extend_from_slice(
                    format!(
                        "bbq: {dropped} lines of the log were dropped, because no process read the log\n"
                    )
                    .as_bytes(),
                );
            }
            // A closed standard error is nobody's fault here.
            let _closed = io::stderr().write_all(&taken);
            queue = self.locked();
            queue.is_writing = false;
            self.moved.notify_all();
        }
    }
}

/// Takes a line, which comes in one call.
impl io::Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.shared.locked();
        if queue.is_direct {
            drop(queue);
            return io::stderr().write(line);
        }
        if queue.dropped > 0 || queue.bytes.len() + line.len() > QUEUE_BYTES_MAX {
            queue.dropped += 1;
        } else {
            queue.bytes.extend_from_slice(line);
        }
        self.shared.moved.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
