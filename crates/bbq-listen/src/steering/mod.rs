//! Chooses the socket of a `reuseport` group that a sender gets: by the kernel's hash, or by a BPF program (`program`).
//!
//! When the number of sockets changes, the kernel's hash moves about half of all senders of datagrams to other workers. So groups
//! for datagrams always choose by slots. When a group shrinks, only the slots of removed workers move; when it grows, senders that are
//! in conversation keep their workers (`conversations`).

pub(crate) mod applied;
pub(crate) mod connection_id;
pub(crate) mod conversations;
pub(crate) mod key;
pub(crate) mod load;
pub(crate) mod pinned;
pub(crate) mod program;
pub(crate) mod sender_filter;
pub(crate) mod setup;
pub(crate) mod slots;

use std::fmt;

/// The largest weight. Larger ratios have no use.
pub const WEIGHT_MAX: u16 = 1000;

/// How the socket of a `reuseport` group is chosen for a sender.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use bbq_listen::{Distribution, Group, Steering};
///
/// let group = Group::at("127.0.0.1:0")?
///     .workers(2)
///     .distribution(Distribution::Reuseport)
///     .steering(Steering::Weights(vec![3, 1]))
///     .open()?;
/// group.set_steering(&Steering::Hash)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Steering {
    /// By a hash of addresses and ports: even over many senders.
    #[default]
    Hash,
    /// By the processor that handles the packet. If the network card has a receive queue for each processor, and workers are pinned
    /// to processors, a packet stays on its processor. Otherwise this is uneven.
    Cpu,
    /// By load: a worker that is busy, or behind with accepting, gets fewer new connections. Only for tcp.
    ///
    /// A [`StallMonitor`](crate::StallMonitor) has to run: it renews the shares, at most 100 times a second. Where the work is worth it
    /// (100 us and more), a worker that has its hands full also leaves connections to workers that are free. Without a stall monitor
    /// the shares are even. Where the kernel refuses the program, its hash chooses; [`Group::steering`](crate::Group::steering) says
    /// so.
    Load,
    /// Shares of the senders in these proportions, one weight per worker; 0 for none.
    Weights(Vec<u16>),
    /// Each datagram by itself, by chance: for one flow that is too busy for one worker. The datagrams of a sender come to all workers,
    /// and in no order. Only for udp.
    Packets,
    /// By a number that the worker has written into the destination connection ids of QUIC: a client keeps its worker when its address
    /// changes, and when a restart keeps the sockets. Only for udp.
    ///
    /// The number is that of the worker ([`WorkerListener::worker`](crate::WorkerListener::worker)), most significant bit first. The
    /// server's generator of connection ids writes it; a random rest makes the ids different. Packets without such a number go by the
    /// hash of the sender: those with which a client begins, versions other than 1 and 2, and numbers that no worker has.
    ///
    /// Each worker has an endpoint on its own socket, [`WorkerListener::socket`](crate::WorkerListener::socket). Do not run a
    /// [`StallMonitor`](crate::StallMonitor) or a [`Receiver`](crate::Receiver) beside it: packets that another worker receives belong
    /// to no connection of its own. Everybody can read the number, so a client can send all its packets to one worker.
    ///
    /// It cannot be parsed from text: only a program that writes connection ids can choose it.
    ConnectionId {
        /// The byte of the connection id at which the number begins, from 0.
        offset: u8,
        /// How many bits of the bytes there are the number: 1 to 16. With `n` workers at least `log2(n)`, and with more bits most
        /// connection ids that clients choose have no worker's number.
        bits: u8,
    },
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash => f.write_str("hash"),
            Self::Cpu => f.write_str("cpu"),
            Self::Load => f.write_str("load"),
            Self::Packets => f.write_str("packets"),
            Self::ConnectionId { offset, bits } => {
                write!(f, "{bits} bits of the connection id at byte {offset}")
            }
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
