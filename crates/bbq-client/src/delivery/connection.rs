//! What a destination says on one connection: the hello, batches in their order, and when to leave. What is to be written goes out,
//! what the time is comes in. No socket, no clock, no thread.

use std::sync::Arc;
use std::time::Duration;

use bbq_wire::session::{AckLevel, Hello};

use crate::delivery::error::ConnectionError;
use crate::delivery::session::Session;
use crate::queue::Next;
use crate::shared::Shared;

/// The hello of a destination's next connection: its bytes. `Err`: there is none, the sender is closed.
pub(crate) fn hello(shared: &Shared, destination: usize) -> Result<Vec<u8>, ConnectionError> {
    let (stream, epoch) = shared.hello(destination)?;
    let options = &shared.options;
    let hello = Hello { stream, ack: options.ack, client: options.name.clone(), epoch };
    let mut frame = Vec::new();
    hello.encode(&mut frame);
    Ok(frame)
}

/// A server has acknowledged everything up to a number. `Err` is the end of the connection.
pub(crate) fn acknowledged(
    shared: &Shared,
    destination: usize,
    server: usize,
    session: &Session,
    number: u64,
) -> Result<(), ConnectionError> {
    shared.received_ack(destination, server, number).map_err(|problem| session.violation(&problem))
}

/// A connection whose server has welcomed the destination.
#[derive(Debug)]
pub(crate) struct Connection {
    destination: usize,
    /// What was acknowledged, and when that became so, or something was sent while nothing was on its way.
    progress: (u64, Duration),
}

/// What to do next.
pub enum Action {
    /// Write these bytes, and say so.
    Write(Arc<Vec<u8>>),
    /// Nothing: no record is in line.
    Idle,
    /// Nothing before an acknowledgement comes.
    AwaitAcknowledgement,
    /// Leave.
    Close(CloseReason),
}

/// How a connection ends well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Nothing is left to do.
    Finished,
    /// The preferred server takes over.
    PreferredIsBack,
    /// What is left is of another stream.
    NextStream,
}

impl Connection {
    /// Times are by any clock that does not jump, the same for all of a connection.
    pub(crate) fn new(destination: usize, now: Duration) -> Connection {
        Connection { destination, progress: (0, now) }
    }

    /// What is to be said. What it names may be written already when this returns.
    pub(crate) fn next(&self, shared: &Shared) -> Result<Action, ConnectionError> {
        match shared.queue.next(self.destination) {
            Next::Send(bytes, last) => {
                // Before a byte of it leaves.
                shared.sending(self.destination, last)?;
                Ok(Action::Write(bytes))
            }
            Next::Idle => Ok(Action::Idle),
            Next::Window => Ok(Action::AwaitAcknowledgement),
            Next::Reconnect => Err(ConnectionError::Transient("the connection ended".to_owned())),
            Next::OtherStream => Ok(Action::Close(CloseReason::NextStream)),
            Next::End => Ok(Action::Close(CloseReason::Finished)),
        }
    }

    /// What was to be written is.
    pub(crate) fn written(&self, shared: &Shared) {
        if shared.options.ack == AckLevel::None {
            shared.written(self.destination);
        }
    }

    /// Leaves a server that acknowledges nothing although something waits.
    pub(crate) fn check(&mut self, shared: &Shared, now: Duration) -> Result<(), ConnectionError> {
        let (acknowledged, awaits) = shared.queue.progress(self.destination);
        if acknowledged > self.progress.0 || !awaits {
            self.progress = (acknowledged, now);
        }
        let timeout = shared.options.delivery_timeout;
        if now.saturating_sub(self.progress.1) >= timeout {
            return Err(ConnectionError::Transient(format!("it has acknowledged nothing for {timeout:?}")));
        }
        Ok(())
    }
}
