//! What a reader needs of the server.

use std::io;
use std::os::fd::BorrowedFd;

use bbq_wire::StreamId;

/// Whole records of one file, in the order of the file.
///
/// The batch settles the bytes from `from` to `to`. Its records have the numbers `to - records + 1 ..= to`, and the batch gives up the
/// numbers before them from `from + 1` on. As each record takes at least one byte of the file, the numbers always suffice. So the
/// known numbers of the stream are one range from 1 on, and its end is the byte at which the next start goes on.
#[derive(Debug)]
pub struct FileBatch {
    /// The stream of the file.
    pub stream: StreamId,
    /// The byte behind the previous batch of the stream, from 0.
    pub from: u64,
    /// The byte behind the last record.
    pub to: u64,
    /// How many records it has, at least 1.
    pub records: u32,
    /// The batch of `bbq_wire`, complete: header, records, attributes.
    pub bytes: Vec<u8>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The batch is in a lane, and the next batch of its stream may be handed over. It may not be on disk yet.
    Appended,
    /// It is on disk.
    Durable,
    /// It was not appended, for now: the lane had no room, or earlier batches were in another lane. The reader hands the same bytes
    /// over again.
    Later,
    /// A lane failed. Whether the batch is on disk shows when the server starts again; until then nothing more of the stream is taken.
    Failed,
}

/// The outcome of a batch that was handed over. A batch that is appended has two: `Appended`, then `Durable` or `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The stream.
    pub stream: StreamId,
    /// [`FileBatch::to`] of the batch.
    pub to: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// The server, as a reader sees it. No call waits for a disk or for a worker.
pub trait Store: Send {
    /// The byte of the stream up to which everything is on disk or given up; 0 for a stream that the server does not know.
    fn position(&mut self, stream: StreamId) -> u64;

    /// Hands a batch to a lane. A stream has at most one batch that is handed over and neither `Appended`, `Later` nor `Failed`.
    ///
    /// # Errors
    /// Returns the batch if the server takes none now. The reader tries again when [`Store::ready`] is readable.
    fn hand_over(&mut self, batch: FileBatch) -> Result<(), FileBatch>;

    /// The next outcome, without waiting.
    fn settled(&mut self) -> Option<Settled>;

    /// The file of a stream is gone and all of it is on disk: the server may forget the stream.
    fn forget(&mut self, stream: StreamId);

    /// Writes the catalog with `save`, unless the reader was left behind at a stop: then the next start may have written it already.
    ///
    /// # Errors
    /// The reader was left behind, or as `save`.
    fn save(&self, save: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;

    /// Readable when there is an outcome, when there may be room again, or when the reader is told to stop. The reader polls it beside
    /// inotify. The store takes the event back in [`Store::settled`] when it returns `None`.
    fn ready(&self) -> BorrowedFd<'_>;

    /// Whether the reader is to end: it hands nothing over from then on, and returns.
    fn is_stopping(&self) -> bool;
}
