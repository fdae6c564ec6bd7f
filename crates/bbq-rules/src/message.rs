//! A message as rules see it.

use bbq_format::syslog::SyslogFields;
use bbq_format::{FIELD_ALIASES, journal};
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
    /// Those of an entry of the journal, before there is a batch.
    Entry(&'a [(&'a str, &'a str)]),
    /// Those of a batch.
    Batch(batch::Fields<'a>),
    /// Those of a batch, and those of a record of its own.
    Record(batch::Fields<'a>, batch::Fields<'a>),
}

impl Default for FieldSet<'_> {
    fn default() -> Self {
        FieldSet::Pairs(&[])
    }
}

impl<'a> FieldSet<'a> {
    /// The value of a field, by its whole name or its short one.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        let whole = || FIELD_ALIASES.iter().find(|(short, _)| *short == name).map(|(_, whole)| *whole);
        self.by_name(name).or_else(|| self.by_name(whole()?))
    }

    fn by_name(&self, name: &str) -> Option<&'a str> {
        match self {
            FieldSet::Pairs(pairs) => {
                pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
            }
            FieldSet::Entry(pairs) => pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value),
            FieldSet::Batch(fields) => of_batch(fields, name),
            FieldSet::Record(fields, own) => of_batch(own, name).or_else(|| of_batch(fields, name)),
        }
    }

    /// What the journal says of an entry.
    pub(crate) fn of_journal(&self, name: &str) -> Option<&'a str> {
        if self.is_of_journal() { self.get(name) } else { None }
    }

    pub(crate) fn is_of_journal(&self) -> bool {
        matches!(self, FieldSet::Entry(_) | FieldSet::Record(..))
    }

    /// The fields of an entry by the names of syslog; none of other messages.
    pub(crate) fn of_syslog(&self) -> Option<SyslogFields> {
        match self {
            FieldSet::Entry(pairs) => Some(journal::fields(pairs.iter().copied())),
            FieldSet::Record(_, own) => Some(journal::fields(own.clone())),
            FieldSet::Pairs(_) | FieldSet::Batch(_) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            FieldSet::Pairs(pairs) => pairs.len(),
            FieldSet::Entry(pairs) => pairs.len(),
            FieldSet::Batch(fields) => fields.clone().count(),
            FieldSet::Record(fields, own) => fields.clone().count() + own.clone().count(),
        }
    }
}

fn of_batch<'a>(fields: &batch::Fields<'a>, name: &str) -> Option<&'a str> {
    fields.clone().find(|(known, _)| *known == name).map(|(_, value)| value)
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
