//! The trait that a program implements.

use super::batch::Messages;
use super::error::HandlerError;
use super::position::Position;

/// Receives the messages of a server in the same process. Given to
/// `ServerBuilder::handler`; a closure is a handler, too.
///
/// Without [`position`](Handler::position) each message is handled at least once: what was handled shortly before a crash comes
/// again. With it, a handler that commits messages and position together handles each message exactly once.
///
/// ```
/// # use bbq_sink_handler as bbq_server;
/// use bbq_server::{Handler, HandlerError, Messages};
///
/// struct Counter {
///     messages: u64,
/// }
///
/// impl Handler for Counter {
///     fn handle(&mut self, messages: Messages<'_>) -> Result<(), HandlerError> {
///         for message in messages {
///             // `?` works with every error: the messages come again, after a pause.
///             let text = std::str::from_utf8(message.bytes)?;
///             if text.is_empty() {
///                 // What came before is done; this message is kept as a dead letter.
///                 return Err(HandlerError::refuse(&message, "an empty message"));
///             }
///             self.messages += 1;
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Handler: Send {
    /// Handles messages of one lane: at least one, at most 1,024, at most 256 KiB unless one message is larger. May take as long
    /// as it needs. Meanwhile messages wait in the spool, on disk.
    ///
    /// `Ok` means that all of them are handled for good: the server may delete them.
    ///
    /// # Errors
    /// [`HandlerError::retry`], or any error by `?`: the same messages come again after a pause, which grows from 50 ms to 5 s;
    /// meanwhile the status shows the error. A panic is the same. [`HandlerError::refuse`]: the messages before the refused one
    /// are handled, the refused one becomes a dead letter, and those behind it come next.
    fn handle(&mut self, messages: Messages<'_>) -> Result<(), HandlerError>;

    /// The last position of this lane that the handler has committed, from [`Messages::position`] or [`Message::position`];
    /// `None` if it has none. Messages up to it are not given to the handler again.
    ///
    /// Called before the first messages of a lane, and after each failure and refusal. A position of another server or handler is
    /// ignored, as its messages were others.
    ///
    /// [`Message::position`]: super::Message::position
    ///
    /// # Errors
    /// As those of [`handle`](Handler::handle); nothing can be refused here.
    fn position(&mut self, lane: u32) -> Result<Option<Position>, HandlerError> {
        let _none_is_kept = lane;
        Ok(None)
    }
}

impl<F: FnMut(Messages<'_>) -> Result<(), HandlerError> + Send> Handler for F {
    fn handle(&mut self, messages: Messages<'_>) -> Result<(), HandlerError> {
        self(messages)
    }
}
