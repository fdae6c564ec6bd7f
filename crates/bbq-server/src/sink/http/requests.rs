//! Delivers a span by requests: puts as many messages into each as fit, and does what the response says of them. After an error the next
//! receiver (`receivers`) gets what is left.
//!
//! Not here: what a request is, and what a response means (`Exchange`).

use std::io;
use std::sync::{Mutex, PoisonError};

use hyper::Response;
use hyper::body::Incoming;
use tracing::warn;

use super::receivers::{Receiver, Receivers};
use super::refusals::{Refusals, TooMany};
use super::response;
use crate::format::{Format, Formatter};
use crate::observe::rate_limited_log::RateLimitedLog;
use crate::sink::delivery::Part;
use crate::sink::ledger::REFUSED;
use crate::sink::span::{Delivery, SpanPart};

/// Bytes of a body, unless one message is larger: so many that the cost of a request does not matter; most servers allow more.
const BODY_BYTES_TARGET: usize = 1024 * 1024;
/// Why messages are rejected of which the server says only how many they are.
const PARTIAL_SUCCESS: &str = "partial_success";

/// What a response says of the messages of a request.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::sink) enum Verdict {
    /// The server has all messages of the body.
    Taken,
    /// It has all but so many, which it refuses for good. It does not say which.
    Partly { rejected: u64, why: String },
    /// It has none, or some, and may take the others later.
    Later(String),
    /// It refuses some for good, and says so of the first of these.
    Refused(String),
    /// It failed on the request, as it may on a message that it cannot handle, or on any.
    Failed(String),
}

/// A response.
pub(in crate::sink) struct Answer {
    pub(in crate::sink) verdict: Verdict,
    /// The response, if what is left of it does not matter and is to be read.
    pub(in crate::sink) unread: Option<Response<Incoming>>,
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Answer {
        Answer { verdict, unread: None }
    }
}

/// A way to send a request and to understand its response.
pub(in crate::sink) trait Exchange: Sync {
    /// Sends formatted messages, which are the text of a part. An error means that the same messages may be taken later.
    fn exchange(
        &self,
        to: &Receiver,
        text: Vec<u8>,
        part: &Part,
    ) -> impl Future<Output = io::Result<Answer>> + Send;

    /// Sends a request of the sink's own, without a message, and returns whether the receiver takes it. False if there is none for it:
    /// what it would store, or what would say nothing.
    fn takes_empty(&self, _to: &Receiver) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }
}

/// Why a receiver has not taken the rest of a span.
struct Left {
    why: String,
    /// It failed on the messages, as it may on those that it cannot handle, or on any.
    has_failed: bool,
}

impl From<io::Error> for Left {
    fn from(error: io::Error) -> Left {
        Left { why: error.to_string(), has_failed: false }
    }
}

/// What a sink remembers from one request to the next.
pub(in crate::sink) struct Requests {
    receivers: Receivers,
    pub(in crate::sink) refusals: Refusals,
    /// The destination, for the log.
    shown: String,
    /// Lines about partial successes.
    log: Mutex<RateLimitedLog>,
    /// Lines about the receiver in use.
    changes: Mutex<RateLimitedLog>,
}

impl Requests {
    pub(in crate::sink) fn new(shown: String, receivers: Receivers, refusals: Refusals) -> Requests {
        Requests { receivers, refusals, shown, log: Mutex::default(), changes: Mutex::default() }
    }

    /// Delivers the rest of a span, or rejects it. Each receiver has an attempt before the function returns an error. After that it
    /// is called again for what is left then.
    pub(in crate::sink) async fn deliver(
        &self,
        delivery: &mut Delivery,
        format: Format,
        by: &impl Exchange,
    ) -> io::Result<()> {
        let receivers = &self.receivers;
        let (mut errors, mut failed) = (Vec::new(), None);
        receivers.wait().await;
        for number in receivers.round() {
            if let Some(receiver) = receivers.free(number) {
                let delivered =
                    self.deliver_to(receiver, delivery, format, by, receivers.has_several()).await;
                let Err(Left { why, has_failed }) = delivered else {
                    self.note_change(receiver, &errors);
                    return Ok(());
                };
                errors.push(why);
                if has_failed {
                    failed = Some(number);
                }
            }
            receivers.leave(number);
        }
        if let Some(number) = failed {
            // No receiver takes them: the messages may be at fault.
            let receiver = receivers.choose(number);
            let Err(Left { why, .. }) = self.deliver_to(receiver, delivery, format, by, false).await else {
                return Ok(());
            };
            errors.push(why);
            receivers.leave(number);
        }
        Err(io::Error::other(errors.join("; ")))
    }

