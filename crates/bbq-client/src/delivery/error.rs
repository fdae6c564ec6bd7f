//! Why a connection failed, by what the sender does about it.

use std::io;

use bbq_wire::session::{Refusal, RefusalCode};

use crate::SendError;

#[derive(Debug)]
pub(crate) enum ConnectionError {
    /// Another attempt may succeed; what happened.
    Transient(String),
    /// The server refused a batch that it may take when it is repaired or sent again.
    Refused(SendError, RefusalCode),
    /// The server broke the protocol: bytes changed on the way, or it has a bug.
    Protocol(SendError),
    /// Probably lasts until a person does something about it.
    Lasting(SendError),
    /// Lasts for ever.
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
            // One changed bit may cause any of these.
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
