//! A batch that is published to be committed as a whole (ADR-50).

use async_nats::HeaderMap;
use bbq_sink::Outcomes;

/// Messages of a batch: a server takes 1,000, and two may be bbq's own.
const BATCH_MESSAGES_MAX: usize = 998;
/// Bytes of a batch, unless one message is larger, or another one makes it even: in a cluster a batch is one proposal.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

const BATCH_ID: &str = "Nats-Batch-Id";
const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
const BATCH_COMMIT: &str = "Nats-Batch-Commit";
const EXPECTED_LAST: &str = "Nats-Expected-Last-Subject-Sequence";

/// See the module. Where `last` is asked for, it is the place in the stream of the last message before the batch.
pub(super) struct Batch {
    pub(super) number: u64,
    id: String,
    /// Published so far.
    pub(super) messages: usize,
    /// Of their payloads.
    pub(super) bytes: usize,
    pub(super) outcomes: Outcomes,
}

impl Batch {
    /// The id is unique among the batches of all writers of a stream that are on their way.
    pub(super) fn new(number: u64, writer: &str) -> Batch {
        let id = format!("{}{number:x}", &writer[..8.min(writer.len())]);
        Batch { number, id, messages: 0, bytes: 0, outcomes: Outcomes::default() }
    }

    pub(super) fn is_full(&self, last: u64) -> bool {
        self.room(last) == (0, 0)
    }

    /// How many messages may be added, and how many bytes unless one message is larger. A full batch is even, if it can be.
    pub(super) fn room(&self, last: u64) -> (usize, usize) {
        let has_enough = self.messages + 1 >= BATCH_MESSAGES_MAX || self.bytes >= BATCH_BYTES_MAX;
        if !has_enough {
            (BATCH_MESSAGES_MAX - 1 - self.messages, BATCH_BYTES_MAX - self.bytes)
        } else if self.is_even(last) || self.messages >= BATCH_MESSAGES_MAX {
            (0, 0)
        } else {
            (1, 1)
        }
    }

    /// Whether its mark gets an even place.
    pub(super) fn is_even(&self, last: u64) -> bool {
        self.mark(last).is_multiple_of(2)
    }

    /// Where its mark comes, behind the messages and the progress, if nobody else publishes meanwhile.
    pub(super) fn mark(&self, last: u64) -> u64 {
        last + self.messages as u64 + 2
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

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(messages: usize, bytes: usize) -> Batch {
        Batch { messages, bytes, ..Batch::new(1, "writer") }
    }

    #[test]
    fn a_full_batch_is_even() {
        for last in [0, 1, 1000, 1001] {
            let mut batch = batch(0, 0);
            while !batch.is_full(last) {
                let (messages, bytes) = batch.room(last);
                assert!(messages > 0 && bytes > 0);
                batch.messages += messages;
            }
            assert!(batch.is_even(last) && batch.messages >= 997 && batch.messages <= 998, "{last}");
        }
        assert_eq!(batch(10, BATCH_BYTES_MAX).room(0), (0, 0));
        assert_eq!(batch(10, BATCH_BYTES_MAX).room(1), (1, 1));
        // Others published while it was filled.
        assert!(batch(998, 0).is_full(1));
    }
}
