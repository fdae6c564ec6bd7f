//! The fields that rules find in messages, as members of the messages' JSON.
//!
//! ```text
//! "parsed":{"level":"warn","status":500},"parsed_omitted":3
//! ```
//!
//! Which fields a message has is decided where the group is read (`bbq_spool::ParseFields`); here they are only placed.

use std::io::Write as _;

use bbq_spool::{Entry, ParsedRecord};

/// The members of one message after the other. Has the memory for one.
pub(crate) struct ParsedMembers<'a> {
    entry: &'a Entry<'a>,
    members: Vec<u8>,
}

impl<'a> ParsedMembers<'a> {
    /// For the messages of this entry.
    pub(crate) fn of(entry: &'a Entry<'a>) -> ParsedMembers<'a> {
        ParsedMembers { entry, members: Vec::new() }
    }

    /// The members of a message, each behind a comma; none if nothing was found in it.
    #[inline]
    pub(crate) fn of_message(&mut self, message: &[u8]) -> &[u8] {
        if self.entry.parser.is_none() { &[] } else { self.find(message) }
    }

    fn find(&mut self, message: &[u8]) -> &[u8] {
        let ParsedMembers { entry, members } = self;
        let Some(parser) = entry.parser else { return &[] };
        members.clear();
        members.extend_from_slice(b",\"parsed\":");
        let record =
            ParsedRecord { listener: entry.source, source: entry.batch.header.source, bytes: message };
        let Some(omitted) = parser.put_json(&record, members) else { return &[] };
        if omitted > 0 {
            // Writing to a Vec cannot fail.
            let _infallible = write!(members, ",\"parsed_omitted\":{omitted}");
        }
        members
    }
}
