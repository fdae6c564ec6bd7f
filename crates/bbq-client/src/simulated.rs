//! A sender without sockets, threads and waiting, for the simulation that runs it on a simulated disk and network: the same intake,
//! queue, spool, numbering and link, whose steps somebody else takes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bbq_wire::StreamId;

pub use crate::course::After;
pub use crate::environment::{Boot, Environment};
pub use crate::link::Done;
pub use crate::spool::Sizes;

use crate::course::Course;
use crate::link::{self, Link, Say};
use crate::session::{Heard, Session, Trouble};
use crate::shared::Shared;
use crate::{Counters, SendError, SenderBuilder, StartError};

/// A sender with one outlet.
pub struct Client {
    shared: Shared,
    course: Course,
    connection: Option<Connection>,
}

/// From its hello to its end.
struct Connection {
    session: Session,
    /// Once it is welcome.
    link: Option<Link>,
    /// The last number that the server has named.
    last_heard: Option<u64>,
}

/// Why a connection was of no use.
#[derive(Debug)]
pub struct Cause(Trouble);

impl Cause {
    /// What is not expected of a server that works: not a broken connection, and not a refusal that asks to come again.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        match &self.0 {
            Trouble::Passing(_) => None,
            Trouble::Refused(error, _)
            | Trouble::Broken(error)
            | Trouble::Lasting(error)
            | Trouble::Final(error) => Some(error.to_string()),
        }
    }
}

/// How a step ended.
pub enum Said {
    /// This is to be written; [`Client::written`] says that it was.
    Write(Arc<Vec<u8>>),
    /// Nothing is to be said now.
    Nothing,
    /// The connection is to be left.
    Leave(Done),
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
        let course = Course::new(shared.options.servers.len());
        Ok(Client { shared, course, connection: None })
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
        let outlet = &self.shared.outlets[0];
        self.course.begin(outlet, &self.shared);
        let session = Session::new(outlet.address(self.course.server()).to_string());
        self.connection = Some(Connection { session, link: None, last_heard: None });
        link::hello(&self.shared, 0).map_err(Cause)
    }

    /// Whether a server has welcomed the connection that it has.
    #[must_use]
    pub fn is_welcome(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.link.is_some())
    }

    /// Takes what has arrived.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn arrived(&mut self, bytes: &[u8], now: Duration) -> Result<(), Cause> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.session.arrived(bytes);
        while let Some(heard) = connection.session.next().map_err(Cause)? {
            connection.last_heard = Some(match &heard {
                Heard::Welcome(welcome) => welcome.last_sequence,
                Heard::Acknowledged(number) => *number,
            });
            match (&heard, &connection.link) {
                (Heard::Welcome(welcome), None) => {
                    let outlet = &self.shared.outlets[0];
                    let welcomed = self.course.welcomed(outlet, &self.shared, welcome, now);
                    connection.link = Some(welcomed.map_err(Cause)?);
                }
                _ => {
                    let server = self.course.server();
                    link::heard(&self.shared, 0, server, &connection.session, &heard).map_err(Cause)?;
                }
            }
        }
        Ok(())
    }

    /// What is to be said next.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn next(&mut self, now: Duration) -> Result<Said, Cause> {
        let link = self.connection.as_mut().and_then(|connection| connection.link.as_mut());
        let Some(link) = link else { return Ok(Said::Nothing) };
        link.check(&self.shared, now).map_err(Cause)?;
        Ok(match link.next(&self.shared).map_err(Cause)? {
            Say::Write(bytes) => Said::Write(bytes),
            Say::Nothing | Say::NothingYet => Said::Nothing,
            Say::Leave(done) => Said::Leave(done),
        })
    }

    /// What was to be written is.
    pub fn written(&self) {
        if let Some(link) = self.connection.as_ref().and_then(|connection| connection.link.as_ref()) {
            link.written(&self.shared);
        }
    }

    /// The connection has come to its end: in order, or because of this, or it broke. Says what to do then.
    pub fn ended(&mut self, outcome: Result<Done, Option<Cause>>) -> After {
        let Some(connection) = self.connection.take() else { return After::Again };
        let outcome =
            outcome.map_err(|cause| cause.map_or_else(|| connection.session.ended(), |cause| cause.0));
        self.course.end(&self.shared.outlets[0], &self.shared, outcome)
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
        self.connection.as_ref().and_then(|connection| connection.last_heard)
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
        state.outlets[0].numberings().map(name).collect()
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counters()
    }

    /// Takes a record for acknowledged, whatever was sent: what a sender would do that believes a server everything.
    pub fn believe(&self, record: u64) {
        self.shared.acknowledged(0, self.course.server(), record);
    }
}
