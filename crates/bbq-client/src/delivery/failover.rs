//! Which server a destination connects to, what follows from the end of a connection, and how long to wait before the next one. No
//! socket, no clock, no thread.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_wire::session::{RefusalCode, Welcome};

use crate::delivery::connection::{CloseReason, Connection};
use crate::delivery::destination::Destination;
use crate::delivery::error::ConnectionError;
use crate::delivery::rotation::Rotation;
use crate::queue::Repair;
use crate::shared::Shared;
use crate::{Notice, SendError, ServerAddress};

/// A refusal or protocol error counts as lasting if it comes this often without an acknowledgement in between.
const FAILURES_MAX: u32 = 3;

pub(crate) struct Failover {
    rotation: Rotation,
    /// Whether the last notice was [`Notice::Connected`]: the application is told of changes, not of every attempt.
    last_notice_was_good: Option<bool>,
    /// Refusals and protocol errors since the last acknowledgement.
    failures: u32,
    /// The last acknowledged record when the current connection began.
    acknowledged_before: u64,
}

/// What to do when a connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Retry {
    /// Connect again.
    Now,
    /// Connect again after this time.
    After(Duration),
    /// Do not connect again: everything is delivered, or no server will ever take anything.
    Never,
}

impl Failover {
    pub(crate) fn new(servers: usize) -> Failover {
        Failover {
            rotation: Rotation::new(servers),
            last_notice_was_good: None,
            failures: 0,
            acknowledged_before: 0,
        }
    }

    /// The server to connect to.
    pub(crate) fn server(&self) -> usize {
        self.rotation.current()
    }

    /// Whether the preferred server is another one and may come back.
    pub(crate) fn is_substitute(&self) -> bool {
        self.rotation.is_substitute()
    }

    /// Notes that a connection is about to be made.
    pub(crate) fn begin(&mut self, destination: &Destination, shared: &Shared) {
        destination.current.store(self.server(), Ordering::Relaxed);
        self.acknowledged_before = shared.queue.acknowledged_by(destination.index);
    }

    /// Begins a connection whose server has welcomed the destination. `now` is from any clock that does not jump.
    pub(crate) fn welcomed(
        &mut self,
        destination: &Destination,
        shared: &Shared,
        welcome: &Welcome,
        now: Duration,
    ) -> Result<Connection, ConnectionError> {
        let address = &destination.servers[self.server()];
        shared.begin_connection(destination.index, self.server(), welcome, address)?;
        destination.connected.store(true, Ordering::Relaxed);
        self.notify(shared, &Notice::Connected { server: address.to_string() });
        Ok(Connection::new(destination.index, now))
    }

    /// Handles the end of a connection, or that it could not be made.
    pub(crate) fn end(
        &mut self,
        destination: &Destination,
        shared: &Shared,
        outcome: Result<CloseReason, ConnectionError>,
    ) -> Retry {
        destination.connected.store(false, Ordering::Relaxed);
        let has_taken = shared.queue.acknowledged_by(destination.index) > self.acknowledged_before;
        if has_taken {
            self.failures = 0;
        }
        let error = match outcome {
            Ok(CloseReason::Finished) => return Retry::Never,
            Ok(CloseReason::PreferredIsBack) => {
                self.rotation.back_to_preferred();
                return Retry::Now;
            }
            Ok(CloseReason::NextStream) => {
                shared.queue.locked().destinations[destination.index].next_stream();
                return Retry::Now;
            }
            Err(error) => error,
        };
        let server = &destination.servers[self.server()];
        let why = match self.handle(destination, shared, server, error) {
            Ok(why) => why,
            Err(error) => {
                let why = error.without_server();
                self.notify(shared, &Notice::Ended { server: server.to_string(), why: why.clone() });
                // The sender that took the stream over would do so on the other servers, too.
                if is_taken_over(&error) || !self.rotation.refuse() {
                    shared.fail(destination.index, &error);
                    return Retry::Never;
                }
                why
            }
        };
        shared.queue.set_last_problem(format!("{server}: {why}"));
        self.notify(shared, &Notice::Unreachable { server: server.to_string(), why });
        destination.reconnects.fetch_add(1, Ordering::Relaxed);
        // A welcome alone does not count as success: a server whose disk failed welcomes the sender, and then refuses its batches.
        if self.rotation.advance(has_taken) {
            Retry::After(destination.reconnect().failed())
        } else {
            Retry::Now
        }
    }

    /// Tells the application, unless the last notice said the same.
    fn notify(&mut self, shared: &Shared, notice: &Notice) {
        let good = matches!(notice, Notice::Connected { .. });
        if self.last_notice_was_good.replace(good) != Some(good) || matches!(notice, Notice::Ended { .. }) {
            shared.notify(notice);
        }
    }

    /// Does what an error requires before the next attempt. Returns the reason for that attempt, or `Err` if the server is given up.
    fn handle(
        &mut self,
        destination: &Destination,
        shared: &Shared,
        server: &ServerAddress,
        error: ConnectionError,
    ) -> Result<String, SendError> {
        let error = match error {
            ConnectionError::Transient(why) => return Ok(why),
            // No other sender can use the spool, yet another one has its stream: a copy of the spool, or a spool that has lost its epoch.
            // Neither knows the new stream.
            ConnectionError::Fatal(error)
                if is_taken_over(&error) && shared.spool.is_some() && self.failures + 1 < FAILURES_MAX =>
            {
                self.failures += 1;
                let why = "another sender uses its stream, probably on a copy of this spool";
                shared.begin_stream(destination.index, server, why);
                return Ok(error.without_server());
            }
            ConnectionError::Fatal(error) => return Err(error),
            ConnectionError::Lasting(error) if shared.options.end_on_lasting_errors => return Err(error),
            ConnectionError::Lasting(error) => return Ok(error.without_server()),
            ConnectionError::Protocol(error) => {
                shared.protocol_errors.fetch_add(1, Ordering::Relaxed);
                error
            }
            ConnectionError::Refused(error, code) => {
                let (records, how) = match shared.queue.repair(destination.index, code) {
                    Repair::None => (0, ""),
                    Repair::Rebuilt => (0, "; its bytes had changed in memory, and it is built again"),
                    Repair::Damaged(records) => (records, "; its bytes had changed in memory"),
                    Repair::Refused => (1, ""),
                };
                let why = error.without_server() + how;
                if records > 0 {
                    self.failures = 0;
                    shared.notify(&Notice::Lost { server: server.to_string(), records, why });
                }
                error
            }
        };
        self.failures += 1;
        let lasts = self.failures >= FAILURES_MAX && shared.options.end_on_lasting_errors;
        if lasts { Err(error) } else { Ok(error.without_server()) }
    }
}

/// Whether another connection sends the same stream.
fn is_taken_over(error: &SendError) -> bool {
    matches!(error, SendError::Refused { refusal, .. } if refusal.code == RefusalCode::TakenOver)
}
