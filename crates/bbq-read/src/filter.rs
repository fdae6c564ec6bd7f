//! The rules of a reader: they leave lines and events out and replace in them, before a batch is built.
//!
//! The number of a record is known when its batch is complete. So a share is chosen by the stream and a position in the piece that is read,
//! behind the position at which the piece begins.

use bbq_rules::{Attributes, FieldSet, Filter, Message};
use bbq_wire::batch::{BatchBuilder, Detail};
use bbq_wire::{Peer, SourceKind, StreamId};

/// The records of a piece of a file on their way to a batch.
pub(crate) struct Records<'a> {
    pub(crate) batch: &'a mut BatchBuilder,
    /// `None` if all are kept as they are.
    pub(crate) filter: Option<(&'a mut Filter, OfFile<'a>)>,
    /// How many were left out.
    pub(crate) filtered: u64,
}

/// What is known of the file.
#[derive(Clone, Copy)]
pub(crate) struct OfFile<'a> {
    pub(crate) reader: &'a str,
    pub(crate) stream: StreamId,
    pub(crate) fields: &'a [(&'static str, String)],
    /// The byte at which the piece begins.
    pub(crate) from: u64,
}

impl Records<'_> {
    /// Adds a record that ends at this position of the piece.
    pub(crate) fn push(&mut self, record: &[u8], detail: Detail, end: usize) {
        let record = match &mut self.filter {
            None => record,
            Some((filter, file)) => {
                let message = Message {
                    record,
                    source: SourceKind::Lines,
                    listener: file.reader,
                    peer: Peer::Unnamed,
                    // No rule asks for the time of a header.
                    received_ns: 0,
                    stream: file.stream,
                    sequence: file.from + end as u64,
                    attributes: Attributes { fields: FieldSet::Pairs(file.fields), output: detail.output },
                };
                match filter.pass(&message) {
                    Some(record) => record,
                    None => {
                        self.filtered += 1;
                        return;
                    }
                }
            }
        };
        self.batch.push(record);
        if detail != Detail::default() {
            self.batch.set_detail(detail);
        }
    }
}
