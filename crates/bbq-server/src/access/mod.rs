//! Who may send at a listener: the tokens that it takes, and how often it says what it refused.
//!
//! Invariant: nothing here keeps, shows or logs a token, only its digest.

mod bearer;
mod peer_log;
mod served;
mod tokens;

pub(crate) use bearer::bearer;
pub(crate) use peer_log::PeerLog;
pub(crate) use served::ServedTokens;
pub(crate) use tokens::{Admission, Denied, Tokens};
