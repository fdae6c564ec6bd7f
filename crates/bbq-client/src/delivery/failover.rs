//! What a destination goes through: which server is next, what the end of a connection leaves to do, and how long to wait before
//! another one. No socket, no clock, no thread.

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

/// What was refused, or broken by the server, so often without an acknowledgement in between lasts, as far as can be last_notice_was_good.
const FAILURES_MAX: u32 = 3;

/// What a destination has been through.
pub(crate) struct Failover {
    rotation: Rotation,
    /// Whether the last notice was good news; a change is last_notice_was_good, not each try.
    last_notice_was_good: Option<bool>,
    /// A server has welcomed it.
    was_welcomed: bool,
    /// Connections that were refused or broken since the last acknowledgement.
    failures: u32,
    /// What was acknowledged when the present connection began.
    acknowledged_before: u64,
}

/// What to do when a connection has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Retry {
    /// Make another one.
    Now,
    /// The same, after so long.
    After(Duration),
    /// Nothing: no server will ever take anything, or all is done.
    Never,
}

impl Failover {
    /// Of a destination with so many servers.
    pub(crate) fn new(servers: usize) -> Failover {
        let rotation = Rotation::new(servers);
        Failover {
            rotation,
            last_notice_was_good: None,
            was_welcomed: false,
            failures: 0,
            acknowledged_before: 0,
        }
    }

    /// The server whose turn it is.
    pub(crate) fn server(&self) -> usize {
        self.rotation.current()
    }

    /// Whether a server that is preferred to it may come back.
    pub(crate) fn is_substitute(&self) -> bool {
        self.rotation.is_substitute()
    }

    /// A connection is about to be made.
    pub(crate) fn begin(&mut self, destination: &Destination, shared: &Shared) {
        destination.present.store(self.server() as u64, Ordering::Relaxed);
        self.acknowledged_before = shared.queue.acknowledged_by(destination.index);
    }

    /// The server has welcomed the destination at the time `now`, by any clock that does not jump.
    pub(crate) fn welcomed(
        &mut self,
        destination: &Destination,
        shared: &Shared,
        welcome: &Welcome,
        now: Duration,
    ) -> Result<Connection, ConnectionError> {
        self.was_welcomed = true;
        let address = destination.address(self.server());
        shared.begin_connection(destination.index, self.server(), welcome, address)?;
        destination.connected.store(true, Ordering::Relaxed);
        self.tell(shared, &Notice::Connected { server: address.to_string() });
        Ok(Connection::new(destination.index, now))
    }

    /// A connection has ended, or could not be made.
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
                shared.queue.next_stream(destination.index);
                return Retry::Now;
            }
            Err(error) => error,
        };
        let server = destination.address(self.server());
        let why = match self.judge(destination, shared, server, error) {
            Ok(why) => why,
            Err(error) => {
                let notice = Notice::Ended { server: server.to_string(), why: error.to_string() };
                self.tell(shared, &notice);
                // Whoever has taken the stream over would do so everywhere.
                if is_taken_over(&error) || !self.rotation.refuse() {
                    shared.fail(destination.index, &error);
                    return Retry::Never;
                }
                error.to_string()
            }
        };
        self.tell(shared, &Notice::Unreachable { server: server.to_string(), why });
        destination.reconnects.fetch_add(1, Ordering::Relaxed);
        // A welcome alone is no success: a server whose disk failed welcomes, too, and then refuses.
        if self.rotation.advance(has_taken) {
            Retry::After(destination.reconnect().failed())
        } else {
            Retry::Now
        }
    }

    /// Tells the application when good became bad or bad became good.
    fn tell(&mut self, shared: &Shared, notice: &Notice) {
        let good = matches!(notice, Notice::Connected { .. });
        if self.last_notice_was_good.replace(good) != Some(good) || matches!(notice, Notice::Ended { .. }) {
            shared.tell(notice);
        }
    }

    /// Does what there is to do about it before another try; `Err` is the end of the server.
    fn judge(
        &mut self,
        destination: &Destination,
        shared: &Shared,
        server: &ServerAddress,
        error: ConnectionError,
    ) -> Result<String, SendError> {
        let error = match error {
            ConnectionError::Transient(why) => return Ok(why),
            // The spool is this sender's alone, and yet the stream was used with a later epoch: what it knows is old.
            ConnectionError::Fatal(error)
                if is_taken_over(&error) && shared.has_spool() && !self.was_welcomed =>
            {
                shared.begin_stream(destination.index, server, "its stream is used by another sender");
                return Ok(error.to_string());
            }
            ConnectionError::Fatal(error) => return Err(error),
            ConnectionError::Lasting(error) if shared.options.end_on_lasting_errors => return Err(error),
            ConnectionError::Lasting(error) => return Ok(error.to_string()),
            ConnectionError::Protocol(error) => {
                shared.protocol_errors.fetch_add(1, Ordering::Relaxed);
                error
            }
            ConnectionError::Refused(error, code) => {
                let (records, how) = match shared.queue.repair(destination.index, code) {
                    Repair::None => (0, ""),
                    Repair::Rebuilt => (0, "; its bytes had changed in memory, and it is made again"),
                    Repair::Damaged(records) => (records, "; its bytes had changed in memory"),
                    Repair::Refused => (1, ""),
                };
                let why = format!("{error}{how}");
                if records > 0 {
                    self.failures = 0;
                    shared.tell(&Notice::Lost { server: server.to_string(), records, why });
                }
                error
            }
        };
        self.failures += 1;
        let lasts = self.failures >= FAILURES_MAX && shared.options.end_on_lasting_errors;
        if lasts { Err(error) } else { Ok(error.to_string()) }
    }
}

/// Whether another connection sends the same stream.
fn is_taken_over(error: &SendError) -> bool {
    matches!(error, SendError::Refused { refusal, .. } if refusal.code == RefusalCode::TakenOver)
}
