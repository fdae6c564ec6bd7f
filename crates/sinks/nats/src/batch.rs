//! A batch that is published to be committed as a whole (ADR-50).

use async_nats::{HeaderMap, Subject};
use bbq_sink::Outcomes;

/// Messages of a batch: a server takes 1,000, of which one is about the progress, and one is a mark.
const MESSAGES_MAX: usize = 998;

const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";
const EXPECTED_LAST: &str = "Nats-Expected-Last-Subject-Sequence";
const EXPECTED_LAST_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence-Subject";

/// See the module.
pub(super) struct Batch {
    pub(super) number: u64,
    id: String,
    /// Published so far.
    pub(super) messages: usize,
    /// Of their payloads.
    pub(super) bytes: usize,
    /// The same when it is full; see [`super::pipeline`].
    bytes_max: usize,
    pub(super) outcomes: Outcomes,
    /// Of the last message.
    pub(super) subject: Option<Subject>,
    /// A message whose subject is forbidden is set apart with it: its subject. That is right only if another one is taken.
    pub(super) forbidden: Option<Subject>,
}

impl Batch {
    /// The id is unique among the batches of all writers of a stream: a connection that was given up may still send what it has.
    pub(super) fn new(number: u64, epoch: &str, bytes_max: usize) -> Batch {
        let id = format!("{epoch}-{number:x}");
        Batch {
            number,
            id,
            messages: 0,
            bytes: 0,
            bytes_max,
            outcomes: Outcomes::default(),
            subject: None,
            forbidden: None,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.messages >= MESSAGES_MAX || self.bytes >= self.bytes_max
    }

    /// How many messages may be added, and how many bytes unless one message is larger.
    pub(super) fn room(&self) -> (usize, usize) {
        (MESSAGES_MAX.saturating_sub(self.messages), self.bytes_max.saturating_sub(self.bytes))
    }

    /// Adds the headers of its next message.
    pub(super) fn add_headers(&mut self, headers: &mut HeaderMap) {
        self.messages += 1;
        headers.insert(BATCH_ID, self.id.as_str());
        headers.insert(BATCH_SEQUENCE, self.messages.to_string());
    }

    /// The same for the last one.
    pub(super) fn add_last_headers(&mut self, headers: &mut HeaderMap) {
        self.add_headers(headers);
        headers.insert(BATCH_COMMIT, "1");
    }
}

/// The server is to take the message only if this is the place of the last one of its subject, and 0 if there is none.
pub(super) fn expect(headers: &mut HeaderMap, last: u64) {
    headers.insert(EXPECTED_LAST, last.to_string());
}

/// The same for the last one of another subject.
pub(super) fn expect_of(headers: &mut HeaderMap, subject: &str, last: u64) {
    expect(headers, last);
    headers.insert(EXPECTED_LAST_SUBJECT, subject);
}
