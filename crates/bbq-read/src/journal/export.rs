//! The export format of the journal (<https://systemd.io/JOURNAL_EXPORT_FORMATS/>), in any pieces, in bounded memory.
//!
//! ```text
//! __CURSOR=s=...;i=...
//! PRIORITY=6                     text: name, =, value, line feed
//! MESSAGE                        binary: name, line feed,
//! <8 bytes><value>               length (little-endian), value, line feed
//!                                an empty line ends the entry
//! ```
//!
//! Invariant: of an entry no more is kept than the message up to its limit, the wanted fields up to theirs, and the cursor.
//! Invariant: whatever the bytes are, the result is entries or an error, and never a panic.

use std::ops::Range;
use std::sync::Arc;

use bbq_wire::limits::FIELD_VALUE_BYTES_MAX;
use memchr::memchr;

use super::cursor::Cursor;

/// Bytes of the name of a field: journald takes no longer ones.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a cursor: systemd's have about 140.
const CURSOR_BYTES_MAX: usize = 512;
/// Bytes of a machine id.
const MACHINE_BYTES_MAX: usize = 32;
/// Bytes of a value: systemd takes no larger one (768 MiB).
const VALUE_BYTES_MAX: u64 = 768 * 1024 * 1024;
/// Bytes of an entry: systemd's own limit is below it. Whatever is longer is no entry.
const ENTRY_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Why the bytes are not the export format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A name is empty, too long, or has other bytes than those of a name.
    #[error("the name of a field is not 1 to 64 visible characters")]
    Name,
    /// A value is longer than systemd's limit.
    #[error("a field has more than 768 MiB")]
    ValueTooLong,
    /// No line feed follows a binary value.
    #[error("no line feed follows the value of a binary field")]
    ValueEnd,
    /// An entry is longer than systemd's limit.
    #[error("an entry has more than 2 GiB")]
    EntryTooLong,
    /// An entry has no cursor, or one that cannot be read.
    #[error("an entry has no valid cursor")]
    Cursor,
}

/// An entry, as far as it is wanted.
#[derive(Debug, Default)]
pub struct Entry {
    /// The message, or its first bytes if it is longer than the limit.
    pub message: Vec<u8>,
    /// The bytes of the whole message; `None` if the entry has none.
    pub message_bytes: Option<u64>,
    /// The machine id; empty if the entry has none.
    pub machine: Vec<u8>,
    cursor: Vec<u8>,
    values: Vec<u8>,
    /// The place of the field among the wanted ones, and its value.
    fields: Vec<(usize, Range<usize>)>,
    bytes: u64,
}

impl Entry {
    /// The wanted fields that the entry has: the place of the name among the wanted ones, and the value.
    pub fn fields(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.fields.iter().map(|(field, range)| (*field, self.values.get(range.clone()).unwrap_or_default()))
    }

    /// The same by their names, as text: up to the first byte of a value that is none.
    pub fn named<'a>(&'a self, wanted: &'a [String]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.fields().filter_map(|(field, value)| Some((wanted.get(field)?.as_str(), text(value))))
    }

    /// The memory that it holds.
    #[must_use]
    pub fn memory(&self) -> usize {
        let Entry { message, machine, cursor, values, fields, .. } = self;
        let bytes: usize = [message, machine, cursor, values].into_iter().map(Vec::capacity).sum();
        bytes + fields.capacity() * size_of::<(usize, Range<usize>)>()
    }

    /// The cursor.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn cursor(&self) -> Result<Cursor, ExportError> {
        Cursor::parse(&self.cursor).ok_or(ExportError::Cursor)
    }

    fn clear(&mut self) {
        let Entry { message, message_bytes, machine, cursor, values, fields, bytes } = self;
        (*message_bytes, *bytes) = (None, 0);
        [message, machine, cursor, values].into_iter().for_each(Vec::clear);
        fields.clear();
    }
}

/// What a value is for.
#[derive(Clone, Copy, Debug)]
enum Target {
    Cursor,
    Machine,
    Message,
    /// The last of the entry's fields.
    Field,
    /// Nothing.
    Nobody,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In a name, or at the beginning of one.
    Name,
    Text(Target),
    /// In the length of a binary value, of which so many bytes are known.
    Length(Target, u32, u64),
    Binary(Target, u64),
    /// Behind a binary value.
    End,
}

/// Reads entries from pieces of the format.
#[derive(Debug)]
pub struct Parser {
    wanted: Arc<[String]>,
    message_bytes_max: usize,
    state: State,
    name: Vec<u8>,
    is_begun: bool,
    needs_cursors: bool,
}

impl Parser {
    /// For messages up to this size, and these fields.
    #[must_use]
    pub fn new(wanted: Arc<[String]>, message_bytes_max: usize) -> Parser {
        Parser {
            wanted,
            message_bytes_max,
            state: State::Name,
            name: Vec::new(),
            is_begun: false,
            needs_cursors: true,
        }
    }

    /// Takes entries without a valid cursor, too.
    #[must_use]
    pub fn without_cursors(self) -> Parser {
        Parser { needs_cursors: false, ..self }
    }

    /// Whether an entry has begun and is not complete.
    #[must_use]
    pub fn is_amid(&self) -> bool {
        self.is_begun
    }

