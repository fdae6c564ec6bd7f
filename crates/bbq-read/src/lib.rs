//! Reads the files and the journal of a host. Each file is a stream, and the number of a record is its position in the file: the server stores the
//! position with the records, in the same group, so no file of positions can be ahead of the records or behind them.
//!
//! ```text
//! inotify, rescan -> which files there are -> bytes -> lines -> FileBatch -> Store (the server's lanes)
//!                                               ^---------------- Settled: go on after this byte
//! ```
//!
//! Invariant: this crate knows no lanes, workers or sockets. All that it needs of the server is [`Store`].

#![forbid(unsafe_code)]

mod catalog;
mod catalog_file;
mod content;
mod copies;
mod cut;
mod error;
mod events;
mod fields;
mod files;
mod filter;
mod format;
mod glob;
mod hole;
mod identify;
mod identity;
mod journal;
mod known;
mod left;
mod limits;
mod multiline;
mod opening;
mod orphans;
mod reader;
mod rfc3339;
mod scan;
mod source;
mod spec;
mod store;
mod tick;
mod tracked;
mod turn;
mod view;
mod watch;

pub use error::ReadError;
pub use journal::{
    Cursor as JournalCursor, Entry as JournalEntry, ExportError, Parser as JournalParser,
    default_fields as journal_fields,
};
pub use limits::Pace;
pub use reader::Reader;
pub use source::{Source, catalogued};
pub use spec::{ReadSpec, read_options};
pub use store::{FileBatch, Outcome, Settled, Store};
pub use view::{Loss, LossReason, ReaderView};
