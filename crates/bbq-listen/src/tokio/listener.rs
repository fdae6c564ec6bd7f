//! Accepts the connections of a worker on a tokio runtime, one at a time or in batches.
//!
//! It spawns nothing, reads nothing, and logs nothing.
//!
//! Invariant: a connection is passed to the caller on the thread that serves the worker.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use crate::tokio::counted_stream::{CountedStream, OpenConnection};
use crate::tokio::ending::Ending;
use crate::tokio::pace::Pace;
use crate::tokio::place::{Place, poll_place};
use crate::tokio::readiness::{Readiness, Ready};
use crate::{
    ACCEPTS_PER_BATCH_MAX, AcceptOutcome, AcceptState, Accepted, Acceptor, PeerAddress, Transport,
    WorkerListener,
};

/// Accepts the connections of one worker on the tokio runtime that it is made in: a `current_thread` one per worker, or one with
/// several threads.
///
/// The runtime needs its I/O and time drivers (`enable_all`). [`Group::run_tokio`](crate::Group::run_tokio) makes the runtimes
/// and the listeners.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{AsyncListener, Group};
///
/// let group = Group::at("127.0.0.1:7701")?.open()?;
/// group.run_tokio(async |mut listener: AsyncListener| {
///     let stopped = listener.stopped();
///     tokio::pin!(stopped);
///     loop {
///         tokio::select! {
///             accepted = listener.accept() => println!("{} has connected", accepted?.1),
///             () = &mut stopped => return Ok(()),
///         }
///     }
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncListener {
    readiness: Readiness,
    acceptor: Acceptor,
    pace: Pace,
    /// Connections accepted one by one since the listener last waited.
    in_a_row: usize,
    /// Only in a `run_tokio`.
    ending: Option<Ending>,
}

impl AsyncListener {
    /// Registers `worker_listener` with the current runtime, on whose thread it is served.
    ///
    /// In a runtime with several threads it is a listener of the task that serves it, which may move between them. A
    /// [`StallMonitor`](crate::StallMonitor) of the group then keeps the runtime's I/O going while other tasks block.
    pub fn new(worker_listener: WorkerListener) -> io::Result<Self> {
        let acceptor = Acceptor::of_task(worker_listener)?;
        Ok(Self {
            readiness: Readiness::new(acceptor.worker_listener())?,
            acceptor,
            pace: Pace::Ready,
            in_a_row: 0,
            ending: None,
        })
    }

    pub(crate) fn ending_by(worker_listener: WorkerListener, ending: Ending) -> io::Result<Self> {
        Ok(Self { ending: Some(ending), ..Self::new(worker_listener)? })
    }

    /// The worker it accepts for.
    pub fn worker_listener(&self) -> &WorkerListener {
        self.acceptor.worker_listener()
    }

