//! Why a connection failed, by what the sender does about it.

use std::io;

use bbq_wire::session::{Refusal, RefusalCode};

use crate::SendError;

#[derive(Debug)]
pub(crate) enum ConnectionError {
    /// Another attempt may succeed. The text says what happened.
    Transient(String),
    /// The server refused a batch that it may take when it is repaired or sent again.
    Refused(SendError, RefusalCode),
    /// The server broke the protocol: bytes changed on the way, or it has a bug.
    Protocol(SendError),
    /// Every attempt will probably fail until a person changes something.
    Lasting(SendError),
    /// No attempt will ever succeed.
    Fatal(SendError),
}

impl ConnectionError {
    pub(super) fn of(server: &str, refusal: Refusal) -> ConnectionError {
        if refusal.retry {
            return ConnectionError::Transient(refusal.text);
        }
        let code = refusal.code;
        let error = SendError::Refused { server: server.to_owned(), refusal };
        match code {
            // One bit that changed on the way may cause any of these.
            RefusalCode::Malformed
            | RefusalCode::Checksum
            | RefusalCode::MessageTooLarge
            | RefusalCode::BatchTooLarge
            | RefusalCode::Sequence
            | RefusalCode::HelloExpected => ConnectionError::Refused(error, code),
            // A person may yet give the server the token.
            RefusalCode::NotAllowed => ConnectionError::Lasting(error),
            _ => ConnectionError::Fatal(error),
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> ConnectionError {
        ConnectionError::Transient(error.to_string())
    }
}
