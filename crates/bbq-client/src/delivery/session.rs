//! What a server says on one connection: bytes in, their meaning out. No socket, no clock.

use bbq_wire::session::{ClientSession, ClientStep, SessionError, Welcome};

use crate::SendError;
use crate::delivery::error::ConnectionError;

/// What to do about an address where something else answers, or nothing does.
const REMEDY: &str = "name the address of a bbq+tcp or bbq+unix listener";

/// What a server has said.
#[derive(Debug)]
pub(crate) enum ServerMessage {
    /// Once, first.
    Welcome(Welcome),
    /// Everything up to this number is acknowledged.
    Acknowledged(u64),
}

/// Reads one server on one connection.
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

    /// Takes what has arrived.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole thing that the server has said; `None` when more has to arrive first. `Err` is the end of the connection.
    pub(crate) fn next(&mut self) -> Result<Option<ServerMessage>, ConnectionError> {
        let step = match self.session.next(&self.bytes) {
            Ok(step) => step,
            Err(error @ SessionError::Magic { .. }) if !self.answered => {
                return Err(ConnectionError::Lasting(self.protocol(&format!("{error}; {REMEDY}"))));
            }
            Err(error) => return Err(ConnectionError::Protocol(self.protocol(&error.to_string()))),
        };
        let (heard, consumed) = match step {
            ClientStep::NeedMore { .. } => return Ok(None),
            ClientStep::Refused { refusal, .. } => return Err(ConnectionError::of(&self.server, refusal)),
            ClientStep::Welcome { .. } if self.answered => {
                return Err(ConnectionError::Protocol(self.protocol("a second welcome came")));
            }
            ClientStep::Ack { .. } if !self.answered => {
                return Err(ConnectionError::Protocol(
                    self.protocol("something else than a welcome came first"),
                ));
            }
            ClientStep::Welcome { welcome, consumed } => (ServerMessage::Welcome(welcome), consumed),
            ClientStep::Ack { sequence, consumed } => (ServerMessage::Acknowledged(sequence), consumed),
        };
        self.bytes.drain(..consumed);
        self.answered = true;
        Ok(Some(heard))
    }

    /// The connection ended, and nothing whole is left.
    pub(crate) fn ended(&self) -> ConnectionError {
        if self.answered {
            return ConnectionError::Transient("the connection ended".to_owned());
        }
        ConnectionError::Transient(format!(
            "it ended the connection without an answer; if it always does, {REMEDY}"
        ))
    }

    /// Nothing arrived for as long as was waited.
    pub(crate) fn silent(&self) -> ConnectionError {
        ConnectionError::Transient(format!(
            "it took the connection and gave no answer in time: it is stuck, or does not speak the bbq protocol; {REMEDY}"
        ))
    }

    /// An acknowledgement cannot be one.
    pub(crate) fn disbelieved(&self, problem: &str) -> ConnectionError {
        ConnectionError::Protocol(self.protocol(problem))
    }

    fn protocol(&self, problem: &str) -> SendError {
        SendError::Protocol { server: self.server.clone(), problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::delivery::stream::Stream;

    /// What a sender says of a peer that has said this.
    fn trouble(said: &[u8], ends: bool) -> String {
        let (near, mut far) = UnixStream::pair().unwrap();
        io::Write::write_all(&mut far, said).unwrap();
        let mut near = Stream::Unix(near);
        near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        if ends {
            far.shutdown(std::net::Shutdown::Write).unwrap();
        }
        match near.begin(&mut Session::new("the peer".to_owned()), b"hello").unwrap_err() {
            ConnectionError::Transient(text) => format!("passing: {text}"),
            ConnectionError::Lasting(error) => format!("lasting: {error}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_peer_that_does_not_speak_the_protocol_is_told_from_one_that_is_away() {
        for (said, ends, words) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
                false,
                "lasting: the peer does not answer as a bbq server",
            ),
            (b"", true, "passing: it ended the connection without an answer"),
            (b"", false, "passing: it took the connection and gave no answer in time"),
        ] {
            let text = trouble(said, ends);
            assert!(text.starts_with(words) && text.ends_with(REMEDY), "{text}");
        }
    }
}
