//! Delivers a span by requests: puts as many messages into each as fit, and does what the response says of them. After an error the next
//! receiver (`receivers`) gets what is left.
//!
//! Not here: what a request is, and what a response means (`Exchange`).

use std::fmt::Display;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bbq_spec::RateLimitedLog;
use tracing::warn;

use super::answer::{Answer, Verdict};
use super::body_bytes::BodyBytes;
use super::clock::Clock;
use super::concurrency::{Concurrency, InFlight};
use super::exchange::Exchange;
use super::options::RequestOptions;
use super::receivers::{Receiver, Receivers};
use super::refusals::{FAILED_FOR, Refusals, TooMany};
use crate::ledger::REFUSED;
use crate::span::{Delivery, SpanPart};

/// Why messages are rejected of which the receiver says only how many they are.
const PARTIAL_SUCCESS: &str = "partial_success";
/// A time-out is told by the sink itself: this is for what hangs in spite of it.
const BEYOND_TIMEOUT: Duration = Duration::from_secs(10);

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

/// A request that was answered.
struct Request<'a> {
    sent: &'a SpanPart,
    bytes: usize,
    /// Until the answer.
    took: Duration,
    in_flight: InFlight<'a>,
}

/// See the module.
pub(super) struct Policy<S> {
    receivers: Receivers<S>,
    refusals: Refusals,
    /// Of the sink, for the log.
    name: String,
    /// Lines about partial successes.
    log: Mutex<RateLimitedLog>,
    /// Lines about the receiver in use.
    changes: Mutex<RateLimitedLog>,
    body_bytes: BodyBytes,
    concurrency: Concurrency,
    /// For a request and its response.
    timeout: Duration,
    clock: Clock,
}

impl<S: Display + Send + Sync> Policy<S> {
    /// With `keeps_cuts`, the receivers know messages by their part, which begins and ends at the same messages each time.
    pub(super) fn new(
        name: String,
        servers: Vec<S>,
        refusals: Refusals,
        keeps_cuts: bool,
        options: RequestOptions,
        clock: Clock,
    ) -> Policy<S> {
        Policy {
            receivers: Receivers::new(servers, &clock),
            refusals,
            name,
            log: Mutex::default(),
            changes: Mutex::default(),
            body_bytes: BodyBytes::new(keeps_cuts),
            concurrency: Concurrency::new(options.in_flight),
            timeout: options.timeout,
            clock,
        }
    }

    /// What the cursor remembers; see [`Sink::state`](crate::Sink::state).
    pub(super) fn state(&self) -> String {
        self.refusals.state()
    }

    /// Most deliveries at a time.
    pub(super) fn in_flight_max(&self) -> usize {
        self.concurrency.now()
    }

    /// See [`Sink::takes_within`](crate::Sink::takes_within): over all receivers.
    pub(super) fn takes_within(&self) -> Duration {
        let receivers = u32::try_from(self.receivers.count()).unwrap_or(u32::MAX);
        (self.timeout + BEYOND_TIMEOUT).saturating_mul(receivers)
    }

    /// Delivers the rest of a span, or rejects it. Each receiver has an attempt before the function returns an error. After that it
    /// is called again for what is left then.
    pub(super) async fn deliver(
        &self,
        delivery: &mut Delivery,
        by: &impl Exchange<Server = S>,
    ) -> io::Result<()> {
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
    async fn deliver_to<E: Exchange<Server = S>>(
        &self,
        receiver: &Receiver<S>,
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
            let (bytes, records, begun) = (text.len(), sent.part.records, self.clock.now());
            let in_flight = self.concurrency.begin();
            let asked = self.in_time(receiver, by.exchange(receiver, text, &sent.part)).await;
            let Answer { verdict, has_taken_some, rest } = match asked {
                Ok(answer) => answer,
                Err(error) => {
                    in_flight.overloaded();
                    if error.kind() == io::ErrorKind::TimedOut && records > 1 && self.body_bytes.may_shrink()
                    {
                        self.body_bytes.late(bytes);
                        delivery.halve(&sent);
                    }
                    delivery.forget_failure_unless(has_others);
                    return Err(error.into());
                }
            };
            if has_taken_some {
                self.refusals.taken();
            }
            let request = Request { sent: &sent, bytes, took: self.clock.now() - begun, in_flight };
            self.carry_out(verdict, &request, delivery, by, (receiver, has_others)).await?;
            if let Some(rest) = rest {
                rest.await;
            }
        }
    }

