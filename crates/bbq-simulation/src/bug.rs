//! Planted bugs of the program under test. The simulation must find each of them: otherwise its success proves nothing.

use std::fmt;

use clap::ValueEnum;

use crate::kind::Kind;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bug {
    /// A batch is acknowledged when its group is taken to be written, not when it is synced.
    AcknowledgeBeforeSync,
    /// A sink's cursor is made durable before its output.
    CursorBeforeData,
    /// New names are not synced with their directory.
    MissingDirectorySync,
    /// The old contents of a recycled segment count as new.
    StaleSegment,
    /// Part of a group counts as all of it: the checkpoint covers batches that the table of streams does not know.
    SplitGroup,
    /// An older checkpoint is written over a newer one.
    CheckpointOutOfOrder,
    /// After a failed sync, what the page cache shows counts as durable.
    CleanPagesBelieved,
    /// After a failed sync, the same cached pages are written again, although the disk may never get them.
    CachedPagesWrittenAgain,
    /// A restarted client uses numbers again.
    NumberUsedAgain,
    /// A client accepts the acknowledgement of records that it never sent.
    AcknowledgementNotClamped,
    /// A hello that arrives late takes the stream from a newer connection.
    OldHelloTakesOver,
    /// A server takes for known what a link brings of a stream behind later numbers: a gap counts as final.
    GapIsFinal,
    /// The same, where each message has one way, and a stream only goes on in another lane because its lane has failed.
    GapIsFinalInOneWay,
    /// A sink cuts off the lines of its output that the cursor of an older data directory does not cover, and keeps no copy.
    OutputCutBack,
    /// A client whose spool was set back believes the server that it has records which the client never sent.
    WelcomeBelieved,
    /// A client does not notice that its spool is a copy, and goes on with its stream.
    CopyNotNoticed,
    /// A request whose records are known is answered as stored, although they may be in the memory of a lane that failed.
    KnownCountsAsDurable,
    /// Everybody may append to every stream.
    NoOwners,
    /// The table of streams forgets by age alone, whoever has filled it.
    ForgetsByAge,
    /// What an operator skips is in no dead letters.
    SkippedForgotten,
    /// What a receiver of requests refuses is taken for delivered.
    RefusalTakenForDelivery,
    /// Dead letters that are left for the next order begin again at the first one.
    ResendForgetsItsPlace,
    /// A sink forgets at a start which rules it had for what it has not passed.
    RulesForgotten,
    /// Not a bug of the program: the disk ignores syncs, which the checker must notice.
    LyingDisk,
}

impl Bug {
    /// The kind of world that it takes to find the bug.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Bug::GapIsFinal | Bug::GapIsFinalInOneWay => Kind::Tiers,
            Bug::OutputCutBack | Bug::WelcomeBelieved | Bug::CopyNotNoticed => Kind::SetBack,
            Bug::KnownCountsAsDurable | Bug::NoOwners | Bug::ForgetsByAge => Kind::Crowd,
            Bug::SkippedForgotten => Kind::Operator,
            Bug::RefusalTakenForDelivery | Bug::ResendForgetsItsPlace => Kind::Requests,
            Bug::RulesForgotten => Kind::Rules,
            _ => Kind::Single,
        }
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
