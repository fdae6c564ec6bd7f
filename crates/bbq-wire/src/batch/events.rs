//! Messages with what their sender says of each: what a parser of another program's protocol finds in a request.
//!
//! A batch has the same in its attributes ([`BatchBuilder::set_detail`], [`BatchBuilder::set_record_fields`]).

use super::attributes::{DETAIL_BYTES, Detail, Fields, Output, encode_fields};
use super::builder::BatchBuilder;
use crate::{Peer, varint};

/// A message, and what its sender says of it.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    /// The message.
    pub message: &'a [u8],
    /// When it was written, in nanoseconds since 1970-01-01 UTC; 0 if that is unknown.
    pub time_ns: u64,
    /// Names and values.
    pub fields: Fields<'a>,
}

/// Messages in the order of the request. Each is of less than 4 GiB, with all others.
#[derive(Clone, Debug, Default)]
pub struct Events {
    messages: Vec<u8>,
    /// Encoded sets of fields, of which neighbours with the same fields share one.
    sets: Vec<u8>,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    message_end: u32,
    set: (u32, u32),
    time_ns: u64,
}

impl Event<'_> {
    /// Adds the message to a batch. The caller leaves room for it ([`Events::body_bytes_max`]).
    pub fn push_to(&self, batch: &mut BatchBuilder, peer: Peer) {
        batch.push_from(self.message, peer);
        if self.time_ns > 0 {
            batch.set_detail(Detail { time_ns: self.time_ns, output: Output::Unknown });
        }
        let fields = self.fields.encoded();
        if !fields.is_empty() {
            batch.set_encoded_fields(fields);
        }
    }
}

impl Events {
    /// Adds a message with its fields. What is over the limits of fields is cut off or left out.
    pub fn push<'a>(
        &mut self,
        message: &[u8],
        time_ns: u64,
        fields: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let from = self.sets.len();
        encode_fields(fields, &mut self.sets);
        let new = from..self.sets.len();
        let last = self.rows.last().map_or(0..0, |row| row.set.0 as usize..row.set.1 as usize);
        let set = if self.sets[new.clone()] == self.sets[last.clone()] {
            self.sets.truncate(from);
            last
        } else {
            new
        };
        self.messages.extend_from_slice(message);
        self.rows.push(Row {
            message_end: self.messages.len() as u32,
            set: (set.start as u32, set.end as u32),
            time_ns,
        });
    }

    /// The number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The messages with what is said of them.
    pub fn iter(&self) -> impl Iterator<Item = Event<'_>> + Clone {
        let starts = [0].into_iter().chain(self.rows.iter().map(|row| row.message_end as usize));
        starts.zip(&self.rows).map(|(start, row)| Event {
            message: &self.messages[start..row.message_end as usize],
            time_ns: row.time_ns,
            fields: Fields::of(&self.sets[row.set.0 as usize..row.set.1 as usize]),
        })
    }

    /// The memory that they hold.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.messages.capacity() + self.sets.capacity() + self.rows.capacity() * size_of::<Row>()
    }

    /// The most bytes that they take in the body of a batch.
    #[must_use]
    pub fn body_bytes_max(&self) -> usize {
        let of_each = 2 * varint::BYTES_MAX + DETAIL_BYTES;
        self.messages.len() + self.sets.len() + self.rows.len() * (of_each + varint::BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::builder::BatchIdentity;
    use super::super::view::BatchLimits;
    use super::*;
    use crate::{Batch, Compression, SourceKind, StreamId};

    #[test]
    fn what_is_said_of_messages_is_in_the_batch_that_is_built_of_them() {
        let mut events = Events::default();
        let labels = [("app", "shop"), ("level", "info")];
        events.push(b"one", 5, labels.into_iter());
        events.push(b"two", 0, labels.into_iter());
        events.push(b"", 7, [].into_iter());
        events.push(b"four", 0, [("app", "x")].into_iter());
        assert_eq!(events.len(), 4);
        let mut builder = BatchBuilder::new();
        events.iter().for_each(|event| event.push_to(&mut builder, Peer::Unnamed));
        let identity = BatchIdentity {
            stream: StreamId([1; 16]),
            first_sequence: 1,
            base_time_ns: 0,
            source: SourceKind::Http,
            compression: Compression::None,
        };
        let bytes = builder.finish(&identity).unwrap().to_vec();
        assert!(bytes.len() <= crate::limits::BATCH_HEADER_BYTES + events.body_bytes_max() + 64);
        let mut scratch = Vec::new();
        let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
        let messages: Vec<_> = batch.records().collect();
        assert_eq!(messages, [&b"one"[..], b"two", b"", b"four"]);
        let times: Vec<_> = batch.details().map(|detail| detail.time_ns).collect();
        assert_eq!(times, [5, 0, 7, 0]);
        let fields: Vec<Vec<_>> = batch.record_fields().map(Iterator::collect).collect();
        assert_eq!(fields, [labels.to_vec(), labels.to_vec(), vec![], vec![("app", "x")]]);
    }
}
