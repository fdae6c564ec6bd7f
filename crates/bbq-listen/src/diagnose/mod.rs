//! What the kernel tells about sockets, and what the counters tell about the workers.

pub(crate) mod chi_square;
pub(crate) mod evenness;
pub(crate) mod foreign;
pub(crate) mod holder;
pub(crate) mod inet_diag;
pub(crate) mod netlink;
pub(crate) mod unix_diag;
