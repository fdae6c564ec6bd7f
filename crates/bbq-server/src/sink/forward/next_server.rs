//! The server that messages are passed on to, and the link to it that the cursor remembers.

use std::fmt;
use std::io;

use bbq_wire::StreamId;
use bbq_wire::session::Token;

/// The server that gets the messages.
#[derive(Clone, Debug)]
pub(super) struct NextServer {
    /// A name or an address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) token: Option<Token>,
}

impl fmt::Display for NextServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "bbq://[{}]:{}", self.host, self.port),
            false => write!(f, "bbq://{}:{}", self.host, self.port),
        }
    }
}

/// What the cursor remembers: `link <32 hexadecimal digits>`.
pub(super) fn state_of(link: StreamId) -> String {
    format!("link {link}")
}

/// Returns the id of the link in a state; `None` if the state is of another kind of sink.
pub(super) fn link_of(state: &str) -> Option<StreamId> {
    let number = u128::from_str_radix(state.strip_prefix("link ")?, 16).ok()?;
    Some(StreamId(number.to_be_bytes()))
}

/// Returns the id of a new link, which no other sink has.
pub(super) fn new_link() -> io::Result<StreamId> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(io::Error::other)?;
    Ok(StreamId(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_remembered() {
        let id = new_link().unwrap();
        assert_eq!(link_of(&state_of(id)), Some(id));
        assert_eq!(link_of("link x"), None);
    }
}
