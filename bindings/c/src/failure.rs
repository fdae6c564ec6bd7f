//! Failures: a number for programs, and a text for people that each thread keeps until bbq_last_error asks for it.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use bbq_client::{SendError, StartError};

/// What a function returns. 0 is success.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// A null pointer, text that is not UTF-8, an invalid address, or an unknown number. A mistake in the program.
    Argument = 1,
    /// An option outside its range, or no server named. A mistake in the program or its configuration.
    Option = 2,
    /// The system refused a thread or random numbers.
    System = 3,
    /// The spool cannot be opened or written, or another sender has it.
    Spool = 4,
    /// No room in the queue, in the spool, or on its disk. The message was dropped and counted; later ones may be taken.
    Full = 5,
    /// The message is over the server's limit. It was dropped and counted.
    TooLarge = 6,
    /// Not everything was acknowledged in time. It stays queued.
    Timeout = 7,
    /// The server refuses the messages of this sender for good: the end of the sender.
    Refused = 8,
    /// The server does not speak the protocol: the end of the sender.
    Protocol = 9,
    /// The sender was closed, or failed before.
    Closed = 10,
    /// The sender, or its spool, belongs to the parent process.
    Forked = 11,
    /// A bug in the library.
    Internal = 12,
    /// The callback of bbq_receive did not finish with its lines.
    Unfinished = 13,
}

/// A failed call.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Of a running sender. The text is made only when bbq_last_error asks for it.
    Send(SendError),
    /// Any other failure.
    Other(Status, String),
}

impl Failure {
    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure::Other(Status::Argument, text.into())
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Failure::Send(error) => match error {
                SendError::Full { .. } | SendError::SpoolFull { .. } => Status::Full,
                SendError::MessageTooLarge { .. } => Status::TooLarge,
                SendError::Timeout { .. } => Status::Timeout,
                SendError::Refused { .. } => Status::Refused,
                SendError::Protocol { .. } => Status::Protocol,
                SendError::Spool { .. } => Status::Spool,
                SendError::Forked => Status::Forked,
                SendError::Closed => Status::Closed,
                _ => Status::Internal,
            },
            Failure::Other(status, _) => *status,
        }
    }

    fn text(&self) -> String {
        match self {
            Failure::Send(error) => error.to_string(),
            Failure::Other(_, text) => text.clone(),
        }
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        Failure::Send(error)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Failure {
        let status = match error {
            StartError::System(_) => Status::System,
            StartError::Spool { .. } | StartError::SpoolInUse { .. } => Status::Spool,
            _ => Status::Option,
        };
        Failure::Other(status, error.to_string())
    }
}

struct Last {
    failure: Option<Failure>,
    text: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { failure: None, text: None }) };
}

/// Keeps a failure for `bbq_last_error`. A thread that is ending keeps none.
pub(crate) fn remember(failure: Failure) {
    let _kept = LAST.try_with(|last| last.borrow_mut().failure = Some(failure));
}

/// The failure of this thread's last call that failed, as text; empty before the first. The text is valid until the thread calls this
/// function again.
#[unsafe(no_mangle)]
pub extern "C" fn bbq_last_error() -> *const c_char {
    const EMPTY: *const c_char = c"".as_ptr();
    let text = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        if let Some(failure) = last.failure.take() {
            let bytes =
                failure.text().into_bytes().into_iter().filter(|byte| *byte != 0).collect::<Vec<u8>>();
            last.text = CString::new(bytes).ok();
        }
        last.text.as_ref().map_or(EMPTY, |text| text.as_ptr())
    });
    text.unwrap_or(EMPTY)
}
