//! The thread of the tail. It sleeps while nobody looks on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use bbq_spec::threads::{ThreadError, spawn};
use hyper::body::Bytes;
use tokio::sync::{Notify, mpsc, watch};

use super::body::TailBody;
use super::place::Place;
use super::query::TailQuery;
use super::time_share::TimeShare;
use super::viewer::{PIECES_MAX, Viewer};
use crate::parts::Parts;

/// Viewers at the same time: some people, each with a window or two.
pub(crate) const VIEWERS_MAX: usize = 8;
/// Time between two looks at the lanes: a message is seen this much later.
const ROUND: Duration = Duration::from_millis(50);
/// Of a processor, for all viewers that follow the newest messages.
const NEWEST_SHARE: f64 = 0.015;
/// What may be saved of it: a burst after silence is shown as a whole.
const NEWEST_MOST: Duration = Duration::from_millis(15);
/// The same for viewers that read what there is.
const BEHIND_SHARE: f64 = 0.15;
const BEHIND_MOST: Duration = Duration::from_millis(20);
/// How long the end of the thread is waited for: a costly pattern may keep it, and the process does not need its end.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// For the admin's routes.
#[derive(Clone)]
pub(crate) struct Tails {
    taken: Arc<AtomicUsize>,
    new: SyncSender<New>,
    times_ended: Arc<AtomicU64>,
}

struct New {
    query: TailQuery,
    parts: watch::Receiver<Arc<Parts>>,
    pieces: mpsc::Sender<Bytes>,
    place: Place,
    /// How often all viewers had been ended when it came.
    came: u64,
}

/// The thread. It ends when every [`Tails`] is gone.
pub(crate) struct TailThread {
    /// Closed when the thread has ended.
    ended: Receiver<()>,
    /// How often all viewers were ended.
    times_ended: Arc<AtomicU64>,
}

impl TailThread {
    /// # Errors
    /// The thread cannot be made.
    pub(crate) fn start() -> Result<(TailThread, Tails), ThreadError> {
        let (new, news) = sync_channel(VIEWERS_MAX);
        let (end, ended) = sync_channel::<()>(0);
        let times_ended = Arc::<AtomicU64>::default();
        let of_thread = Arc::clone(&times_ended);
        let _detached = spawn("admin-tail".to_owned(), move || {
            let _end = end;
            work(&news, &of_thread);
        })?;
        let tails = Tails { taken: Arc::default(), new, times_ended: Arc::clone(&times_ended) };
        Ok((TailThread { ended, times_ended }, tails))
    }

    /// Ends every viewer: who may look on has changed.
    pub(crate) fn end_viewers(&self) {
        self.times_ended.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits for the end of the thread, not for long.
    pub(crate) fn join(self) {
        // Nothing is sent. A panic was logged.
        let _ended = self.ended.recv_timeout(END_PATIENCE);
    }
}

impl Tails {
    /// Begins to show messages. `ended` is notified when the viewer is given up. `None` when there are too many viewers.
    pub(crate) fn begin(
        &self,
        query: TailQuery,
        parts: watch::Receiver<Arc<Parts>>,
        ended: Arc<Notify>,
    ) -> Option<TailBody> {
        let place = Place::take(&self.taken, VIEWERS_MAX, ended)?;
        let (pieces, body) = mpsc::channel(PIECES_MAX);
        let came = self.times_ended.load(Ordering::Acquire);
        self.new.try_send(New { query, parts, pieces, place, came }).ok()?;
        Some(TailBody(body))
    }
}

struct Watching {
    viewer: Viewer,
    came: u64,
    parts: watch::Receiver<Arc<Parts>>,
}

fn work(news: &Receiver<New>, times_ended: &AtomicU64) {
    let mut watching: Vec<Watching> = Vec::new();
    let mut newest = TimeShare::new(NEWEST_SHARE, NEWEST_MOST);
    let mut behind = TimeShare::new(BEHIND_SHARE, BEHIND_MOST);
    let mut before = Instant::now();
    loop {
        let new = match watching.is_empty() {
            true => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => news.recv_timeout(ROUND),
        };
        match new {
            Ok(new) => {
                let spool = Arc::clone(&new.parts.borrow().spool);
                let viewer = Viewer::new(new.query, &spool, new.pieces, new.place);
                watching.push(Watching { viewer, came: new.came, parts: new.parts });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        let elapsed = now.saturating_duration_since(before);
        before = now;
        newest.pass(elapsed);
        behind.pass(elapsed);
        let times_ended = times_ended.load(Ordering::Acquire);
        watching.retain(|watching| watching.came == times_ended && !watching.viewer.is_over(now));
        let count = u32::try_from(watching.len()).unwrap_or(u32::MAX).max(1);
        for Watching { viewer, parts, .. } in &mut watching {
            // Not kept: the parts of a start end with the start.
            let spool = Arc::clone(&parts.borrow().spool);
            viewer.follow(&spool);
            drop(spool);
            let share = if viewer.is_behind() { &mut behind } else { &mut newest };
            let begun = Instant::now();
            viewer.work(elapsed, begun + share.saved() / count);
            share.spend(begun.elapsed());
        }
    }
}