    /// Delivers to one receiver. If the sink `has_others`, a request on which the receiver fails is left to them.
    async fn deliver_to(
        &self,
        receiver: &Receiver,
        delivery: &mut Delivery,
        format: Format,
        by: &impl Exchange,
        has_others: bool,
    ) -> Result<(), Left> {
        let mut formatter = Formatter::new(format);
        while let Some(mut sent) = delivery.next_part(&mut formatter, BODY_BYTES_TARGET) {
            let text = std::mem::take(&mut sent.part.text);
            let Answer { verdict, unread } = by.exchange(receiver, text, &sent.part).await?;
            let records = sent.part.records;
            match verdict {
                Verdict::Taken => {
                    self.refusals.taken();
                    delivery.confirm(&sent);
                }
                Verdict::Partly { rejected, why } if rejected < records => {
                    self.confirm_partly(delivery, &sent, rejected, &why);
                }
                Verdict::Partly { why, .. } => {
                    // It is known which ones: all.
                    let counted = self.refusals.count(records, &why);
                    if self.is_at_fault(counted, by, receiver).await? {
                        delivery.reject(&sent, REFUSED, &why);
                    }
                }
                Verdict::Later(why) => return Err(Left { why, has_failed: false }),
                Verdict::Failed(why) if has_others => return Err(Left { why, has_failed: true }),
                Verdict::Refused(_) | Verdict::Failed(_) if records > 1 => delivery.halve(&sent),
                Verdict::Refused(why) => {
                    if self.is_at_fault(self.refusals.count(1, &why), by, receiver).await? {
                        delivery.reject(&sent, REFUSED, &why);
                    }
                }
                Verdict::Failed(why) => {
                    if self.is_at_fault(self.refusals.count_doubtful(&why), by, receiver).await? {
                        delivery.reject(&sent, REFUSED, &why);
                    }
                }
            }
            if let Some(response) = unread {
                response::finish(response).await;
            }
        }
        Ok(())
    }

    /// Whether a message that the receiver did not take is to be rejected. After refusals that let the receiver look useless, the
    /// sink asks it with a request without a message, as senders chose the messages. If it takes that, it may have been repaired
    /// since it failed on the message, which is sent once more.
    ///
    /// # Errors
    /// The receiver is to be left alone for a while.
    async fn is_at_fault(
        &self,
        counted: Result<(), TooMany>,
        by: &impl Exchange,
        receiver: &Receiver,
    ) -> io::Result<bool> {
        match counted {
            Ok(()) => Ok(true),
            Err(TooMany::Useless(_)) if by.takes_empty(receiver).await => {
                self.refusals.taken();
                Ok(false)
            }
            Err(TooMany::Useless(why) | TooMany::InARow(why)) => Err(io::Error::other(why)),
        }
    }

    /// Says which receiver has taken messages after the errors of those before it.
    fn note_change(&self, receiver: &Receiver, errors: &[String]) {
        let log = || self.changes.lock().unwrap_or_else(PoisonError::into_inner).report();
        if !errors.is_empty()
            && let Some(silent) = log()
        {
            let (sink, receiver, why) = (&self.shown, &receiver.uri, errors.join("; "));
            warn!(sink, %receiver, why, silent, "another receiver gets the messages");
        }
    }

    fn confirm_partly(&self, delivery: &mut Delivery, part: &SpanPart, rejected: u64, why: &str) {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).report();
        if let Some(silent) = log {
            let sink = &self.shown;
            warn!(
                sink,
                messages = part.part.records,
                rejected,
                silent,
                "the destination took a request with a complaint: {why}"
            );
        }
        self.refusals.taken();
        delivery.confirm_partly(part, rejected, PARTIAL_SUCCESS);
    }
}
