//! Faults of the program under test that are put in on purpose: the simulation must find each of them, or it proves nothing.

use std::fmt;

use clap::ValueEnum;

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bug {
    /// A batch is acknowledged when its group is taken to be written, not when it is synced.
    AcknowledgeBeforeSync,
    /// A sink's cursor is made durable before its output.
    CursorBeforeData,
    /// New names are not synced with their directory.
    MissingDirectorySync,
    /// What a segment held before it was used again is taken for new.
    StaleSegment,
    /// Part of a group counts as all of it: the checkpoint covers batches that the table of streams does not know.
    SplitGroup,
    /// An older checkpoint is written over a newer one.
    CheckpointOutOfOrder,
    /// After a failed sync, what the page cache shows counts as durable.
    CleanPagesBelieved,
    /// A client that was started again gives numbers that it has given before.
    NumberUsedAgain,
    /// A client believes that records were acknowledged which it never sent.
    AcknowledgementNotClamped,
    /// A hello that arrives late takes the stream from a newer connection.
    OldHelloTakesOver,
    /// No bug of the program: syncs that do nothing, which the checker must notice.
    LyingDisk,
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
