//! To whom a stream belongs: to the name of the token with which it was begun.
//!
//! A lane has 24 bits of the name with each batch, so that the stream is closed to others before its first batch is acknowledged, also after a
//! kill. The name itself comes to the disk with a checkpoint.

use std::sync::Arc;

use bbq_spool::NameMark;

/// To whom a stream belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// To nobody: no listener has asked its client for a token.
    #[default]
    ToNobody,
    /// To the name of a token.
    To(Arc<str>),
    /// To the name of a token that has not come again since a start, and of which only the lanes tell.
    ToMarked(NameMark),
}

impl Belongs {
    pub(crate) fn is_to_nobody(&self) -> bool {
        *self == Belongs::ToNobody
    }

    /// Whether it belongs to somebody else than to this name.
    pub(super) fn is_foreign_to(&self, name: &Arc<str>) -> bool {
        match self {
            Belongs::ToNobody => false,
            Belongs::To(known) => known != name,
            Belongs::ToMarked(mark) => *mark != NameMark::of(name),
        }
    }

    /// What a lane says of it.
    pub(super) fn mark(&self) -> NameMark {
        match self {
            Belongs::ToNobody => NameMark::NOBODY,
            Belongs::To(name) => NameMark::of(name),
            Belongs::ToMarked(mark) => *mark,
        }
    }
}
