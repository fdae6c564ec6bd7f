//! A sender without sockets, threads and waiting, for the simulation that runs it on a simulated disk and network: the same intake,
//! queue, spool, numbering and link, whose steps somebody else takes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bbq_wire::StreamId;

pub use crate::delivery::connection::{Action, CloseReason};
pub use crate::delivery::failover::Retry;
pub use crate::environment::{Boot, Environment};
pub use crate::spool::Sizes;

use crate::delivery::connection::{self, Connection};
use crate::delivery::error::ConnectionError;
use crate::delivery::failover::Failover;
use crate::delivery::session::Session;
use crate::shared::Shared;
use crate::{Counters, SendError, SenderBuilder, StartError};

/// A sender with one destination.
pub struct Client {
    shared: Shared,
    failover: Failover,
    attempt: Option<Attempt>,
}

/// A connection from its hello to its end.
struct Attempt {
    session: Session,
    /// Once the server has welcomed it.
    connection: Option<Connection>,
    /// The last number that the server has named.
    last_heard: Option<u64>,
}

/// Why a connection was of no use.
#[derive(Debug)]
pub struct Cause(ConnectionError);

impl Cause {
    /// What is not expected of a server that works: not a broken connection, and not a refusal that asks to come again.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        match &self.0 {
            ConnectionError::Transient(_) => None,
            ConnectionError::Refused(error, _)
            | ConnectionError::Protocol(error)
            | ConnectionError::Lasting(error)
            | ConnectionError::Fatal(error) => Some(error.to_string()),
        }
    }
}

/// What a server calls records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The stream.
    pub stream: StreamId,
    /// Record n is number n - base.
    pub base: u64,
    /// The last record of the stream.
    pub until: u64,
}

impl Client {
    /// Opens it on whatever its spool has. Options are not checked; one server must be named.
    ///
    /// # Errors
    /// The spool cannot be opened.
    pub fn open(
        options: SenderBuilder,
        environment: Arc<dyn Environment>,
        sizes: Sizes,
    ) -> Result<Client, StartError> {
        let shared = Shared::open(options.options, environment, sizes)?;
        let failover = Failover::new(shared.options.servers.len());
        Ok(Client { shared, failover, attempt: None })
    }

    /// As the application's `send`; never waits if [`crate::OnFull`] does not.
    ///
    /// # Errors
    /// As [`crate::Sender::send`].
    pub fn send(&self, record: &[u8]) -> Result<(), SendError> {
        self.shared.intake.push(&self.shared.queue, record)
    }

    /// Puts what was sent in line, as the sender's thread does when it has nothing to do.
    pub fn collect(&self) {
        self.shared.queue.warm();
        self.shared.intake.collect(&self.shared.queue);
    }

    /// Begins a connection; returns its hello.
    ///
    /// # Errors
    /// What ends it before it is made.
    pub fn connect(&mut self) -> Result<Vec<u8>, Cause> {
        let destination = &self.shared.destinations[0];
        self.failover.begin(destination, &self.shared);
        let session = Session::new(destination.address(self.failover.server()).to_string());
        self.attempt = Some(Attempt { session, connection: None, last_heard: None });
        connection::hello(&self.shared, 0).map_err(Cause)
    }

    /// Whether a server has welcomed the connection that it has.
    #[must_use]
    pub fn is_welcomed(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.connection.is_some())
    }

    /// Takes what has arrived.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) -> Result<(), Cause> {
        let Some(attempt) = &mut self.attempt else { return Ok(()) };
        attempt.session.receive(bytes);
        if attempt.connection.is_none() {
            let Some(welcome) = attempt.session.next_welcome().map_err(Cause)? else { return Ok(()) };
            attempt.last_heard = Some(welcome.last_sequence);
            let destination = &self.shared.destinations[0];
            let welcomed = self.failover.welcomed(destination, &self.shared, &welcome, now);
            attempt.connection = Some(welcomed.map_err(Cause)?);
        }
        while let Some(number) = attempt.session.next_acknowledgement().map_err(Cause)? {
            attempt.last_heard = Some(number);
            let server = self.failover.server();
            connection::acknowledged(&self.shared, 0, server, &attempt.session, number).map_err(Cause)?;
        }
        Ok(())
    }

    /// What to do next.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn next(&mut self, now: Duration) -> Result<Action, Cause> {
        let connection = self.attempt.as_mut().and_then(|attempt| attempt.connection.as_mut());
        let Some(connection) = connection else { return Ok(Action::Idle) };
        connection.check(&self.shared, now).map_err(Cause)?;
        connection.next(&self.shared).map_err(Cause)
    }

    /// What was to be written is.
    pub fn written(&self) {
        if let Some(connection) = self.attempt.as_ref().and_then(|attempt| attempt.connection.as_ref()) {
            connection.written(&self.shared);
        }
    }

    /// The connection has come to its end: in order, or because of this, or it broke. Says what to do then.
    pub fn ended(&mut self, outcome: Result<CloseReason, Option<Cause>>) -> Retry {
        let Some(attempt) = self.attempt.take() else { return Retry::Now };
        let outcome = outcome.map_err(|cause| cause.map_or_else(|| attempt.session.ended(), |cause| cause.0));
        self.failover.end(&self.shared.destinations[0], &self.shared, outcome)
    }

    /// Leaves its spool to the next one, as [`crate::Sender::close`] does.
    pub fn close(&self) {
        self.shared.intake.close(&self.shared.queue);
        self.shared.queue.close();
        self.shared.queue.end(SendError::Closed, self.shared.spool.is_some());
        if let Some(spool) = &self.shared.spool {
            spool.close(self.shared.queue.acknowledged_by_all());
        }
    }

    /// Number of the last record that was taken, over all lives of the spool.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.shared.intake.collect(&self.shared.queue);
        self.shared.queue.next_sequence() - 1
    }

    /// Everything up to this record is acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.shared.queue.acknowledged_by(0)
    }

    /// Numbers of the records in line, which it can still send; first and last of those that stand together.
    #[must_use]
    pub fn held(&self) -> Vec<(u64, u64)> {
        self.shared.queue.locked().held().collect()
    }

    /// The last number that the server has named on this connection, whatever became of that.
    #[must_use]
    pub fn last_heard(&self) -> Option<u64> {
        self.attempt.as_ref().and_then(|attempt| attempt.last_heard)
    }

    /// What servers call its records, from the present connection's on.
    #[must_use]
    pub fn names(&self) -> VecDeque<Name> {
        let state = self.shared.queue.locked();
        let name = |numbering: &crate::numbering::Numbering| Name {
            stream: numbering.stream,
            base: numbering.base,
            until: numbering.until,
        };
        state.destinations[0].numberings().map(name).collect()
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Takes a record for acknowledged, whatever was sent: what a sender would do that believes a server everything.
    pub fn believe(&self, record: u64) {
        self.shared.acknowledged(0, self.failover.server(), record);
    }
}
