//! The kinds of worlds. A seed belongs to one of them, unless the caller asks for another.

use std::fmt;

use clap::ValueEnum;

/// A kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One server, and every fault of its disk.
    Single,
    /// Several servers that pass messages on.
    Tiers,
    /// The same, where a disk is set back.
    SetBack,
}

impl Kind {
    /// The kind of a seed's world.
    #[must_use]
    pub fn of(_seed: u64) -> Kind {
        Kind::Single
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
