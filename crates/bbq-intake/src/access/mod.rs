//! Who may send to a listener: the tokens that it accepts, how many connections an address may have and how many
//! messages a second it may send, how often it logs refusals, and who goes first when connections or memory run out.
//!
//! Invariant: nothing here keeps, shows or logs a token; only its digest is kept.

mod address_limit;
mod address_rate;
mod bearer;
mod credentials;
mod floods;
mod going_first;
mod growth;
mod own_name;
mod peer_log;
mod sender_limit;
mod served;
mod shared_key;
mod token_file;
mod tokens;

pub(crate) use address_limit::AddressFull;
pub use address_limit::AddressLimit;
pub(crate) use address_limit::AddressShare;
pub use address_rate::AddressRate;
pub use bearer::bearer;
pub(crate) use credentials::{Credentials, credentials};
pub use floods::Floods;
pub(crate) use floods::NewConnection;
pub(crate) use going_first::{Claim, take_first};
pub use growth::Growth;
pub use own_name::is_own_name;
pub use peer_log::PeerLog;
pub(crate) use sender_limit::SenderLimit;
pub use served::ServedTokens;
pub use shared_key::SharedKey;
pub(crate) use shared_key::{SHARED_KEY, USERS};
pub use token_file::TokenFile;
pub(crate) use tokens::Admission;
pub use tokens::Denied;
#[cfg(fuzzing)]
pub(crate) use tokens::fuzzed_tokens;
