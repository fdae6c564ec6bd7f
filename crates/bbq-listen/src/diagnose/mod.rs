//! Diagnosis: which process holds an address, how long the queues are, and how evenly the workers share the load.

pub(crate) mod chi_square;
pub(crate) mod evenness;
pub(crate) mod finding;
pub(crate) mod foreign;
pub(crate) mod foreign_watch;
mod foresight;
pub(crate) mod holder;
pub(crate) mod inet_diag;
pub(crate) mod netlink;
pub(crate) mod unix_diag;
