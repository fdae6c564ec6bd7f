//! The queue on disk.
//!
//! A spool is a set of *lanes*, one per worker. A lane is an endless sequence of bytes, kept as *segments* (files), to which
//! batches are appended unchanged. Appends collect in memory while the writer thread puts the previous *group* on disk with one
//! write and one `fdatasync`; then the batches of the group are acknowledged. Sinks read the lanes at their own pace through a
//! [`LaneReader`], and keep their position in a [`Cursor`].
//!
//! ```text
//! worker --append--> filling group --taken--> write + fdatasync --> durable --> acknowledgements
//!                                                                          \--> readers, by cursor
//! ```
//!
//! Invariant: a reader never sees what is not durable, so no cursor can be ahead of the lane after a crash.
//! Invariant: only the segments say what is in the queue; there is no index.
//! Invariant: after a failed write or sync the lane never acknowledges again (see [`LaneError::Failed`]).
//! Invariant: the disk is accessed only through [`Storage`].

mod cursor;
mod disk_room;
mod epochs;
mod error;
mod file_name;
mod filling_group;
pub mod format;
mod group;
mod hot;
pub mod inspect;
mod lane;
mod latency;
mod lens;
pub mod limits;
mod lock;
mod lost;
mod no_room;
mod options;
mod progress;
mod quarantine;
mod read_buffer;
mod read_order;
mod reader;
mod recovery;
mod renames;
pub mod sealed;
mod segments;
mod spares;
mod spool;
mod time;
mod usage;
mod walk;
mod writer;

pub use bbq_storage::{DiskStorage, OpenMode, ShownBytes, Storage, StorageFile};
pub use cursor::{Cursor, CursorStore, LanePlace};
pub use disk_room::DiskShortage;
pub use epochs::Epoch;
pub use error::{LaneError, SpoolError};
pub use file_name::file_name_of;
pub use format::{Envelope, NameMark, Sources};
pub use group::{Entry, Group, GroupCursor, Scratch};
pub use lane::{Durable, Lane, LaneCondition, LaneView};
pub use latency::{LATENCY_BUCKETS_US, Latency};
pub use lens::{Hidden, Lens, ParseFields, ParsedRecord, Redact};
pub use lock::DirectoryLock;
pub use lost::{Lost, LostReason};
pub use no_room::NoRoom;
pub use options::{Source, SpoolOptions};
pub use progress::Progress;
pub use read_order::ReadOrder;
pub use reader::{GroupRead, LaneReader, Next};
pub use spool::{Recovered, Spool};
pub use time::SteppedTime;
pub use usage::Usage;
pub use writer::Step;
