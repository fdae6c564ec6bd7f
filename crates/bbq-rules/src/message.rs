//! A message as rules see it.

use bbq_wire::batch::{self, Output};
use bbq_wire::{Peer, SourceKind, StreamId};

/// A message, and what is known of it.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    /// The bytes as they came, or as they are stored.
    pub record: &'a [u8],
    /// The protocol that it came by.
    pub source: SourceKind,
    /// The name of the listener or reader that received it first.
    pub listener: &'a str,
    /// Who sent it.
    pub peer: Peer,
    /// When it was received, in nanoseconds since 1970-01-01 UTC: syslog's times without a year are of the nearest year.
    pub received_ns: u64,
    /// Its stream.
    pub stream: StreamId,
    /// Its number in the stream; for a listener whose messages have no numbers yet, the number of its arrival.
    pub sequence: u64,
    /// What its reader says of it.
    pub attributes: Attributes<'a>,
}

/// What the reader of a message says of it.
#[derive(Clone, Debug, Default)]
pub struct Attributes<'a> {
    /// The fields of its file or container.
    pub fields: FieldSet<'a>,
    /// Which output of a container wrote it.
    pub output: Output,
}

/// The fields of a file or container: as a batch has them, or before there is a batch.
#[derive(Clone, Debug)]
pub enum FieldSet<'a> {
    /// Names and values.
    Pairs(&'a [(&'static str, String)]),
    /// Those of a batch.
    Batch(batch::Fields<'a>),
}

impl Default for FieldSet<'_> {
    fn default() -> Self {
        FieldSet::Pairs(&[])
    }
}

impl<'a> FieldSet<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        match self {
            FieldSet::Pairs(pairs) => {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
            }
            FieldSet::Batch(fields) => {
                fields.clone().find(|(known, _)| *known == name).map(|(_, value)| value)
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            FieldSet::Pairs(pairs) => pairs.len(),
            FieldSet::Batch(fields) => fields.clone().count(),
        }
    }
}

/// Memory that is used again from message to message, for one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    peer: Option<Peer>,
    peer_text: String,
}

impl Scratch {
    /// The address of a peer as text; nothing for one that has none. Messages of a peer come in a row, so it is written once for them.
    pub(crate) fn peer(&mut self, peer: Peer) -> &str {
        if self.peer != Some(peer) {
            self.peer = Some(peer);
            self.peer_text.clear();
            if let Peer::Inet(address) = peer {
                // Writing to a String cannot fail.
                let _infallible = std::fmt::Write::write_fmt(&mut self.peer_text, format_args!("{address}"));
            }
        }
        &self.peer_text
    }
}
