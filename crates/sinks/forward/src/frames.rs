//! What a server sends to a link.

use std::io;

use bbq_wire::session::{ClientSession, ClientStep, Refusal, RefusalCode, SessionError, Welcome};

/// What to do if another program is at the address.
pub(super) const REMEDY: &str =
    "write the address of a bbq+tcp or bbq+unix listener, or bbq+tls:// for one with TLS";
/// The first bytes of a TLS alert, with which a TLS server answers bytes that are not TLS.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];

/// A frame of the server.
pub(super) enum ServerFrame {
    Welcome(Welcome),
    Ack(u64),
    Refused(Refusal),
}

/// Takes the next frame from the front of `input`.
pub(super) fn next_frame(
    session: &mut ClientSession,
    input: &mut Vec<u8>,
) -> io::Result<Option<ServerFrame>> {
    let step = session.next(input).map_err(|error| {
        let text = match &error {
            SessionError::Magic { found } if found.starts_with(&TLS_ALERT) => {
                "it speaks TLS; write bbq+tls://HOST:PORT".to_owned()
            }
            SessionError::Magic { .. } => format!("{error}; {REMEDY}"),
            _ => error.to_string(),
        };
        io::Error::new(io::ErrorKind::InvalidData, text)
    })?;
    let (frame, consumed) = match step {
        ClientStep::NeedMore { .. } => return Ok(None),
        ClientStep::Welcome { welcome, consumed } => (ServerFrame::Welcome(welcome), consumed),
        ClientStep::Ack { sequence, consumed } => (ServerFrame::Ack(sequence), consumed),
        ClientStep::Refused { refusal, consumed } => (ServerFrame::Refused(refusal), consumed),
    };
    input.drain(..consumed);
    Ok(Some(frame))
}

/// A refusal, as an error for the operator.
pub(super) fn refusal_error(refusal: &Refusal) -> io::Error {
    let remedy = match refusal.code {
        RefusalCode::Version => {
            "; upgrade that server first: its version does not accept messages from another server"
        }
        RefusalCode::TakenOver => "; check whether another server uses a copy of this data directory",
        _ => "",
    };
    io::Error::other(format!("the server refused: {}{remedy}", refusal.text))
}
