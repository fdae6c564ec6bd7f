//! One connection to the next server, as steps over bytes: the welcome, the batches that are written, acknowledgements and refusals. No
//! socket, no clock, no task, so that the simulation runs the same code.

use std::io;

use bbq_wire::session::{AckLevel, ClientSession, RefusalCode};

use super::frames::{REMEDY, ServerFrame, next_frame, refusal_error};
use super::output::Output;
use super::outstanding::OutstandingGroups;

/// How a connection ended.
pub(super) enum Ended {
    /// With a refusal: the batch is sent again in smaller parts, or its only message was rejected, or it is held. Or to offer again what was
    /// held.
    Again,
    Failed {
        error: io::Error,
        /// The server had acknowledged something.
        has_taken: bool,
        /// Another link has the name of this one.
        is_taken_over: bool,
    },
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Failed { error, has_taken: false, is_taken_over: false }
    }
}

/// See the module.
pub(super) struct Exchange {
    session: ClientSession,
    /// Bytes that were received and are not handled.
    pub(super) input: Vec<u8>,
    /// The hello, and later batches.
    output: Output,
    /// Bytes of this connection before those in `output`.
    sent_before: u64,
    /// The server has acknowledged something.
    has_taken: bool,
    /// The server has refused the link because another one has its name.
    is_taken_over: bool,
}

impl Exchange {
    /// Begins with a hello to write.
    pub(super) fn new(hello: Vec<u8>) -> Exchange {
        let session = ClientSession::new();
        Exchange {
            session,
            input: Vec::new(),
            output: Output::of(hello),
            sent_before: 0,
            has_taken: false,
            is_taken_over: false,
        }
    }

    /// Looks for the welcome in what was received, and begins to send everything that is not acknowledged. Returns whether it has come.
    ///
    /// # Errors
    /// The server does not welcome the link.
    pub(super) fn welcome(&mut self, outstanding: &mut OutstandingGroups) -> io::Result<bool> {
        match next_frame(&mut self.session, &mut self.input)? {
            None => Ok(false),
            Some(ServerFrame::Welcome(welcome)) if welcome.ack < AckLevel::Durable => {
                Err(io::Error::other("the server does not offer durable acknowledgements"))
            }
            Some(ServerFrame::Welcome(welcome)) => {
                outstanding.begin(welcome.last_sequence + 1);
                Ok(true)
            }
            Some(ServerFrame::Refused(refusal)) => {
                self.is_taken_over = refusal.code == RefusalCode::TakenOver;
                Err(refusal_error(&refusal))
            }
            Some(ServerFrame::Ack(_)) => Err(io::Error::other("an acknowledgement before the welcome")),
        }
    }

    /// After the welcome, when everything is written: takes the next batches. Returns whether the server owes its first acknowledgement from now on.
    pub(super) fn fill(&mut self, outstanding: &mut OutstandingGroups) -> bool {
        if !self.output.unsent().is_empty() {
            return false;
        }
        self.sent_before += self.output.sent() as u64;
        self.output.clear();
        let was_idle = outstanding.is_acknowledged();
        outstanding.write(&mut self.output, self.sent_before);
        was_idle
    }

    /// Bytes that were written on this connection.
    pub(super) fn written(&self) -> u64 {
        self.sent_before + self.output.sent() as u64
    }

    /// The bytes to write.
    pub(super) fn unsent(&self) -> &[u8] {
        self.output.unsent()
    }

    /// The bytes to write, and where received bytes are appended, for a task that does both at a time.
    pub(super) fn streams(&mut self) -> (&[u8], &mut Vec<u8>) {
        (self.output.unsent(), &mut self.input)
    }

    /// Notes that some of them are written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.output.wrote(bytes);
    }

    /// Handles what was received after the welcome. Returns whether something was acknowledged.
    ///
    /// # Errors
    /// The connection is over.
    pub(super) fn hear(&mut self, outstanding: &mut OutstandingGroups) -> Result<bool, Ended> {
        let mut is_acknowledged = false;
        while let Some(frame) = next_frame(&mut self.session, &mut self.input)? {
            match frame {
                ServerFrame::Ack(number) => {
                    outstanding.acknowledge(number)?;
                    (self.has_taken, is_acknowledged) = (true, true);
                }
                ServerFrame::Refused(refusal) => {
                    self.is_taken_over = refusal.code == RefusalCode::TakenOver;
                    let refused = outstanding.refuse(refusal);
                    return Err(refused.map_or_else(Ended::from, |()| Ended::Again));
                }
                ServerFrame::Welcome(_) => {}
            }
        }
        Ok(is_acknowledged)
    }

    /// The end of this connection, with what the server has said on it.
    pub(super) fn ended(&self, ended: Ended) -> Ended {
        let Exchange { has_taken, is_taken_over, .. } = *self;
        match ended {
            Ended::Failed { error, .. } => Ended::Failed { error, has_taken, is_taken_over },
            Ended::Again => Ended::Again,
        }
    }
}

/// The server has closed the connection before a welcome.
pub(super) fn closed_before_welcome() -> io::Error {
    let text = format!("it closed the connection before a welcome; if it always does, {REMEDY}");
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}
