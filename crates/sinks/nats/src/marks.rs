//! What keeps batches in order that are on their way together.
//!
//! A batch may only come behind the one before it, whose place in the stream bbq does not know before the server responds. So bbq names the
//! places that it expects. For that a full batch ends with an empty message, its *mark*, on a subject of its own; the batch behind it says on
//! which place the progress and that mark must be:
//!
//! ```text
//! logs.web ..
//! bbq.progress.<id>                     Nats-Expected-Last-Subject-Sequence: <place of the progress before it>
//! bbq.progress.<id>-<epoch>-<number>    Nats-Expected-Last-Subject-Sequence: <place of the mark before it>
//!                                       Nats-Expected-Last-Subject-Sequence-Subject: bbq.progress.<id>-<epoch>-<number - 1>
//! ```
//!
//! A place alone does not say *whose* message is there: when others publish to the stream meanwhile, an older progress may come to the place
//! where a newer one was expected. The mark's subject says it. Each connection has another *epoch*, which no other one ever has, and the places
//! of its marks grow; so a mark is at the expected place only if its own batch is in the stream. If it is not, the server refuses the batch
//! behind it, and all behind that one.
//!
//! What was given up with a connection and still comes is refused as well: it expects the progress at the place of a batch of its own, and
//! whoever wrote progress since then has moved it.

use async_nats::Subject;

/// Subjects of an epoch, which are used one after the other: more than batches are on their way.
const MARKS: u64 = 32;

const _: () =
    assert!(MARKS > super::pipeline::BATCHES_MAX as u64, "a subject is used again when its batch is settled");

/// The marks of a connection.
#[derive(Debug)]
pub(super) struct Marks {
    /// What is in front of the number.
    prefix: String,
}

impl Marks {
    pub(super) fn new(progress: &str, epoch: &str) -> Marks {
        Marks { prefix: format!("{progress}-{epoch}-") }
    }

    /// Of the batch with this number.
    pub(super) fn subject(&self, number: u64) -> Subject {
        format!("{}{}", self.prefix, number % MARKS).into()
    }

    /// Whether a text of the server names a subject of marks.
    pub(super) fn is_named_in(&self, text: &str) -> bool {
        // A server writes subjects as they are; its texts are in small letters here and there.
        text.to_lowercase().contains(&self.prefix.to_lowercase())
    }
}
