//! The receiving side of one connection: decodes the frames of the server. No socket, no clock.

use bbq_wire::session::{ClientSession, ClientStep, SessionError, Welcome};

use crate::SendError;
use crate::delivery::error::ConnectionError;

/// What to do if another program answers at an address, or none does.
const REMEDY: &str =
    "name the address of a bbq+tcp or bbq+unix listener, or write bbq+tls:// for one with TLS";
/// The first bytes of a TLS alert, with which a TLS server answers bytes that are not TLS.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

pub(crate) struct Session {
    session: ClientSession,
    bytes: Vec<u8>,
    server: String,
    is_welcomed: bool,
}

impl Session {
    /// `server` names the server in errors.
    pub(crate) fn new(server: String) -> Session {
        Session { session: ClientSession::new(), bytes: Vec::new(), server, is_welcomed: false }
    }

    /// Adds received bytes.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The welcome, which comes first and once; `None` if more bytes are needed. `Err` ends the connection.
    pub(crate) fn next_welcome(&mut self) -> Result<Option<Welcome>, ConnectionError> {
        match self.next()? {
            ClientStep::NeedMore { .. } => Ok(None),
            ClientStep::Welcome { welcome, consumed } => {
                self.bytes.drain(..consumed);
                self.is_welcomed = true;
                Ok(Some(welcome))
            }
            _ => Err(self.violation("the first frame is not a welcome")),
        }
    }

    /// The next acknowledged number, after the welcome; `None` if more bytes are needed. `Err` ends the connection.
    pub(crate) fn next_acknowledgement(&mut self) -> Result<Option<u64>, ConnectionError> {
        match self.next()? {
            ClientStep::NeedMore { .. } => Ok(None),
            ClientStep::Ack { sequence, consumed } => {
                self.bytes.drain(..consumed);
                Ok(Some(sequence))
            }
            _ => Err(self.violation("it sent a second welcome")),
        }
    }

    fn next(&mut self) -> Result<ClientStep, ConnectionError> {
        match self.session.next(&self.bytes) {
            Ok(ClientStep::Refused { refusal, .. }) => Err(ConnectionError::of(&self.server, refusal)),
            Ok(step) => Ok(step),
            Err(SessionError::Magic { found }) if !self.is_welcomed && found.starts_with(&TLS_ALERT) => {
                let problem = "it speaks TLS; write bbq+tls://HOST:PORT".to_owned();
                Err(ConnectionError::Lasting(SendError::Unreachable { server: self.server.clone(), problem }))
            }
            Err(error @ SessionError::Magic { .. }) if !self.is_welcomed => {
                Err(ConnectionError::Lasting(self.protocol(&format!("{error}; {REMEDY}"))))
            }
            Err(error) => Err(self.violation(&error.to_string())),
        }
    }

    /// The error when the server ended the connection.
    pub(crate) fn ended(&self) -> ConnectionError {
        if self.is_welcomed {
            return ConnectionError::Transient("the connection ended".to_owned());
        }
        ConnectionError::Transient(format!(
            "it ended the connection without an answer; if it always does, {REMEDY}"
        ))
    }

    /// The error when nothing arrived before the read time-out.
    pub(crate) fn silent(&self) -> ConnectionError {
        ConnectionError::Transient(format!(
            "it accepted the connection and did not answer in time: it is stuck, or does not speak the bbq protocol; {REMEDY}"
        ))
    }

    /// The error when the server broke the protocol.
    pub(crate) fn violation(&self, problem: &str) -> ConnectionError {
        ConnectionError::Protocol(self.protocol(problem))
    }

    fn protocol(&self, problem: &str) -> SendError {
        SendError::Protocol { server: self.server.clone(), problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::TcpStream;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::delivery::stream;

    /// The error of a sender whose peer sent `sent`, and then ended the connection if `ends`.
    fn error_of(sent: &[u8], ends: bool) -> String {
        let (near, mut far) = UnixStream::pair().unwrap();
        io::Write::write_all(&mut far, sent).unwrap();
        let near = TcpStream::from(OwnedFd::from(near));
        near.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        if ends {
            far.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let (mut writer, mut reader) = stream::plain(near).unwrap();
        let mut session = Session::new("the peer".to_owned());
        match stream::begin(&mut writer, &mut reader, &mut session, b"hello").unwrap_err() {
            ConnectionError::Transient(text) => format!("passing: {text}"),
            ConnectionError::Lasting(error) => format!("lasting: {error}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_peer_that_does_not_speak_the_protocol_is_told_from_one_that_is_away() {
        for (sent, ends, words) in [
            (
                &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
                false,
                "lasting: the peer does not answer as a bbq server",
            ),
            (b"", true, "passing: it ended the connection without an answer"),
            (b"", false, "passing: it accepted the connection and did not answer in time"),
        ] {
            let text = error_of(sent, ends);
            assert!(text.starts_with(words) && text.ends_with(REMEDY), "{text}");
        }
    }
}
