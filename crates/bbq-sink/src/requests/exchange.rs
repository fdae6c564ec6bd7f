//! What a kind of sink adds to the policy.

use std::fmt;
use std::io;

use bbq_format::Formatter;

use super::answer::Answer;
use super::receivers::Receiver;
use crate::delivery::Part;

/// A way to send a request and to understand its response. It has no timer, no second try and no counter: those are the policy's.
pub trait Exchange: Send + Sync + 'static {
    /// A server, or how it is reached. It is shown as people know it.
    type Server: fmt::Display + Send + Sync + 'static;

    /// Whether a receiver that takes a request without a message takes messages, too, unless they are at fault, and one that does not takes
    /// none: its protocol says so. Otherwise all that counts is whether it has taken one before.
    const EMPTY_DECIDES: bool;

    /// Formats messages for [`Exchange::exchange`].
    fn formatter(&self) -> Formatter;

    /// Sends formatted messages, which are the text of a part.
    ///
    /// # Errors
    /// The same messages may be taken later. The text tells the operator what to do.
    fn exchange(
        &self,
        to: &Receiver<Self::Server>,
        text: Vec<u8>,
        part: &Part,
    ) -> impl Future<Output = io::Result<Answer>> + Send;

    /// Sends a request of the sink's own, without a message, and returns whether the receiver takes it.
    fn takes_empty(&self, to: &Receiver<Self::Server>) -> impl Future<Output = bool> + Send;
}
