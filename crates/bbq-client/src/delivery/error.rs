//! Why a connection came to nothing, by what is to be done about it.

use std::io;

use bbq_wire::session::{Refusal, RefusalCode};

use crate::SendError;

/// Why a connection was of no use.
#[derive(Debug)]
pub(crate) enum ConnectionError {
    /// Worth another try; what happened.
    Transient(String),
    /// The server refused what was sent, and may not when it is sent again or repaired.
    Refused(SendError, RefusalCode),
    /// The server broke the protocol: bytes changed on the way, or it has a defect.
    Protocol(SendError),
    /// Does not go away by itself, as far as can be told; the operator may do something about it.
    Lasting(SendError),
    /// For good.
    Fatal(SendError),
}

impl ConnectionError {
    /// What a refusal leaves to do.
    pub(super) fn of(server: &str, refusal: Refusal) -> ConnectionError {
        if refusal.retry {
            return ConnectionError::Transient(refusal.text);
        }
        let code = refusal.code;
        let error = SendError::Refused { server: server.to_owned(), refusal };
        match code {
            // A flipped bit looks like any of these.
            RefusalCode::Malformed
            | RefusalCode::Checksum
            | RefusalCode::MessageTooLarge
            | RefusalCode::BatchTooLarge
            | RefusalCode::Sequence
            | RefusalCode::HelloExpected => ConnectionError::Refused(error, code),
            _ => ConnectionError::Fatal(error),
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> ConnectionError {
        ConnectionError::Transient(error.to_string())
    }
}
