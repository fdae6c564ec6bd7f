//! What a server says on one connection.

use std::io::{self, ErrorKind, Read};

use bbq_wire::session::{ClientSession, ClientStep, Hello, Welcome};

use crate::SendError;
use crate::stream::Stream;

/// Acknowledgements are 24 bytes.
const READ_BYTES: usize = 4096;

/// Why a connection was of no use.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Worth another try; what happened.
    Passing(String),
    /// For good.
    Final(SendError),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Passing(error.to_string())
    }
}

/// Reads one server.
pub(crate) struct Session {
    session: ClientSession,
    bytes: Vec<u8>,
    server: String,
    answered: bool,
}

impl Session {
    /// A session with a server that is called `server` in what goes wrong.
    pub(crate) fn new(server: String) -> Session {
        Session { session: ClientSession::new(), bytes: Vec::new(), server, answered: false }
    }

    /// Whether the server has read the hello: it said welcome, or no.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered
    }

    /// Says hello and waits for the welcome, as long as the stream's time-out allows.
    pub(crate) fn begin(&mut self, stream: &mut Stream, hello: &Hello) -> Result<Welcome, Trouble> {
        let mut frame = Vec::new();
        hello.encode(&mut frame);
        io::Write::write_all(stream, &frame)?;
        match self.step(stream)? {
            ClientStep::Welcome { welcome, .. } => Ok(welcome),
            ClientStep::Refused { refusal, .. } if refusal.retry => Err(Trouble::Passing(refusal.text)),
            ClientStep::Refused { refusal, .. } => {
                Err(Trouble::Final(SendError::Refused { server: self.server.clone(), refusal }))
            }
            _ => Err(self.protocol("something else than a welcome came first")),
        }
    }

    /// Takes acknowledgements until the connection ends; answers why it did.
    pub(crate) fn listen(mut self, stream: &mut Stream, mut acknowledged: impl FnMut(u64)) -> Trouble {
        loop {
            match self.step(stream) {
                Ok(ClientStep::Ack { sequence, .. }) => acknowledged(sequence),
                Ok(ClientStep::Refused { refusal, .. }) if !refusal.retry => {
                    return Trouble::Final(SendError::Refused { server: self.server, refusal });
                }
                Ok(ClientStep::Refused { refusal, .. }) => return Trouble::Passing(refusal.text),
                Ok(_) => return self.protocol("a second welcome came"),
                Err(trouble) => return trouble,
            }
        }
    }

    /// The next whole thing the server says.
    fn step(&mut self, stream: &mut Stream) -> Result<ClientStep, Trouble> {
        loop {
            let step = match self.session.next(&self.bytes) {
                Ok(step) => step,
                Err(error) => return Err(self.protocol(&error.to_string())),
            };
            let consumed = match &step {
                ClientStep::NeedMore { .. } => {
                    self.fill(stream)?;
                    continue;
                }
                ClientStep::Welcome { consumed, .. }
                | ClientStep::Ack { consumed, .. }
                | ClientStep::Refused { consumed, .. } => *consumed,
            };
            self.bytes.drain(..consumed);
            self.answered = true;
            return Ok(step);
        }
    }

    fn fill(&mut self, stream: &mut Stream) -> Result<(), Trouble> {
        let mut buffer = [0; READ_BYTES];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(Trouble::Passing("the connection ended".to_owned())),
                Ok(bytes) => {
                    self.bytes.extend_from_slice(&buffer[..bytes]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn protocol(&self, problem: &str) -> Trouble {
        Trouble::Final(SendError::Protocol { server: self.server.clone(), problem: problem.to_owned() })
    }
}
