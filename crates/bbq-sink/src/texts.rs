//! Messages as a broker gets them, each by itself: without the line feed that ends one in a file.

use std::ops::Range;

use bbq_format::otlp::put_body;
use bbq_format::{Format, Formatter};
use bbq_spool::Entry;
use bbq_wire::SourceKind;

/// The texts of an entry, unless its records are the texts. Has the memory for it.
pub struct Texts {
    format: Format,
    text: Vec<u8>,
    /// Behind the line feed of each.
    ends: Vec<usize>,
}

impl Texts {
    /// For messages in this format.
    pub fn new(format: Format) -> Texts {
        Texts { format, text: Vec::new(), ends: Vec::new() }
    }

    /// Makes the texts of a batch.
    pub fn make(&mut self, entry: &Entry<'_>) {
        self.text.clear();
        self.ends.clear();
        if self.format != Format::Raw {
            Formatter::new(self.format).append_with_ends(entry, &mut self.text, &mut self.ends);
        } else if entry.batch.header.source == SourceKind::Otlp {
            for record in entry.batch.records() {
                put_body(record, &mut self.text);
                // As behind a formatted one.
                self.text.push(b'\n');
                self.ends.push(self.text.len());
            }
        }
    }

    /// The text of a record of the entry.
    pub fn get<'a>(&'a self, index: usize, record: &'a [u8]) -> &'a [u8] {
        if self.ends.is_empty() { record } else { &self.text[self.range(index)] }
    }

    fn range(&self, index: usize) -> Range<usize> {
        let begin = index.checked_sub(1).map_or(0, |last| self.ends[last]);
        begin..self.ends[index].saturating_sub(1).max(begin)
    }
}
