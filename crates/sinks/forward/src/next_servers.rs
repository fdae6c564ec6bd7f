//! The servers that messages are passed on to, and what the cursor remembers of the link to them.

use std::io;
use std::time::Duration;

use bbq_tls::ClientTls;
use bbq_wire::StreamId;
use bbq_wire::session::Token;

use super::address::Address;

/// The servers, of which one at a time gets the messages.
#[derive(Clone, Debug)]
pub(super) struct NextServers {
    /// The preferred one first; at least one.
    pub(super) addresses: Vec<Address>,
    /// For addresses with TLS.
    pub(super) tls: ClientTls,
    pub(super) token: Option<Token>,
    /// How long a server may leave a batch that makes no progress without an acknowledgement.
    pub(super) timeout: Duration,
}

/// As long as a client of another kind waits (docs/PROTOCOL.md, "Silence and time-outs").
pub(super) const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

impl NextServers {
    /// Servers at these addresses, with the defaults of all options.
    pub(super) fn without_options(addresses: Vec<Address>) -> NextServers {
        NextServers { addresses, tls: ClientTls::default(), token: None, timeout: TIMEOUT_DEFAULT }
    }
}

/// What the cursor remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkState {
    /// The id of the link.
    pub(super) id: StreamId,
    /// The server in use, if there are several. After a crash, messages whose acknowledgement the cursor does not have are sent
    /// again to this one: it knows those that it has.
    pub(super) server: Option<String>,
}

impl LinkState {
    /// `link <32 hexadecimal digits>`, and with a server ` at <address>`.
    pub(super) fn encode(&self) -> String {
        match &self.server {
            Some(server) => format!("link {} at {server}", self.id),
            None => format!("link {}", self.id),
        }
    }

    /// `None` if the state is of another kind of sink.
    pub(super) fn decode(state: &str) -> Option<LinkState> {
        let rest = state.strip_prefix("link ")?;
        let (id, server) = match rest.split_once(" at ") {
            Some((id, server)) => (id, Some(server.to_owned())),
            None => (rest, None),
        };
        let id = StreamId(u128::from_str_radix(id, 16).ok()?.to_be_bytes());
        Some(LinkState { id, server })
    }

    /// A new link, which no other sink has.
    pub(super) fn new() -> io::Result<LinkState> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        Ok(LinkState { id: StreamId(id), server: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_remembered() {
        let link = LinkState::new().unwrap();
        let at = LinkState { server: Some("bbq://logs at:1".to_owned()), ..link.clone() };
        for state in [link, at] {
            assert_eq!(LinkState::decode(&state.encode()), Some(state));
        }
        assert_eq!(LinkState::decode("link x"), None);
    }
}
