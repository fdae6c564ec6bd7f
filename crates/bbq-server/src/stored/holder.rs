//! Who sent a stream: the table of streams gives each a share.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use bbq_wire::Peer;

use crate::access::address_of;

/// The sender of a stream, as far as the server can tell senders apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// Not known: a checkpoint of an earlier version, or a stream that was found in a lane only.
    #[default]
    Unknown,
    /// An address. The addresses of a /64 network of IPv6 count as one.
    Inet(IpAddr),
    /// A user of this machine, by a unix socket.
    User(u32),
    /// The name of a token.
    Token(Arc<str>),
}

impl Holder {
    /// A sender that showed no token.
    pub(crate) fn of(peer: Peer) -> Holder {
        match peer {
            Peer::Process { uid, .. } => Holder::User(uid),
            peer => address_of(peer).map_or(Holder::Unknown, Holder::Inet),
        }
    }

    /// Reads what `Display` writes, which has no blanks.
    pub(crate) fn parse(text: &str) -> Option<Holder> {
        match text.split_once(':') {
            _ if text == "-" => Some(Holder::Unknown),
            Some(("user", user)) => user.parse().ok().map(Holder::User),
            Some(("token", name)) => Some(Holder::Token(name.into())),
            _ => text.parse().ok().map(Holder::Inet),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Unknown => f.write_str("-"),
            Holder::Inet(address) => address.fmt(f),
            Holder::User(user) => write!(f, "user:{user}"),
            Holder::Token(name) => write!(f, "token:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_comes_back_from_its_text() {
        let holders = [
            Holder::Unknown,
            Holder::Inet("192.0.2.1".parse().unwrap()),
            Holder::Inet("2001:db8::".parse().unwrap()),
            Holder::User(1000),
            Holder::Token("till:4".into()),
        ];
        for holder in holders {
            assert_eq!(Holder::parse(&holder.to_string()), Some(holder));
        }
        assert_eq!(Holder::parse("nobody"), None);
    }
}
