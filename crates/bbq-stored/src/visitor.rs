//! Who wants to append to a stream, and why not everybody may.

use std::fmt;
use std::sync::Arc;

use bbq_wire::Peer;

use crate::identity::Identity;

/// Who wants to append to a stream.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// The name of the token that was shown; `None` if the listener asks for none.
    pub identity: Option<&'a Arc<str>>,
    /// Where the connection comes from.
    pub peer: Peer,
    /// Another server, which passes on what others numbered. A listener with tokens has checked that this token may.
    pub relays: bool,
    /// Its client goes on with the stream after a restart.
    pub is_kept: bool,
}

impl Visitor<'_> {
    pub(super) fn holder(&self) -> Identity {
        Identity::of(self.identity, self.peer)
    }
}

/// Why somebody may not append to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// The stream is of a worker of this server.
    Own,
    /// It was begun with a token of another name.
    Foreign,
    /// It was begun with a token, and none was shown.
    WithoutToken,
}

impl fmt::Display for NotAdmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotAdmitted::Own => "this stream is of the server's own messages; begin a new stream",
            NotAdmitted::Foreign => {
                "this stream was begun with a token of another name; use that token, or begin a new stream"
            }
            NotAdmitted::WithoutToken => {
                "this stream was begun with a token; send to a listener with tokens, and show that token. A server that passes messages on \
                 needs a token with the word relay"
            }
        })
    }
}
