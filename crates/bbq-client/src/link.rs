//! What an outlet says on one connection: the hello, batches in their order, and when to leave. What is to be written goes out,
//! what the time is comes in. No socket, no clock, no thread.

use std::sync::Arc;
use std::time::Duration;

use bbq_wire::session::{AckLevel, Hello};

use crate::queue::Next;
use crate::session::{Heard, Session, Trouble};
use crate::shared::Shared;

/// The hello of an outlet's next connection: its bytes. `Err`: there is none, the sender is closed.
pub(crate) fn hello(shared: &Shared, outlet: usize) -> Result<Vec<u8>, Trouble> {
    let (stream, epoch) = shared.hello(outlet)?;
    let options = &shared.options;
    let hello = Hello { stream, ack: options.ack, client: options.name.clone(), epoch };
    let mut frame = Vec::new();
    hello.encode(&mut frame);
    Ok(frame)
}

/// What a server has said after its welcome; `Err` is the end of the connection.
pub(crate) fn heard(
    shared: &Shared,
    outlet: usize,
    server: usize,
    session: &Session,
    heard: &Heard,
) -> Result<(), Trouble> {
    match heard {
        Heard::Acknowledged(number) => {
            shared.claimed(outlet, server, *number).map_err(|problem| session.disbelieved(&problem))
        }
        Heard::Welcome(_) => Err(session.disbelieved("a second welcome came")),
    }
}

/// A connection whose server has welcomed the outlet.
#[derive(Debug)]
pub(crate) struct Link {
    outlet: usize,
    /// What was acknowledged, and when that became so, or something was sent while nothing was on its way.
    progress: (u64, Duration),
}

/// What to do next.
pub(crate) enum Say {
    /// Write these bytes, and say so.
    Write(Arc<Vec<u8>>),
    /// Nothing: no record is in line.
    Nothing,
    /// Nothing before an acknowledgement comes.
    NothingYet,
    /// Leave.
    Leave(Done),
}

/// How a connection ends well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing is left to do.
    End,
    /// The preferred server takes over.
    Preferred,
    /// What is left is of another stream.
    NextStream,
}

impl Link {
    /// Times are by any clock that does not jump, the same for all of a connection.
    pub(crate) fn new(outlet: usize, now: Duration) -> Link {
        Link { outlet, progress: (0, now) }
    }

    /// What is to be said. What it names may be written already when this returns.
    pub(crate) fn next(&self, shared: &Shared) -> Result<Say, Trouble> {
        match shared.queue.next(self.outlet) {
            Next::Send(bytes, last) => {
                // Before a byte of it leaves.
                shared.sending(self.outlet, last)?;
                Ok(Say::Write(bytes))
            }
            Next::Idle => Ok(Say::Nothing),
            Next::Window => Ok(Say::NothingYet),
            Next::Reconnect => Err(Trouble::Passing("the connection ended".to_owned())),
            Next::OtherStream => Ok(Say::Leave(Done::NextStream)),
            Next::End => Ok(Say::Leave(Done::End)),
        }
    }

    /// What was to be written is.
    pub(crate) fn written(&self, shared: &Shared) {
        if shared.options.ack == AckLevel::None {
            shared.written(self.outlet);
        }
    }

    /// Leaves a server that acknowledges nothing although something waits.
    pub(crate) fn check(&mut self, shared: &Shared, now: Duration) -> Result<(), Trouble> {
        let (acknowledged, awaits) = shared.queue.progress(self.outlet);
        if acknowledged > self.progress.0 || !awaits {
            self.progress = (acknowledged, now);
        }
        let timeout = shared.options.delivery_timeout;
        if now.saturating_sub(self.progress.1) >= timeout {
            return Err(Trouble::Passing(format!("it has acknowledged nothing for {timeout:?}")));
        }
        Ok(())
    }
}
