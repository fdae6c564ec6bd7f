//! Chooses the socket of a `reuseport` group that a sender gets: by the kernel's hash, or by a BPF program (`program`).
//!
//! When the number of sockets changes, the kernel's hash moves about half of all senders of datagrams to other workers. So groups
//! for datagrams always choose by slots, and a change moves only the slots of removed workers.

pub(crate) mod applied;
pub(crate) mod program;
pub(crate) mod recent_senders;
pub(crate) mod slots;

use std::fmt;

/// The largest weight. Larger ratios have no use.
pub const WEIGHT_MAX: u16 = 1000;

/// How the socket of a `reuseport` group is chosen for a sender.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Steering {
    /// By a hash of addresses and ports: even over many senders.
    #[default]
    Hash,
    /// By the processor that handles the packet. If the network card has a receive queue for each processor, and workers are pinned
    /// to processors, a packet stays on its processor. Otherwise this is uneven.
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
