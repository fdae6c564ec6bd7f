//! A sender without sockets, threads and waiting, for the simulation, which runs it step by step on a simulated disk and network: the
//! same intake, queue, spool, numbering and connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bbq_wire::StreamId;

pub use crate::delivery::connection::{Action, CloseReason};
pub use crate::delivery::failover::Retry;
pub use crate::environment::{Boot, Environment};
pub use crate::spool::Sizes;

use crate::delivery::connection::Connection;
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

/// A connection, from its hello to its end.
struct Attempt {
    session: Session,
    /// `None` before the welcome.
    connection: Option<Connection>,
    /// The last number that the server has sent.
    last_received: Option<u64>,
}

/// Why a connection failed.
#[derive(Debug)]
pub struct Cause(ConnectionError);

impl Cause {
    /// The error, if a working server does not cause it: not a broken connection, and not a refusal that asks to retry.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        match &self.0 {
            ConnectionError::Transient(_) => None,
            ConnectionError::Refused(error, _)
            | ConnectionError::Protocol(error)
            | ConnectionError::Lasting(error)
            | ConnectionError::Fatal(error) => Some(error.to_string()),
        }
    }
}

/// What a server calls the records of a stream.
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
    /// Opens a sender on its spool. Options are not checked; a server must be named.
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

    /// As [`crate::Sender::send`]; never waits if [`crate::OnFull`] says so.
    ///
    /// # Errors
    /// As [`crate::Sender::send`].
    pub fn send(&self, record: &[u8]) -> Result<(), SendError> {
        self.shared.intake.push(&self.shared.queue, record)
    }

    /// Queues the records of all blocks, as the sender's thread does when it is idle.
    pub fn collect(&self) {
        self.shared.queue.prepare_buffers();
        self.shared.intake.collect(&self.shared.queue);
    }

    /// Begins a connection; returns its hello.
    ///
    /// # Errors
    /// The sender is closed.
    pub fn connect(&mut self) -> Result<Vec<u8>, Cause> {
        let destination = &self.shared.destinations[0];
        self.failover.begin(destination, &self.shared);
        let session = Session::new(destination.servers[self.failover.server()].to_string());
        self.attempt = Some(Attempt { session, connection: None, last_received: None });
        self.shared.hello(0).map_err(Cause)
    }

    /// Whether a server has welcomed the current connection.
    #[must_use]
    pub fn is_welcomed(&self) -> bool {
        self.attempt.as_ref().is_some_and(|attempt| attempt.connection.is_some())
    }

    /// Takes received bytes.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) -> Result<(), Cause> {
        let Some(attempt) = &mut self.attempt else { return Ok(()) };
        attempt.session.receive(bytes);
        if attempt.connection.is_none() {
            let Some(welcome) = attempt.session.next_welcome().map_err(Cause)? else { return Ok(()) };
            attempt.last_received = Some(welcome.last_sequence);
            let destination = &self.shared.destinations[0];
            let welcomed = self.failover.welcomed(destination, &self.shared, &welcome, now);
            attempt.connection = Some(welcomed.map_err(Cause)?);
        }
        while let Some(number) = attempt.session.next_acknowledgement().map_err(Cause)? {
            attempt.last_received = Some(number);
            let server = self.failover.server();
            self.shared.received_ack(0, server, &attempt.session, number).map_err(Cause)?;
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

    /// The bytes of an [`Action::Write`] are written.
    pub fn written(&self) {
        if self.is_welcomed() {
            self.shared.written(0);
        }
    }

    /// The connection has ended: in order, by an error of another method, or because it broke (`Err(None)`).
    pub fn ended(&mut self, outcome: Result<CloseReason, Option<Cause>>) -> Retry {
        let Some(attempt) = self.attempt.take() else { return Retry::Now };
        let outcome = outcome.map_err(|cause| cause.map_or_else(|| attempt.session.ended(), |cause| cause.0));
        self.failover.end(&self.shared.destinations[0], &self.shared, outcome)
    }

    /// Leaves the spool to the next sender, as [`crate::Sender::close`] does.
    pub fn close(&self) {
        self.shared.close_intake();
        self.shared.end();
    }

    /// Number of the last record that was taken.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.shared.intake.collect(&self.shared.queue);
        self.shared.queue.last_sequence()
    }

    /// Everything up to this record is acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.shared.queue.acknowledged_by(0)
    }

    /// First and last number of each entry in the queue: the records that can still be sent.
    #[must_use]
    pub fn held(&self) -> Vec<(u64, u64)> {
        self.shared.queue.locked().held().collect()
    }

    /// Which of its servers the sender uses.
    #[must_use]
    pub fn server(&self) -> usize {
        self.failover.server()
    }

    /// Whether the sender may end its connection with [`CloseReason::PreferredIsBack`]: another server is preferred, and nothing is in
    /// flight.
    #[must_use]
    pub fn may_go_back(&self) -> bool {
        self.is_welcomed() && self.failover.is_substitute() && !self.shared.queue.progress(0).1
    }

    /// The last number that the server has sent on this connection, believed or not.
    #[must_use]
    pub fn last_received(&self) -> Option<u64> {
        self.attempt.as_ref().and_then(|attempt| attempt.last_received)
    }

    /// The current stream and those of later records.
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

    /// What the sender has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Takes a record for acknowledged without a check: a bug that the simulation must find.
    pub fn assume_acknowledged(&self, record: u64) {
        self.shared.acknowledged(0, self.failover.server(), record);
    }
}
