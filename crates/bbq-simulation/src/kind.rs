//! The kinds of worlds. A seed belongs to one of them, unless the caller asks for another.

use std::fmt;

use clap::ValueEnum;

/// A kind of world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One server, and every fault of its disk.
    Single,
    /// The same, where sinks have limits, and an operator pauses them and skips messages.
    Operator,
    /// Several servers that pass messages on.
    Tiers,
    /// The same, where a disk is set back.
    SetBack,
    /// One server with a table of few streams, and others than bbq's clients, who send to it.
    Crowd,
    /// One server with sinks that make requests, to receivers that may do anything. No seed is of this kind unless the caller asks for it,
    /// so that each seed stays the same.
    Requests,
    /// One server with sinks that leave messages out, by other rules at each start. No seed is of this kind either unless the caller asks.
    Rules,
}

impl Kind {
    /// The kind of a seed's world.
    #[must_use]
    pub fn of(seed: u64) -> Kind {
        match seed % 8 {
            0..2 => Kind::Single,
            2 => Kind::Operator,
            3..5 => Kind::SetBack,
            5..7 => Kind::Tiers,
            _ => Kind::Crowd,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
    }
}
