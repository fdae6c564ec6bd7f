//! Faults of the program under test that are put in on purpose: the simulation must find each of them, or it proves nothing.

use std::fmt;
use std::str::FromStr;

/// One thing done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 11] = [
        Bug::AcknowledgeBeforeSync,
        Bug::CursorBeforeData,
        Bug::MissingDirectorySync,
        Bug::StaleSegment,
        Bug::SplitGroup,
        Bug::CheckpointOutOfOrder,
        Bug::CleanPagesBelieved,
        Bug::NumberUsedAgain,
        Bug::AcknowledgementNotClamped,
        Bug::OldHelloTakesOver,
        Bug::LyingDisk,
    ];

    /// What it is called on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Bug::AcknowledgeBeforeSync => "acknowledge-before-sync",
            Bug::CursorBeforeData => "cursor-before-data",
            Bug::MissingDirectorySync => "missing-directory-sync",
            Bug::StaleSegment => "stale-segment",
            Bug::SplitGroup => "split-group",
            Bug::CheckpointOutOfOrder => "checkpoint-out-of-order",
            Bug::CleanPagesBelieved => "clean-pages-believed",
            Bug::NumberUsedAgain => "number-used-again",
            Bug::AcknowledgementNotClamped => "acknowledgement-not-clamped",
            Bug::OldHelloTakesOver => "old-hello-takes-over",
            Bug::LyingDisk => "lying-disk",
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Bug, String> {
        let names = || Bug::ALL.map(Bug::name).join(", ");
        Bug::ALL
            .into_iter()
            .find(|bug| bug.name() == text)
            .ok_or_else(|| format!("no planted bug is called {text}; there are {}", names()))
    }
}
