//! What a server says on one connection.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use bbq_wire::session::{ClientSession, ClientStep, Hello, Welcome};

use crate::SendError;
use crate::stream::Stream;

/// Acknowledgements are 24 bytes.
const READ_BYTES: usize = 4096;
/// A server that does not even say hello in this time is not there. It may have to sync what came over an earlier
/// connection first.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// What to do about an address where something else answers, or nothing does.
const REMEDY: &str = "name the address of a bbq+tcp or bbq+unix listener";

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
    said_hello: bool,
    answered: bool,
}

impl Session {
    /// A session with a server that is called `server` in what goes wrong.
    pub(crate) fn new(server: String) -> Session {
        Session {
            session: ClientSession::new(),
            bytes: Vec::new(),
            server,
            said_hello: false,
            answered: false,
        }
    }

    /// Whether the server may still read the hello: it was said, and neither a welcome nor a refusal came.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.said_hello && !self.answered
    }

    /// Says hello and waits for the welcome, as long as the stream's time-out allows.
    pub(crate) fn begin(&mut self, stream: &mut Stream, hello: &Hello) -> Result<Welcome, Trouble> {
        let mut frame = Vec::new();
        hello.encode(&mut frame);
        io::Write::write_all(stream, &frame)?;
        self.said_hello = true;
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
                Err(error) if !self.answered => return Err(self.protocol(&format!("{error}; {REMEDY}"))),
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
                Ok(0) if !self.answered => {
                    let text =
                        format!("it ended the connection without an answer; if it always does, {REMEDY}");
                    return Err(Trouble::Passing(text));
                }
                Ok(0) => return Err(Trouble::Passing("the connection ended".to_owned())),
                Ok(bytes) => {
                    self.bytes.extend_from_slice(&buffer[..bytes]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(Trouble::Passing(format!(
                        "it took the connection and gave no answer in time: it is stuck, or does not speak the bbq protocol; \
                         {REMEDY}"
                    )));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn protocol(&self, problem: &str) -> Trouble {
        Trouble::Final(SendError::Protocol { server: self.server.clone(), problem: problem.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use bbq_wire::StreamId;
    use bbq_wire::session::AckLevel;

    use super::*;

    /// What a sender says of a peer that has said this.
    fn trouble(said: &[u8], ends: bool) -> String {
        let (near, mut far) = UnixStream::pair().unwrap();
        io::Write::write_all(&mut far, said).unwrap();
        let mut near = Stream::Unix(near);
        near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        if ends {
            far.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let hello = Hello { stream: StreamId([7; 16]), ack: AckLevel::None, client: String::new() };
        match Session::new("the peer".to_owned()).begin(&mut near, &hello).unwrap_err() {
            Trouble::Passing(text) => format!("passing: {text}"),
            Trouble::Final(error) => format!("final: {error}"),
        }
    }

    #[test]
    fn a_peer_that_does_not_speak_the_protocol_is_told_from_one_that_is_away() {
        for (said, ends, words) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
                false,
                "final: the peer does not answer as a bbq server",
            ),
            (b"", true, "passing: it ended the connection without an answer"),
            (b"", false, "passing: it took the connection and gave no answer in time"),
        ] {
            let text = trouble(said, ends);
            assert!(text.starts_with(words) && text.ends_with(REMEDY), "{text}");
        }
    }

    #[test]
    fn a_hello_that_could_not_be_said_awaits_no_answer() {
        let hello = Hello { stream: StreamId([7; 16]), ack: AckLevel::None, client: String::new() };
        for is_there in [true, false] {
            let (near, far) = UnixStream::pair().unwrap();
            let mut near = Stream::Unix(near);
            near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let _peer = is_there.then_some(far);
            let mut session = Session::new("the peer".to_owned());
            session.begin(&mut near, &hello).unwrap_err();
            assert_eq!(session.is_unanswered(), is_there);
        }
    }
}
