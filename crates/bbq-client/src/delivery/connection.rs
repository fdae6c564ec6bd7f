//! The sending side of one connection: which batch is written next, and when the connection ends. No socket, no clock, no thread.

use std::sync::Arc;
use std::time::Duration;

use crate::delivery::error::ConnectionError;
use crate::queue::Next;
use crate::shared::Shared;

/// A connection whose server has welcomed the destination.
#[derive(Debug)]
pub(crate) struct Connection {
    destination: usize,
    /// The last acknowledged record when progress was last seen.
    acknowledged: u64,
    /// When progress was last seen, or nothing was in flight.
    progress_at: Duration,
}

/// What to do next.
pub enum Action {
    /// Write these bytes.
    Write(Arc<Vec<u8>>),
    /// No record is queued.
    Idle,
    /// The window is full: wait for an acknowledgement.
    AwaitAcknowledgement,
    /// Close the connection.
    Close(CloseReason),
}

/// Why a connection ends without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Nothing is left to send.
    Finished,
    /// The preferred server is reachable again.
    PreferredIsBack,
    /// The remaining records belong to another stream.
    NextStream,
}

impl Connection {
    /// All times of a connection are from the same clock, which does not jump.
    pub(crate) fn new(destination: usize, now: Duration) -> Connection {
        Connection { destination, acknowledged: 0, progress_at: now }
    }

    /// The next action. The batch of a `Write` counts as sent once this returns.
    pub(crate) fn next(&self, shared: &Shared) -> Result<Action, ConnectionError> {
        let next = loop {
            match shared.queue.next(self.destination) {
                Next::GaveUp(records) => shared.gave_up(self.destination, records),
                next => break next,
            }
        };
        match next {
            Next::Send(bytes, last) => {
                shared.sending(self.destination, last)?;
                Ok(Action::Write(bytes))
            }
            Next::Idle => Ok(Action::Idle),
            Next::Window => Ok(Action::AwaitAcknowledgement),
            Next::Reconnect => Err(ConnectionError::Transient("the connection ended".to_owned())),
            Next::OtherStream => Ok(Action::Close(CloseReason::NextStream)),
            Next::GaveUp(_) | Next::End => Ok(Action::Close(CloseReason::Finished)),
        }
    }

    /// Fails if the server has acknowledged nothing for the delivery time-out although something is in flight.
    pub(crate) fn check(&mut self, shared: &Shared, now: Duration) -> Result<(), ConnectionError> {
        let (acknowledged, is_in_flight) = shared.queue.progress(self.destination);
        if acknowledged > self.acknowledged || !is_in_flight {
            (self.acknowledged, self.progress_at) = (acknowledged, now);
        }
        let timeout = shared.options.delivery_timeout;
        if now.saturating_sub(self.progress_at) >= timeout {
            return Err(ConnectionError::Transient(format!("it has acknowledged nothing for {timeout:?}")));
        }
        Ok(())
    }
}
