//! Who may send to a listener: the tokens that it accepts, and how often it logs refusals.
//!
//! Invariant: nothing here keeps, shows or logs a token; only its digest is kept.

mod bearer;
mod peer_log;
mod served;
mod tokens;

pub(crate) use bearer::bearer;
pub(crate) use peer_log::PeerLog;
pub(crate) use served::ServedTokens;
pub(crate) use tokens::{Admission, Denied, Tokens};
