//! Which socket of a `reuseport` group a sender gets: the kernel's hash, or a program of ours (`program`).
//!
//! Datagrams have no connection that would keep a sender with its worker: whenever the number of sockets changes, the
//! kernel's hash moves about half of all senders. So groups for datagrams always choose by slots, and a change moves only the
//! slots that it must: those of workers that go.

pub(crate) mod applied;
pub(crate) mod program;
pub(crate) mod recent_senders;
pub(crate) mod slots;

use std::fmt;

/// The largest weight: ratios of more than this are no ratios any more.
pub const WEIGHT_MAX: u16 = 1000;

/// What decides about the socket of a `reuseport` group that a sender gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Steering {
    /// A hash of addresses and ports: even over many senders.
    #[default]
    Hash,
    /// The processor that handles the packet: with one receive queue of the network card for each processor, and workers
    /// pinned to them, a packet stays where it arrived. Anywhere else it is uneven.
    Cpu,
    /// Shares of the senders in these proportions, one weight per worker; 0 for none.
    Weights(Vec<u16>),
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash => f.write_str("hash"),
            Self::Cpu => f.write_str("cpu"),
            Self::Weights(weights) => {
                f.write_str("weights:")?;
                for (index, weight) in weights.iter().enumerate() {
                    write!(f, "{}{weight}", if index > 0 { "," } else { "" })?;
                }
                Ok(())
            }
        }
    }
}