    /// Does what a verdict says of the messages of a request.
    async fn carry_out<E: Exchange<Server = S>>(
        &self,
        verdict: Verdict,
        Request { sent, bytes, took, in_flight }: &Request<'_>,
        delivery: &mut Delivery,
        by: &E,
        (receiver, has_others): (&Receiver<S>, bool),
    ) -> Result<(), Left> {
        let records = sent.part.records;
        match verdict {
            Verdict::Taken => {
                self.body_bytes.taken(*took, self.timeout);
                in_flight.taken(*took);
                self.refusals.taken();
                delivery.confirm(sent);
            }
            Verdict::Partly { rejected, why } if rejected < records => {
                self.confirm_partly(delivery, sent, rejected, &why);
            }
            Verdict::Partly { why, .. } => {
                // It is known which ones: all.
                if self.is_refused(records, &why, by, receiver).await? {
                    delivery.reject(sent, REFUSED, &why);
                }
            }
            Verdict::Later(why) => {
                in_flight.overloaded();
                delivery.forget_failure_unless(has_others);
                return Err(Left { why, has_failed: false });
            }
            Verdict::Failed(why) if has_others => return Err(Left { why, has_failed: true }),
            Verdict::TooLarge(_) if records > 1 => {
                self.body_bytes.too_large(*bytes);
                delivery.halve(sent);
            }
            Verdict::Refused(_) | Verdict::Failed(_) if records > 1 => delivery.halve(sent),
            Verdict::Refused(why) | Verdict::TooLarge(why) => {
                if self.is_refused(1, &why, by, receiver).await? {
                    delivery.reject(sent, REFUSED, &why);
                }
            }
            Verdict::Failed(why) if E::EMPTY_DECIDES => {
                if self.is_at_fault(self.refusals.count_doubtful(&why), by, receiver).await? {
                    delivery.reject(sent, REFUSED, &why);
                }
            }
            Verdict::Failed(why) if delivery.has_failed_for(FAILED_FOR, self.clock.now()) => {
                delivery.reject(sent, REFUSED, &why);
            }
            Verdict::Failed(why) => {
                let seconds = FAILED_FOR.as_secs();
                let why = format!(
                    "{why} to a single message, which becomes a dead letter if that lasts {seconds} s"
                );
                return Err(Left { why, has_failed: false });
            }
        }
        Ok(())
    }

    /// Whether messages that the receiver refuses are to be rejected.
    ///
    /// # Errors
    /// The receiver is to be left alone for a while.
    async fn is_refused<E: Exchange<Server = S>>(
        &self,
        messages: u64,
        why: &str,
        by: &E,
        receiver: &Receiver<S>,
    ) -> io::Result<bool> {
        if self.refusals.is_first() && !E::EMPTY_DECIDES && receiver.takes_empty.get().is_none() {
            // It works. So if it does not take the same request later, it does not work then.
            let _another_was_first = receiver.takes_empty.set(self.takes_empty(receiver, by).await);
        }
        let may_tell = E::EMPTY_DECIDES || receiver.takes_empty.get() == Some(&true);
        if may_tell && self.refusals.is_to_ask() {
            if !self.takes_empty(receiver, by).await {
                return Err(io::Error::other(format!(
                    "{why}; it also refuses a request without messages: repair that server"
                )));
            }
            self.refusals.asked();
        }
        self.is_at_fault(self.refusals.count(messages, why), by, receiver).await
    }

    /// Whether a message that the receiver did not take is to be rejected. After refusals that let the receiver look useless, the
    /// sink asks it with a request without a message, as senders chose the messages. If it takes that, it may have been repaired
    /// since it failed on the message, which is sent once more.
    ///
    /// # Errors
    /// The receiver is to be left alone for a while.
    async fn is_at_fault<E: Exchange<Server = S>>(
        &self,
        counted: Result<(), TooMany>,
        by: &E,
        receiver: &Receiver<S>,
    ) -> io::Result<bool> {
        match counted {
            Ok(()) => Ok(true),
            Err(TooMany::Useless(_)) if E::EMPTY_DECIDES && self.takes_empty(receiver, by).await => {
                self.refusals.taken();
                Ok(false)
            }
            Err(TooMany::Useless(_)) if !E::EMPTY_DECIDES && self.refusals.is_set_apart(self.clock.now()) => {
                Ok(true)
            }
            Err(TooMany::Useless(why) | TooMany::InARow(why)) => Err(io::Error::other(why)),
        }
    }

    /// Waits for a receiver no longer than it may take.
    async fn in_time<T>(
        &self,
        receiver: &Receiver<S>,
        request: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        self.clock.within(self.timeout, request).await.unwrap_or_else(|| {
            let (server, seconds) = (&receiver.server, self.timeout.as_secs());
            let text = format!("{server} did not respond within {seconds} s");
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    /// Whether a receiver takes a request without a message. One that does not respond does not.
    async fn takes_empty(&self, receiver: &Receiver<S>, by: &impl Exchange<Server = S>) -> bool {
        self.clock.within(self.timeout, by.takes_empty(receiver)).await.unwrap_or(false)
    }

    /// Says which receiver has taken messages after the errors of those before it.
    fn note_change(&self, receiver: &Receiver<S>, errors: &[String]) {
        let log = || self.changes.lock().unwrap_or_else(PoisonError::into_inner).report();
        if !errors.is_empty()
            && let Some(silent) = log()
        {
            let (sink, receiver, why) = (&self.name, &receiver.server, errors.join("; "));
            warn!(sink, %receiver, why, silent, "switched to another receiver for the messages");
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
                "the destination took a request and complained: {why}"
            );
        }
        self.refusals.taken();
        delivery.confirm_partly(part, rejected, PARTIAL_SUCCESS);
    }
}
