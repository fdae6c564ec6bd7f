//! Which disk of a world is set back, and when.

use crate::random::Random;
use crate::servers::Servers;

/// What is set back.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The data directory of a server.
    Data(usize),
    /// The outputs of the last server.
    Output(usize),
    /// The spool of the first client.
    Spool,
}

/// What is set back, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetBack {
    pub(super) what: What,
    /// The step of the state that is restored; `None` for an empty directory.
    pub(super) from: Option<u64>,
    /// The step at which it is restored.
    pub(super) at: u64,
}

impl SetBack {
    /// Draws what is set back among so many servers. `clients` are the servers of the clients.
    pub(super) fn new(random: &mut Random, nodes: usize, clients: Servers, steps: u64) -> SetBack {
        let at = random.between(steps / 4, steps * 9 / 10);
        let what = match random.below(4) {
            0 => What::Output(nodes - 1),
            // A client that uses numbers again that another server knows cannot notice it.
            1 if clients.second.is_none() => What::Spool,
            _ => What::Data(random.index(nodes)),
        };
        SetBack { what, from: (!random.one_in(4)).then(|| random.below(at)), at }
    }
}
