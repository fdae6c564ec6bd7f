//! Who may send to a listener: the tokens that it accepts, how many connections an address may have and how many
//! messages a second it may send, how often it logs refusals, and who goes first when connections or memory run out.
//!
//! Invariant: nothing here keeps, shows or logs a token; only its digest is kept.

mod address_limit;
mod address_rate;
mod bearer;
mod floods;
mod going_first;
mod growth;
mod own_name;
mod peer_log;
mod served;
mod token_file;
mod tokens;

pub(crate) use address_limit::{AddressFull, AddressLimit, AddressShare};
pub(crate) use address_rate::AddressRate;
pub(crate) use bearer::bearer;
pub(crate) use floods::{Floods, NewConnection};
pub(crate) use going_first::{Claim, take_first};
pub(crate) use growth::Growth;
pub(crate) use own_name::is_own_name;
pub(crate) use peer_log::PeerLog;
pub use served::ServedTokens;
pub use token_file::TokenFile;
#[cfg(fuzzing)]
pub(crate) use tokens::fuzzed_tokens;
pub(crate) use tokens::{Admission, Denied};
