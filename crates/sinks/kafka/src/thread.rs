//! The thread on which a sink calls librdkafka, whose calls wait.
//!
//! Invariant: nobody waits for a call. When its sink is closed, the thread is waited for a moment; if a call takes longer, the thread
//! ends after it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bbq_sink::Problem;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::link::KafkaLink;

/// How long the end of the thread is waited for: librdkafka looks every 100 ms whether it is to go on.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// What the thread does for a link.
pub(super) type Serve = fn(&mut KafkaLink, &Call<'_>) -> Problem;

/// A link that is to be served, and who waits for its end.
pub(super) struct Work {
    pub(super) link: KafkaLink,
    pub(super) serve: Serve,
    pub(super) reply: oneshot::Sender<(KafkaLink, Problem)>,
}

/// What a link is served with.
pub(super) struct Call<'a> {
    /// To wait for groups with.
    pub(super) runtime: &'a Runtime,
    desk: &'a Desk,
    reply: &'a oneshot::Sender<(KafkaLink, Problem)>,
}

/// Where work is handed over. A later link replaces one that the driver has given up.
#[derive(Default)]
pub(super) struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    work: Option<Work>,
    has_ended: bool,
}

/// See the module.
pub(super) struct KafkaThread {
    desk: Arc<Desk>,
    /// Closed when the thread has ended.
    ended: Receiver<()>,
}

impl Call<'_> {
    /// Whether the driver does not want the link any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.reply.is_closed() || self.desk.state().has_ended
    }

    /// Waits for so long, or until the thread is to end.
    pub(super) fn pause(&self, pause: Duration) {
        let state = self.desk.state();
        let _either = self.desk.changed.wait_timeout_while(state, pause, |state| !state.has_ended);
    }
}

impl Desk {
    pub(super) fn put(&self, work: Work) {
        // What is replaced has nobody who waits for it. It is dropped outside of the lock.
        let _replaced = self.state().work.replace(work);
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Work> {
        let mut state = self.state();
        loop {
            if state.has_ended {
                return None;
            }
            if let Some(work) = state.work.take() {
                return Some(work);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KafkaThread {
    /// # Errors
    /// The system cannot start a thread; try again.
    pub(super) fn start() -> io::Result<KafkaThread> {
        let desk = Arc::new(Desk::default());
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (end, ended) = sync_channel(0);
        let desk_of_thread = Arc::clone(&desk);
        let work = move || {
            let _end = end;
            work(&desk_of_thread, &runtime);
        };
        let thread = thread::Builder::new().name("kafka".to_owned()).spawn(work);
        thread.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot start the thread for librdkafka: {error}"))
        })?;
        Ok(KafkaThread { desk, ended })
    }

    pub(super) fn desk(&self) -> Arc<Desk> {
        Arc::clone(&self.desk)
    }
}

impl Drop for KafkaThread {
    fn drop(&mut self) {
        self.desk.state().has_ended = true;
        self.desk.changed.notify_one();
        if self.ended.recv_timeout(END_PATIENCE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("librdkafka takes long to end; its threads end later");
        }
    }
}

fn work(desk: &Desk, runtime: &Runtime) {
    while let Some(Work { mut link, serve, reply }) = desk.take() {
        let call = Call { runtime, desk, reply: &reply };
        // rdkafka panics when the system cannot start a thread.
        let served = catch_unwind(AssertUnwindSafe(|| serve(&mut link, &call)));
        let problem = served.unwrap_or_else(|_| {
            let sink = &link.settings.shown;
            Problem::Retry(io::Error::other(format!(
                "{sink}: librdkafka could not be called; see the panic in the log"
            )))
        });
        // An error means that nobody waits.
        let _given_up = reply.send((link, problem));
    }
}
