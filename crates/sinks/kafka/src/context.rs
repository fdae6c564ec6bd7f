//! What librdkafka tells: its log, its errors, and messages that could not be delivered.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use rdkafka::{ClientContext, Message as _};
use tracing::{debug, info, warn};

/// Most lines of librdkafka in a second: while brokers are away it writes some for each attempt.
const LINES_MAX: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// See the module. librdkafka calls it on the thread that asks for events.
pub(super) struct Context {
    state: Mutex<State>,
}

struct State {
    /// Messages that could not be delivered, and why. At most those of a transaction.
    failures: Vec<Failure>,
    /// Messages that were delivered in a transaction: at most those of one, 24 bytes each.
    delivered: Vec<Delivered>,
    /// Whether all brokers were away.
    were_away: bool,
    /// The last error of the client.
    last_error: Option<(Code, String)>,
    lines_since: Instant,
    lines: u32,
}

/// A message that could not be delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    /// The number that it was sent with.
    pub(super) number: usize,
    pub(super) code: Code,
}

/// A message that was delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    /// The number that it was sent with.
    pub(super) number: usize,
    pub(super) partition: i32,
    /// Negative if the brokers do not tell.
    pub(super) offset: i64,
}

impl Context {
    pub(super) fn new() -> Context {
        let state = State {
            failures: Vec::new(),
            delivered: Vec::new(),
            were_away: false,
            last_error: None,
            lines_since: Instant::now(),
            lines: 0,
        };
        Context { state: Mutex::new(state) }
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn has_failures(&self) -> bool {
        self.with(|state| !state.failures.is_empty())
    }

    pub(super) fn take_failures(&self) -> Vec<Failure> {
        self.with(|state| std::mem::take(&mut state.failures))
    }

    /// Forgets what was delivered before a transaction.
    pub(super) fn forget_delivered(&self) {
        self.with(|state| state.delivered.clear());
    }

    /// What was delivered since.
    pub(super) fn with_delivered<T>(&self, look: impl FnOnce(&[Delivered]) -> T) -> T {
        self.with(|state| look(&state.delivered))
    }

    /// Whether all brokers were away since this was asked last, as far as librdkafka knows.
    pub(super) fn take_were_away(&self) -> bool {
        self.with(|state| std::mem::take(&mut state.were_away))
    }

    pub(super) fn last_error(&self) -> Option<(Code, String)> {
        self.with(|state| state.last_error.clone())
    }

    pub(super) fn forget_error(&self) {
        self.with(|state| state.last_error = None);
    }

    /// Whether another line may be logged.
    fn may_log(&self) -> bool {
        self.with(|state| {
            if state.lines_since.elapsed() >= SECOND {
                (state.lines_since, state.lines) = (Instant::now(), 0);
            }
            state.lines += 1;
            state.lines <= LINES_MAX
        })
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if !self.may_log() {
            return;
        }
        match level {
            RDKafkaLogLevel::Debug => debug!(target: "librdkafka", facility, "{message}"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                info!(target: "librdkafka", facility, "{message}")
            }
            // What is an error for bbq, bbq says itself.
            _ => warn!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(code) = error.rdkafka_error_code() {
            self.with(|state| {
                state.were_away |= code == Code::AllBrokersDown;
                // It follows the error that says why.
                if code != Code::AllBrokersDown || state.last_error.is_none() {
                    state.last_error = Some((code, reason.to_owned()));
                }
            });
        }
    }
}

impl ConsumerContext for Context {}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    /// Without transactions, called for failures alone (`delivery.report.only.error`).
    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        match result {
            Ok(message) => {
                let delivered =
                    Delivered { number, partition: message.partition(), offset: message.offset() };
                self.with(|state| state.delivered.push(delivered));
            }
            Err((error, _)) => {
                let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
                self.with(|state| state.failures.push(Failure { number, code }));
            }
        }
    }
}