    /// Takes bytes from the front of `input` until an entry is complete, or nothing is left. Returns whether `entry` is complete.
    ///
    /// # Errors
    /// The bytes are not of the format. The parser is not used after that.
    pub fn take(&mut self, input: &mut &[u8], entry: &mut Entry) -> Result<bool, ExportError> {
        while !input.is_empty() {
            if !self.is_begun {
                entry.clear();
                self.is_begun = true;
            }
            let before = input.len();
            let is_complete = self.step(input, entry)?;
            entry.bytes += (before - input.len()) as u64;
            if entry.bytes > ENTRY_BYTES_MAX {
                return Err(ExportError::EntryTooLong);
            }
            if is_complete {
                self.is_begun = false;
                // Systemd's tools write an empty line more than once.
                if entry.bytes > 1 {
                    return if self.needs_cursors { entry.cursor().map(|_| true) } else { Ok(true) };
                }
            }
        }
        Ok(false)
    }

    /// Takes a part of one piece of the format. Returns whether it was the end of an entry.
    fn step(&mut self, input: &mut &[u8], entry: &mut Entry) -> Result<bool, ExportError> {
        match self.state {
            State::Name => return self.name(input, entry),
            State::Text(target) => {
                let end = memchr(b'\n', input);
                let value = split(input, end.unwrap_or(input.len()));
                self.keep(target, value, entry);
                if end.is_some() {
                    split(input, 1);
                    self.end_value(entry)?;
                }
            }
            State::Length(target, known, length) => {
                let byte = split(input, 1).first().copied().unwrap_or_default();
                let length = length | u64::from(byte) << (8 * known);
                self.state = State::Length(target, known + 1, length);
                if known == 7 {
                    if length > VALUE_BYTES_MAX {
                        return Err(ExportError::ValueTooLong);
                    }
                    self.state = if length == 0 { State::End } else { State::Binary(target, length) };
                }
            }
            State::Binary(target, left) => {
                let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                let value = split(input, taken);
                self.keep(target, value, entry);
                let left = left - taken as u64;
                self.state = if left == 0 { State::End } else { State::Binary(target, left) };
            }
            State::End => {
                if split(input, 1) != b"\n" {
                    return Err(ExportError::ValueEnd);
                }
                self.end_value(entry)?;
            }
        }
        Ok(false)
    }

    fn name(&mut self, input: &mut &[u8], entry: &mut Entry) -> Result<bool, ExportError> {
        let end = input.iter().position(|byte| matches!(byte, b'=' | b'\n'));
        let part = split(input, end.unwrap_or(input.len()));
        self.name.extend_from_slice(&part[..part.len().min(NAME_BYTES_MAX + 1)]);
        if self.name.len() > NAME_BYTES_MAX || !part.iter().all(u8::is_ascii_graphic) {
            return Err(ExportError::Name);
        }
        let is_text = match end.and_then(|_| split(input, 1).first()) {
            None => return Ok(false),
            Some(end) => *end == b'=',
        };
        if self.name.is_empty() {
            return if is_text { Err(ExportError::Name) } else { Ok(true) };
        }
        let target = self.target(entry);
        self.name.clear();
        self.state = if is_text { State::Text(target) } else { State::Length(target, 0, 0) };
        Ok(false)
    }

    /// What the value of the name is for. If a field comes more than once, the first value counts.
    fn target(&self, entry: &mut Entry) -> Target {
        match self.name.as_slice() {
            b"__CURSOR" if entry.cursor.is_empty() => return Target::Cursor,
            b"MESSAGE" if entry.message_bytes.is_none() => {
                entry.message_bytes = Some(0);
                return Target::Message;
            }
            _ => {}
        }
        let wanted = self.wanted.iter().position(|name| name.as_bytes() == self.name);
        if let Some(field) = wanted.filter(|field| entry.fields.iter().all(|(known, _)| known != field)) {
            entry.fields.push((field, entry.values.len()..entry.values.len()));
            return Target::Field;
        }
        if self.name == b"_MACHINE_ID" && entry.machine.is_empty() { Target::Machine } else { Target::Nobody }
    }

    fn keep(&self, target: Target, value: &[u8], entry: &mut Entry) {
        match target {
            Target::Cursor => keep(value, CURSOR_BYTES_MAX + 1, &mut entry.cursor),
            Target::Machine => keep(value, MACHINE_BYTES_MAX + 1, &mut entry.machine),
            Target::Message => {
                keep(value, self.message_bytes_max, &mut entry.message);
                entry.message_bytes = entry.message_bytes.map(|bytes| bytes + value.len() as u64);
            }
            Target::Field => {
                let Some((_, range)) = entry.fields.last_mut() else { return };
                keep(value, range.start + FIELD_VALUE_BYTES_MAX, &mut entry.values);
                range.end = entry.values.len();
            }
            Target::Nobody => {}
        }
    }

    fn end_value(&mut self, entry: &Entry) -> Result<(), ExportError> {
        self.state = State::Name;
        if self.needs_cursors && entry.cursor.len() > CURSOR_BYTES_MAX {
            Err(ExportError::Cursor)
        } else {
            Ok(())
        }
    }
}

/// Appends what fits under so many bytes.
fn keep(value: &[u8], bytes_max: usize, to: &mut Vec<u8>) {
    let room = bytes_max.saturating_sub(to.len());
    to.extend_from_slice(&value[..value.len().min(room)]);
}

/// The value up to its first byte that is no text.
fn text(value: &[u8]) -> &str {
    value.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// Takes so many bytes from the front.
fn split<'a>(input: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at_checked(bytes).unwrap_or((input, &[]));
    *input = rest;
    taken
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
