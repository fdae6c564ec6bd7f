//! A seat's datagrams on a tokio runtime.
//!
//! It receives and hands over; it keeps nothing, answers nothing, and logs nothing.
//!
//! Invariant: a datagram is handed over on the thread that serves the seat.

use std::io;

use crate::tokio::entrance::{Entrance, Ready};
use crate::tokio::pace::Pace;
use crate::{
    DATAGRAM_BYTES_MAX, DATAGRAMS_PER_CALL, Datagram, OUTBOX_DATAGRAMS_MAX, ReceiveOutcome, ReceiveState,
    Receiver, Seat,
};

/// Calls of `recvmmsg` before the worker looks at anything else: 256 datagrams, some 200 us of reading and answering. The
/// more of them, the more of their answers go to one peer and share their way through the kernel.
pub const RECEIVES_PER_TURN_MAX: usize = 8;
const _: () = assert!(RECEIVES_PER_TURN_MAX * DATAGRAMS_PER_CALL <= OUTBOX_DATAGRAMS_MAX);

/// Receives the datagrams of one seat on the tokio runtime that it is made in, best a `current_thread` one per worker.
///
/// The runtime needs its I/O and time drivers (`enable_all`).
#[derive(Debug)]
pub struct AsyncDatagrams {
    entrance: Entrance,
    receiver: Receiver,
    pace: Pace,
}

impl AsyncDatagrams {
    /// Registers the socket of `seat` with the current runtime, with room for datagrams of [`DATAGRAM_BYTES_MAX`]: 2 MiB
    /// in all.
    pub fn new(seat: Seat) -> io::Result<Self> {
        Self::with_datagram_bytes_max(seat, DATAGRAM_BYTES_MAX)
    }

    /// The same, with room for datagrams of `datagram_bytes_max`, at most [`DATAGRAM_BYTES_MAX`]; longer ones are cut.
    pub fn with_datagram_bytes_max(seat: Seat, datagram_bytes_max: usize) -> io::Result<Self> {
        let entrance = Entrance::new(&seat)?;
        Ok(Self { entrance, receiver: Receiver::new(seat, datagram_bytes_max)?, pace: Pace::Ready })
    }

    /// The seat it receives for.
    pub fn seat(&self) -> &Seat {
        self.receiver.seat()
    }

    /// Waits until a datagram waits, receives what is there, at most [`RECEIVES_PER_TURN_MAX`] full batches, and hands
    /// each datagram to `f`. Call it in a loop. Between two turns the other tasks of the runtime run. After
    /// [`ReceiveState::Starved`] the next turn first waits [`STARVED_PAUSE`](crate::STARVED_PAUSE).
    ///
    /// A turn may find that another worker was quicker and receive none. Dropping the future before
    /// it is ready loses nothing.
    ///
    /// # Errors
    /// Only what another turn will not mend. What was received before has been handed over.
    pub async fn turn(&mut self, mut f: impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        self.pace.keep().await;
        let receiver = &mut self.receiver;
        let (total, mut guard) = match self.entrance.ready().await? {
            Ready::Own(guard) => (receive_batches(|| receiver.receive_own(&mut f))?, guard),
            Ready::Door(guard) => (receive_batches(|| receiver.receive_common(&mut f))?, guard),
        };
        match total.state {
            ReceiveState::Drained => guard.clear_ready(),
            ReceiveState::More => self.pace = Pace::Yield,
            ReceiveState::Starved(_) => self.pace = Pace::paused(),
        }
        Ok(total)
    }

    /// Receives of what waits already as much as one [`turn`](Self::turn), and waits for nothing: for the end, when the
    /// rest is to be taken and no more. Let the other tasks of the runtime run between two calls.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub fn turn_now(&mut self, mut f: impl FnMut(Datagram<'_>)) -> io::Result<ReceiveOutcome> {
        receive_batches(|| self.receiver.receive_batch(&mut f))
    }
}

fn receive_batches(mut receive: impl FnMut() -> io::Result<ReceiveOutcome>) -> io::Result<ReceiveOutcome> {
    let mut total = ReceiveOutcome { received: 0, truncated: 0, state: ReceiveState::More };
    for _ in 0..RECEIVES_PER_TURN_MAX {
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
