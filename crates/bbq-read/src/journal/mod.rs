//! The journal of systemd, read through `journalctl --output=export --follow`.
//!
//! ```text
//! journalctl -> pipe -> `export` -> entries -> a batch for each sequence number id -> Store (the server's lanes)
//!     ^                                            ^---- entries whose number is known are left out
//!     +---- `headers`, `progress`: where it begins; only a hint, at or before the first entry that is not on disk
//! ```
//!
//! An entry has a number, which grows within a *sequence number id* (`s` and `i` of its cursor). So each id is a stream, and the number of
//! an entry its position, as the byte is in a file.
//!
//! Invariant: whether an entry is new is decided by its number alone, and never by the place at which journalctl begins.
//! Invariant: an id is in the catalog on disk before the first batch of its stream is handed over.

mod beginning;
mod catalog;
mod child;
mod cursor;
mod export;
mod gaps;
mod headers;
mod progress;
mod reader;
pub(crate) mod rules;
mod start;
mod streams;
mod take;

pub(crate) use catalog::catalogued;
pub use cursor::Cursor;
pub use export::{Entry, ExportError, Parser};
pub(crate) use reader::JournalReader;
pub use rules::default_fields;
