//! Who holds what all senders share: connections, memory for unfinished messages, and the table of streams. A sender cannot get more by
//! opening more connections, as all of them count as one identity.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bbq_wire::Peer;

/// Who a sender is, as far as the server can tell senders apart: the name of its token, otherwise its address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Identity {
    /// All others together: a stream of which only batches were found, a checkpoint of an earlier version.
    #[default]
    Unknown,
    /// An address; the IPv6 addresses of a /64 network are one, because one machine usually has them all.
    Address(IpAddr),
    /// The user of a process that sends through a unix socket.
    User(u32),
    /// The name of a token. The same name at two listeners is one identity.
    Token(Arc<str>),
}

impl Identity {
    /// Of a sender with the name of its token, if it has shown one.
    pub fn of(name: Option<&Arc<str>>, peer: Peer) -> Identity {
        name.map_or_else(|| Identity::of_peer(peer), |name| Identity::Token(Arc::clone(name)))
    }

    /// Of a sender without a token.
    pub fn of_peer(peer: Peer) -> Identity {
        match (address_of(peer), peer) {
            (Some(address), _) => Identity::Address(address),
            (None, Peer::Process { uid, .. }) => Identity::User(uid),
            (None, _) => Identity::Unknown,
        }
    }

    /// Reads what `Display` writes, which has no blanks.
    pub fn parse(text: &str) -> Option<Identity> {
        match text.split_once(':') {
            _ if text == "-" => Some(Identity::Unknown),
            Some(("user", user)) => user.parse().ok().map(Identity::User),
            Some(("token", name)) => Some(Identity::Token(name.into())),
            _ => text.parse().ok().map(Identity::Address),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Unknown => f.write_str("-"),
            Identity::Address(address) => address.fmt(f),
            Identity::User(user) => write!(f, "user:{user}"),
            Identity::Token(name) => write!(f, "token:{name}"),
        }
    }
}

/// The address that counts; `None` for unix sockets.
pub fn address_of(peer: Peer) -> Option<IpAddr> {
    let Peer::Inet(address) = peer else { return None };
    Some(match address.ip().to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_comes_back_from_its_text() {
        let identities = [
            Identity::Unknown,
            Identity::Address("192.0.2.1".parse().unwrap()),
            Identity::Address("2001:db8::".parse().unwrap()),
            Identity::User(1000),
            Identity::Token("till:4".into()),
        ];
        for identity in identities {
            assert_eq!(Identity::parse(&identity.to_string()), Some(identity));
        }
        assert_eq!(Identity::parse("nobody"), None);
    }

    #[test]
    fn addresses_of_one_network_are_one() {
        let of = |text: &str| address_of(Peer::Inet(text.parse().unwrap()));
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:2]:3"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_eq!(of("[::ffff:192.0.2.1]:1"), of("192.0.2.1:2"));
        assert_eq!(address_of(Peer::Unnamed), None);
    }
}
