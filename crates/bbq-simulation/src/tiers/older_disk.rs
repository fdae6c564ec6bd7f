//! Which disk of a world is set back or copied, and when.

use crate::random::Random;
use crate::servers::Servers;

/// What is set back or copied.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The data directory of a server.
    Data(usize),
    /// The outputs of the last server.
    Output(usize),
    /// The spool of the first client: its files are written again.
    Spool,
    /// The disk of the first client: its files are the same ones in an earlier state.
    SpoolBelow,
    /// The data directory of a server. A second server begins with the copy.
    CopyOfData { node: usize, is_used: bool },
    /// The spool of the first client. A second client begins with the copy, on the same machine or on another one.
    CopyOfSpool { is_on_machine: bool },
}

/// What is set back or copied, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetBack {
    pub(super) what: What,
    /// The step of the state that is restored or copied; `None` for an empty directory.
    pub(super) from: Option<u64>,
    /// The step at which it is restored, or at which the copy is first used.
    pub(super) at: u64,
}

impl SetBack {
    /// Draws what is set back or copied among so many servers. `clients` are the servers of the clients.
    pub(super) fn new(random: &mut Random, nodes: usize, clients: Servers, steps: u64) -> SetBack {
        let at = random.between(steps / 4, steps * 9 / 10);
        let what = match random.below(8) {
            0 => What::Output(nodes - 1),
            // A client that uses numbers again that another server knows cannot notice it.
            1 if clients.second.is_none() => What::Spool,
            2 if clients.second.is_none() => What::SpoolBelow,
            // Not of the last server: both would have outputs.
            3 | 4 => What::CopyOfData { node: random.index(nodes - 1), is_used: !random.one_in(3) },
            5 => What::CopyOfSpool { is_on_machine: random.one_in(2) },
            _ => What::Data(random.index(nodes)),
        };
        let from = match what {
            What::CopyOfData { .. } | What::CopyOfSpool { .. } => {
                Some(if random.one_in(2) { at } else { random.below(at).max(1) })
            }
            _ => (!random.one_in(4)).then(|| random.below(at)),
        };
        SetBack { what, from, at }
    }

    /// Whether the first client must have a spool.
    pub(super) fn needs_spool(&self) -> bool {
        matches!(self.what, What::Spool | What::SpoolBelow | What::CopyOfSpool { .. })
    }
}
