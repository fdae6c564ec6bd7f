//! Delivers a span by requests: puts as many messages into each as fit, and does what the response says of them. After an error the next
//! receiver (`receivers`) gets what is left.
//!
//! Not here: what a request is, and what a response means (`Exchange`).

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bbq_format::Formatter;
use bbq_sink::{Delivery, Part, REFUSED, SpanPart};
use bbq_spec::RateLimitedLog;
use hyper::Response;
use hyper::body::Incoming;
use tracing::warn;

use super::body_bytes::BodyBytes;
use super::receivers::{Receiver, Receivers};
use super::refusals::{FAILED_FOR, Refusals, TooMany};
use super::response;

/// Why messages are rejected of which the server says only how many they are.
const PARTIAL_SUCCESS: &str = "partial_success";

/// What a response says of the messages of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server has all messages of the body.
    Taken,
    /// It has all but so many, which it refuses for good. It does not say which.
    Partly { rejected: u64, why: String },
    /// It has none, or some, and may take the others later.
    Later(String),
    /// It refuses some for good, and says so of the first of these.
    Refused(String),
    /// There is too much in the body.
    TooLarge(String),
    /// It failed on the request, as it may on a message that it cannot handle, or on any.
    Failed(String),
}

/// A response.
pub(crate) struct Answer {
    pub verdict: Verdict,
    /// The response, if what is left of it does not matter and is to be read.
    pub unread: Option<Response<Incoming>>,
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Answer {
        Answer { verdict, unread: None }
    }
}

/// A way to send a request and to understand its response.
pub(crate) trait Exchange: Sync {
    /// Whether a receiver that takes a request without a message takes messages, too, unless they are at fault, and one that does not takes
    /// none: its protocol says so. Otherwise all that counts is whether it has taken one before.
    const EMPTY_DECIDES: bool;

    /// Formats messages for [`Exchange::exchange`].
    fn formatter(&self) -> Formatter;

    /// Sends formatted messages, which are the text of a part. An error means that the same messages may be taken later.
    fn exchange(
        &self,
        to: &Receiver,
        text: Vec<u8>,
        part: &Part,
    ) -> impl Future<Output = io::Result<Answer>> + Send;

    /// Sends a request of the sink's own, without a message, and returns whether the receiver takes it.
    fn takes_empty(&self, to: &Receiver) -> impl Future<Output = bool> + Send;
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
pub(crate) struct Requests {
    receivers: Receivers,
    pub(crate) refusals: Refusals,
    /// Of the sink, for the log.
    name: String,
    /// Lines about partial successes.
    log: Mutex<RateLimitedLog>,
    /// Lines about the receiver in use.
    changes: Mutex<RateLimitedLog>,
    body_bytes: BodyBytes,
}

impl Requests {
    /// With `keeps_cuts`, the receivers know messages by their part, which begins and ends at the same messages each time.
    pub(crate) fn new(name: String, receivers: Receivers, refusals: Refusals, keeps_cuts: bool) -> Requests {
        let (log, changes) = (Mutex::default(), Mutex::default());
        Requests { receivers, refusals, name, log, changes, body_bytes: BodyBytes::new(keeps_cuts) }
    }

    /// See [`Sink::takes_within`](bbq_sink::Sink::takes_within).
    pub(crate) fn takes_within(&self) -> Duration {
        self.receivers.takes_within()
    }

