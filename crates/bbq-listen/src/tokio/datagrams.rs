//! Receives the datagrams of a worker on a tokio runtime.
//!
//! It sends nothing, and logs nothing.
//!
//! Invariant: a datagram is passed to the caller on the thread that serves the worker.

use std::future::poll_fn;
use std::io;

use crate::tokio::ending::Ending;
use crate::tokio::pace::Pace;
use crate::tokio::place::{Place, poll_place};
use crate::tokio::readiness::{Readiness, Ready};
use crate::{
    DATAGRAM_BYTES_MAX, DATAGRAMS_PER_CALL, Datagram, ReceiveOutcome, ReceiveState, Receiver,
    SEND_BATCH_DATAGRAMS_MAX, WorkerListener,
};

/// Calls of `recvmmsg` before the worker does anything else: 256 datagrams, about 200 us of work. The more datagrams, the more of
/// their replies go to the same peer and can be sent together.
pub const RECEIVE_CALLS_PER_BATCH_MAX: usize = 8;
const _: () = assert!(RECEIVE_CALLS_PER_BATCH_MAX * DATAGRAMS_PER_CALL <= SEND_BATCH_DATAGRAMS_MAX);

/// Receives the datagrams of one worker on the tokio runtime that it is made in, best a `current_thread` one per worker.
///
/// The runtime needs its I/O and time drivers (`enable_all`). [`Group::run_tokio_datagrams`](crate::Group::run_tokio_datagrams)
/// makes the runtimes and the receivers.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{AsyncDatagrams, Group};
///
/// let group = Group::at("udp://127.0.0.1:7702")?.open()?;
/// group.run_tokio_datagrams(async |mut datagrams: AsyncDatagrams| {
///     loop {
///         let outcome = datagrams.receive_batch(|datagram| println!("from {}", datagram.peer)).await?;
///         println!("{} together", outcome.received);
///     }
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AsyncDatagrams {
    readiness: Readiness,
    receiver: Receiver,
    pace: Pace,
    /// Only in a `run_tokio_datagrams`.
    ending: Option<Ending>,
}

impl AsyncDatagrams {
    /// Registers the socket of `worker_listener` with the current runtime, with room for datagrams of [`DATAGRAM_BYTES_MAX`]: 2 MiB
    /// in all.
    pub fn new(worker_listener: WorkerListener) -> io::Result<Self> {
        Self::with_datagram_bytes_max(worker_listener, DATAGRAM_BYTES_MAX)
    }

    /// The same, with room for datagrams of `datagram_bytes_max`, as [`Receiver::new`] takes it; longer ones are cut.
    pub fn with_datagram_bytes_max(
        worker_listener: WorkerListener,
        datagram_bytes_max: usize,
    ) -> io::Result<Self> {
        let receiver = Receiver::of_task(worker_listener, datagram_bytes_max)?;
        Ok(Self {
            readiness: Readiness::new(receiver.worker_listener())?,
            receiver,
            pace: Pace::Ready,
            ending: None,
        })
    }

    pub(crate) fn ending_by(worker_listener: WorkerListener, ending: Ending) -> io::Result<Self> {
        Ok(Self { ending: Some(ending), ..Self::new(worker_listener)? })
    }

    /// The worker it receives for.
    pub fn worker_listener(&self) -> &WorkerListener {
        self.receiver.worker_listener()
    }

    /// Waits for datagrams, receives at most [`RECEIVE_CALLS_PER_BATCH_MAX`] full batches, and calls `f` for each datagram. Call
    /// it in a loop. Between two batches the other tasks of the runtime run. After [`ReceiveState::Starved`] the next batch first
    /// waits [`STARVED_PAUSE`](crate::STARVED_PAUSE).
    ///
    /// A batch may be empty if another worker was faster. The future can be dropped at any time.
    ///
    /// While the server stops, it receives what is queued, and then waits forever: [`stopped`](Self::stopped) tells.
    ///
    /// # Errors
    /// If another try cannot succeed. `f` was called for what was received before.
    pub async fn receive_batch(&mut self, mut f: impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        let (total, guard) = loop {
            self.pace.keep().await;
            let (readiness, ending, receiver) = (&self.readiness, &mut self.ending, &mut self.receiver);
            match poll_fn(|context| poll_place(readiness, ending, context)).await? {
                Place::Ready(Ready::Own(guard)) => {
                    break (receive_batches(|| receiver.receive_own(&mut f))?, Some(guard));
                }
                Place::Ready(Ready::EpollSet(guard)) => {
                    break (receive_batches(|| receiver.receive_shared(&mut f))?, Some(guard));
                }
                Place::FinalPoll => {
                    let total = receive_batches(|| receiver.receive_anywhere(&mut f))?;
                    match (total.received, total.state, ending) {
                        // The server has come back for more, so it has done with what it received before.
                        (0, ReceiveState::Drained, Some(ending)) => ending.drained(),
                        _ => break (total, None),
                    }
                }
            }
        };
        match total.state {
            ReceiveState::Drained => {
                if let Some(mut guard) = guard {
                    guard.clear_ready();
                }
            }
            ReceiveState::More => self.pace = Pace::Yield,
            ReceiveState::Starved(_) => self.pace = Pace::paused(),
        }
        Ok(total)
    }

    /// As [`receive_batch`](Self::receive_batch), without waiting: for a server that stops, and only receives what is queued. Let
    /// the other tasks of the runtime run between two calls.
    ///
    /// # Errors
    /// As [`receive_batch`](Self::receive_batch).
    pub fn try_receive_batch(&mut self, mut f: impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        receive_batches(|| self.receiver.receive_batch(&mut f))
    }

    /// Completes when the server stops and this receiver has passed on what was queued, or when it was dropped. As
    /// [`AsyncListener::stopped`](crate::AsyncListener::stopped), for [`Group::run_tokio_datagrams`](crate::Group::run_tokio_datagrams).
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        Ending::stopped(self.ending.as_ref())
    }

    /// Ends it, and hands to `f` what other workers have handed on to this one: [`Receiver::finish`].
    pub fn finish(self, f: impl FnMut(Datagram<'_>)) -> usize {
        self.receiver.finish(f)
    }
}

fn receive_batches(mut receive: impl FnMut() -> io::Result<ReceiveOutcome>) -> io::Result<ReceiveOutcome> {
    let mut total = ReceiveOutcome { received: 0, truncated: 0, state: ReceiveState::More };
    for _ in 0..RECEIVE_CALLS_PER_BATCH_MAX {
        let batch = receive()?;
        total.received += batch.received;
        total.truncated += batch.truncated;
        total.state = batch.state;
        if batch.state != ReceiveState::More {
            break;
        }
    }
    Ok(total)
}