    /// Where the group listens.
    ///
    /// # Errors
    /// If the group is not of tcp.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = self.worker_listener().address();
        address.socket_address().ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, only_tcp(self)))
    }

    /// Waits for a connection. Call it in a loop.
    ///
    /// The stream counts as open until it is dropped. When no descriptor is left, this waits until there is one. The future can be
    /// dropped at any time.
    ///
    /// While the server stops, it returns connections for a grace and then those that are queued, and waits forever:
    /// [`Group::run_tokio`](crate::Group::run_tokio), "Stop".
    ///
    /// One connection at a time costs a little more than [`accept_batch`](Self::accept_batch), most where workers share a socket.
    ///
    /// # Errors
    /// If another try cannot succeed, or if the group is not of tcp: [`into_any`](Self::into_any) has no such limit.
    pub async fn accept(&mut self) -> io::Result<(CountedStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// [`accept`](Self::accept) as a poll.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(CountedStream, SocketAddr)>> {
        if self.transport() != Transport::Tcp {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::Unsupported, only_tcp(self))));
        }
        self.poll_next(context, |stream, peer| {
            let stream = std::net::TcpStream::from(stream);
            let peer = peer.0.or_else(|| stream.peer_addr().ok())?;
            Some((TcpStream::from_std(stream), peer))
        })
    }

    pub(crate) fn transport(&self) -> Transport {
        self.worker_listener().address().transport()
    }

    /// The next connection that `register` takes. It returns `None` if the peer is gone, and an error if the kernel has no memory to
    /// register the connection: both are lost.
    pub(crate) fn poll_next<Stream, Peer>(
        &mut self,
        context: &mut Context<'_>,
        register: impl Fn(OwnedFd, PeerAddress) -> Option<(io::Result<Stream>, Peer)>,
    ) -> Poll<io::Result<(CountedStream<Stream>, Peer)>> {
        loop {
            ready!(self.pace.poll_keep(context));
            let mut next = None;
            let outcome = match poll_place(&self.readiness, &mut self.ending, context)? {
                Poll::Ready(place) => {
                    accept_at(&self.acceptor, &mut self.ending, place, 1, &mut |accepted| {
                        next = Some(accepted)
                    })?
                }
                Poll::Pending => {
                    self.in_a_row = 0;
                    return Poll::Pending;
                }
            };
            match outcome.state {
                AcceptState::Drained => {}
                AcceptState::More => {
                    self.in_a_row += 1;
                    if self.in_a_row == ACCEPTS_PER_BATCH_MAX {
                        self.in_a_row = 0;
                        self.pace = Pace::Yield;
                    }
                }
                AcceptState::Starved(_) => self.pace = Pace::paused(),
            }
            let Some(Accepted { stream, peer, open }) = next else { continue };
            match register(stream, peer) {
                Some((Ok(stream), peer)) => {
                    let count = open.unwrap_or_else(|| self.worker_listener().open_one());
                    let in_progress = self.ending.as_ref().map(Ending::in_progress);
                    let counted = CountedStream::new(stream, OpenConnection::new(count, in_progress));
                    return Poll::Ready(Ok((counted, peer)));
                }
                Some((Err(_), _)) => self.pace = Pace::paused(),
                None => {}
            }
        }
    }

    /// Completes when the server stops and has to close idle connections: this listener has returned every connection that was
    /// queued, and their clients have had time for a first request ([`TokioRunner::first_byte_grace`](crate::TokioRunner::first_byte_grace)).
    /// It does not wait for that time when all connections have ended. Of connections accepted in batches, the listener does not
    /// know whether they have. It also completes when the listener was dropped.
    ///
    /// A server that calls this ends by itself: [`Group::run_tokio`](crate::Group::run_tokio) waits for its future, as long as a
    /// stop may take. Of a listener that no `run_tokio` made, it never completes.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        Ending::stopped(self.ending.as_ref())
    }

    /// Tells whether the server was told to stop, some time before [`stopped`](Self::stopped) completes. It costs a look at an atomic.
    ///
    /// A server that closes each connection after its next answer from then on, and says so in the answer, loses no request of clients that
    /// ask one after the other: for HTTP/1.1 by the header `Connection: close`. Otherwise their next request may be on its way when `stopped`
    /// completes and the connection is closed as idle. `serve_axum` does that.
    pub fn stopping(&self) -> impl Fn() -> bool + Clone + Send + Sync + use<> {
        Ending::stopping(self.ending.as_ref())
    }

    /// Ends the run of the worker with an error that the server cannot return.
    #[cfg(feature = "axum")]
    pub(crate) fn fail(&self, error: io::Error) {
        if let Some(ending) = &self.ending {
            ending.fail(error);
        }
    }

    /// Waits for connections, accepts a batch of at most `limit` (and [`ACCEPTS_PER_BATCH_MAX`]), and
    /// calls `f` for each. Call it in a loop.
    ///
    /// Read each connection in `f` or right after: mostly its first bytes have arrived, and often its last. Register with the
    /// runtime only those that would block. Between two batches the other tasks of the runtime run.
    /// After [`AcceptState::Starved`] the next batch first waits [`STARVED_PAUSE`](crate::STARVED_PAUSE).
    ///
    /// A batch may be empty if another worker was faster. The future can be dropped at any time.
    ///
    /// # Errors
    /// If another try cannot succeed.
    pub async fn accept_batch(&mut self, limit: usize, f: impl FnMut(Accepted)) -> io::Result<AcceptOutcome> {
        self.accept_batch_within(|| limit, f).await
    }

    /// As [`accept_batch`](Self::accept_batch), but `limit` is called right before connections are accepted: for a budget that is
    /// shared with others. It is called at most once, and the future does not wait after it.
    ///
    /// # Errors
    /// As [`accept_batch`](Self::accept_batch).
    pub async fn accept_batch_within(
        &mut self,
        limit: impl FnOnce() -> usize,
        mut f: impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.pace.keep().await;
        let (readiness, ending) = (&self.readiness, &mut self.ending);
        let place = poll_fn(|context| poll_place(readiness, ending, context)).await?;
        let outcome = accept_at(&self.acceptor, ending, place, limit(), &mut f)?;
        if outcome.accepted > 0
            && let Some(ending) = ending
        {
            ending.accepted_batch();
        }
        match outcome.state {
            AcceptState::Drained => {}
            AcceptState::More => self.pace = Pace::Yield,
            AcceptState::Starved(_) => self.pace = Pace::paused(),
        }
        Ok(outcome)
    }

    /// As [`accept_batch`](Self::accept_batch), without waiting: for a server that stops, and only accepts what is queued. Let the
    /// other tasks of the runtime run between two calls.
    ///
    /// # Errors
    /// As [`accept_batch`](Self::accept_batch).
    pub fn try_accept_batch(
        &mut self,
        limit: usize,
        mut f: impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.acceptor.accept_batch(limit, &mut f)
    }

    /// As [`try_accept_batch`](Self::try_accept_batch), but takes only connections that other workers, or the acceptor thread of a
    /// `handoff`, have accepted for this one. For a worker that ends while its sockets stay open: what is queued in the kernel waits
    /// for the next one, and these connections do not.
    ///
    /// # Errors
    /// As [`accept_batch`](Self::accept_batch).
    pub fn try_accept_given(
        &mut self,
        limit: usize,
        mut f: impl FnMut(Accepted),
    ) -> io::Result<AcceptOutcome> {
        self.acceptor.accept_given(limit, &mut f)
    }
}

/// Accepts a batch, and clears the readiness if nothing is left.
fn accept_at(
    acceptor: &Acceptor,
    ending: &mut Option<Ending>,
    place: Place<'_>,
    limit: usize,
    f: &mut impl FnMut(Accepted),
) -> io::Result<AcceptOutcome> {
    let (outcome, guard) = match place {
        Place::Ready(Ready::Own(guard)) => (acceptor.accept_own(limit, f)?, Some(guard)),
        Place::Ready(Ready::EpollSet(guard)) => (acceptor.accept_shared(limit, f)?, Some(guard)),
        Place::FinalPoll => (acceptor.accept_anywhere(limit, f)?, None),
    };
    if outcome.state == AcceptState::Drained {
        match (guard, ending) {
            (Some(mut guard), _) => guard.clear_ready(),
            (None, Some(ending)) => ending.drained(),
            (None, None) => {}
        }
    }
    Ok(outcome)
}

fn only_tcp(listener: &AsyncListener) -> String {
    format!(
        "{} is not of tcp: accept its connections by `into_any().accept()`, `into_unix()?.accept()` or accept_batch",
        listener.worker_listener().address()
    )
}