    /// Delivers the rest of a span, or rejects it. Each receiver has an attempt before the function returns an error. After that it
    /// is called again for what is left then.
    pub(crate) async fn deliver(&self, delivery: &mut Delivery, by: &impl Exchange) -> io::Result<()> {
        let receivers = &self.receivers;
        let (mut errors, mut failed) = (Vec::new(), None);
        receivers.wait().await;
        for number in receivers.round() {
            if let Some(receiver) = receivers.free(number) {
                let delivered = self.deliver_to(receiver, delivery, by, receivers.has_several()).await;
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
            let Err(Left { why, .. }) = self.deliver_to(receiver, delivery, by, false).await else {
                return Ok(());
            };
            errors.push(why);
            receivers.leave(number);
        }
        if failed.is_none() && receivers.has_several() {
            // They are down, or busy: that says nothing about the message.
            delivery.forget_failure();
        }
        Err(io::Error::other(errors.join("; ")))
    }

    /// Delivers to one receiver. If the sink `has_others`, a request on which the receiver fails is left to them.
    async fn deliver_to<E: Exchange>(
        &self,
        receiver: &Receiver,
        delivery: &mut Delivery,
        by: &E,
        has_others: bool,
    ) -> Result<(), Left> {
        let mut formatter = by.formatter();
        loop {
            let Some(mut sent) = delivery.next_part(&mut formatter, self.body_bytes.now()) else {
                return Ok(());
            };
            let text = std::mem::take(&mut sent.part.text);
            let (bytes, records, begun) = (text.len(), sent.part.records, Instant::now());
            let Answer { verdict, unread } = match by.exchange(receiver, text, &sent.part).await {
                Ok(answer) => answer,
                Err(error) => {
                    if error.kind() == io::ErrorKind::TimedOut && records > 1 && self.body_bytes.may_shrink()
                    {
                        self.body_bytes.late(bytes);
                        delivery.halve(&sent);
                    }
                    delivery.forget_failure_unless(has_others);
                    return Err(error.into());
                }
            };
            match verdict {
                Verdict::Taken => {
                    self.body_bytes.taken(begun.elapsed(), receiver.client.timeout());
                    self.refusals.taken();
                    delivery.confirm(&sent);
                }
                Verdict::Partly { rejected, why } if rejected < records => {
                    self.confirm_partly(delivery, &sent, rejected, &why);
                }
                Verdict::Partly { why, .. } => {
                    // It is known which ones: all.
                    if self.is_refused(records, &why, by, receiver).await? {
                        delivery.reject(&sent, REFUSED, &why);
                    }
                }
                Verdict::Later(why) => {
                    delivery.forget_failure_unless(has_others);
                    return Err(Left { why, has_failed: false });
                }
                Verdict::Failed(why) if has_others => return Err(Left { why, has_failed: true }),
                Verdict::TooLarge(_) if records > 1 => {
                    self.body_bytes.too_large(bytes);
                    delivery.halve(&sent);
                }
                Verdict::Refused(_) | Verdict::Failed(_) if records > 1 => delivery.halve(&sent),
                Verdict::Refused(why) | Verdict::TooLarge(why) => {
                    if self.is_refused(1, &why, by, receiver).await? {
                        delivery.reject(&sent, REFUSED, &why);
                    }
                }
                Verdict::Failed(why) if E::EMPTY_DECIDES => {
                    if self.is_at_fault(self.refusals.count_doubtful(&why), by, receiver).await? {
                        delivery.reject(&sent, REFUSED, &why);
                    }
                }
                Verdict::Failed(why) if delivery.has_failed_for(FAILED_FOR, Instant::now()) => {
                    delivery.reject(&sent, REFUSED, &why);
                }
                Verdict::Failed(why) => {
                    let seconds = FAILED_FOR.as_secs();
                    let why =
                        format!("{why} to a single message, which is set apart if that lasts {seconds} s");
                    return Err(Left { why, has_failed: false });
                }
            }
            if let Some(response) = unread {
                response::finish(response).await;
            }
        }
    }

    /// Whether messages that the receiver refuses are to be rejected.
    ///
    /// # Errors
    /// The receiver is to be left alone for a while.
    async fn is_refused<E: Exchange>(
        &self,
        messages: u64,
        why: &str,
        by: &E,
        receiver: &Receiver,
    ) -> io::Result<bool> {
        if self.refusals.is_first() && !E::EMPTY_DECIDES && receiver.takes_empty.get().is_none() {
            // It works. So if it does not take the same request later, it does not work then.
            let _another_was_first = receiver.takes_empty.set(by.takes_empty(receiver).await);
        }
        let may_tell = E::EMPTY_DECIDES || receiver.takes_empty.get() == Some(&true);
        if may_tell && self.refusals.is_to_ask() && !by.takes_empty(receiver).await {
            return Err(io::Error::other(format!(
                "{why}; it refuses a request without messages, too: repair it"
            )));
        }
        self.is_at_fault(self.refusals.count(messages, why), by, receiver).await
    }

    /// Whether a message that the receiver did not take is to be rejected. After refusals that let the receiver look useless, the
    /// sink asks it with a request without a message, as senders chose the messages. If it takes that, it may have been repaired
    /// since it failed on the message, which is sent once more.
    ///
    /// # Errors
    /// The receiver is to be left alone for a while.
    async fn is_at_fault<E: Exchange>(
        &self,
        counted: Result<(), TooMany>,
        by: &E,
        receiver: &Receiver,
    ) -> io::Result<bool> {
        match counted {
            Ok(()) => Ok(true),
            Err(TooMany::Useless(_)) if E::EMPTY_DECIDES && by.takes_empty(receiver).await => {
                self.refusals.taken();
                Ok(false)
            }
            Err(TooMany::Useless(_)) if !E::EMPTY_DECIDES && self.refusals.is_set_apart(Instant::now()) => {
                Ok(true)
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
            let (sink, receiver, why) = (&self.name, &receiver.uri, errors.join("; "));
            warn!(sink, %receiver, why, silent, "another receiver gets the messages");
        }
    }

    fn confirm_partly(&self, delivery: &mut Delivery, part: &SpanPart, rejected: u64, why: &str) {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner).report();
        if let Some(silent) = log {
            let sink = &self.name;
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
