//! How a listener of `Group::run_tokio` learns of the stop, and how the run learns what became of the listener.
//!
//! Invariant: a listener counts as drained only when the stop was requested and nothing was queued after that.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::{mpsc, watch};

/// Rounds of the event loop that the last connections get before the server learns of the stop: enough that what has arrived on
/// them is read. hyper closes a connection that has shown no request.
const FIRST_ROUNDS: usize = 16;

type Requested = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// The listener's end of it.
pub(crate) struct Ending {
    /// Completes when the run is to stop; `None` once it has.
    requested: Option<Requested>,
    state: watch::Sender<State>,
    failed: mpsc::Sender<io::Error>,
    /// Each connection has a copy. `None` once the listener is drained.
    in_progress: Option<mpsc::Sender<Infallible>>,
}

/// The end of the run that waits for the worker.
pub(crate) struct Watched {
    /// Closed when the listener was dropped.
    pub(crate) state: watch::Receiver<State>,
    /// An error after which the listener can accept nothing.
    pub(crate) failure: mpsc::Receiver<io::Error>,
    /// Closed when the listener accepts no more and no connection is open.
    pub(crate) in_progress: mpsc::Receiver<Infallible>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct State {
    /// The stop was requested, and nothing is queued.
    pub(crate) drained: bool,
    /// The server was told of the stop, so it ends by itself.
    pub(crate) ends_by_itself: bool,
}

impl Ending {
    /// `stop` becomes true when the run is to stop.
    pub(crate) fn new(mut stop: watch::Receiver<bool>) -> (Self, Watched) {
        let requested: Requested = Box::pin(async move {
            // An error means that the run is over.
            let _ = stop.wait_for(|stop| *stop).await;
        });
        let (state, watched) = watch::channel(State::default());
        let (failed, failure) = mpsc::channel(1);
        let (in_progress, finished) = mpsc::channel(1);
        (
            Self { requested: Some(requested), state, failed, in_progress: Some(in_progress) },
            Watched { state: watched, failure, in_progress: finished },
        )
    }

    /// Ready when the listener has to look once more whether something is queued. Pending once it has found nothing.
    pub(crate) fn poll_final(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(requested) = &mut self.requested {
            ready!(requested.as_mut().poll(context));
            self.requested = None;
        }
        if self.in_progress.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The last look found nothing.
    pub(crate) fn drained(&mut self) {
        self.in_progress = None;
        self.state.send_modify(|state| state.drained = true);
    }

    /// For a connection that the run waits for.
    pub(crate) fn in_progress(&self) -> Option<mpsc::Sender<Infallible>> {
        self.in_progress.clone()
    }

    /// Ends the run of this worker with an error.
    #[cfg_attr(
        not(feature = "axum"),
        expect(dead_code, reason = "only axum's listener cannot return an error")
    )]
    pub(crate) fn fail(&self, error: io::Error) {
        // The first error is enough.
        let _ = self.failed.try_send(error);
    }

    /// Completes when the listener is drained or dropped. The server then ends by itself. Without a run it never completes.
    pub(crate) fn stopped(of_run: Option<&Self>) -> impl Future<Output = ()> + Send + use<> {
        let state = of_run.map(|ending| {
            ending.state.send_modify(|state| state.ends_by_itself = true);
            ending.state.subscribe()
        });
        async move {
            let Some(mut state) = state else { return pending().await };
            if state.wait_for(|state| state.drained).await.is_err() {
                return;
            }
            for _ in 0..FIRST_ROUNDS {
                tokio::task::yield_now().await;
            }
        }
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}
