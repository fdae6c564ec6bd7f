//! The framing of one connection, as its listener's protocol requires.

use bbq_senders::gelf::Compression;
use bbq_wire::framing::{Frame, FramingRules, Gelf, Lines, Suspended, Syslog, Whole};
use bbq_wire::session::Hello;

use crate::listen::protocol::{GELF, LINES, Protocol, SYSLOG, WHOLE};

/// Why a connection is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FramerError {
    #[error(
        "a bbq client sent a hello where {0} are expected; give it the address of a bbq+tcp or bbq+unix listener"
    )]
    Hello(&'static str),
    #[error(
        "TLS at a plain listener, where {0} are expected; give the listener a tls_cert, or switch TLS off in the client"
    )]
    Tls(&'static str),
    #[error(
        "an HTTP request where {0} are expected; give its sender the address of an http+tcp listener. A browser sends such requests for any \
         page that it shows"
    )]
    Http(&'static str),
    #[error(
        "compressed bytes, and GELF over TCP is not compressed; switch compression off in its sender, or send over UDP"
    )]
    Compressed,
}

/// The methods of requests that have a body, or that browsers send.
const HTTP_METHODS: [&[u8]; 7] = [b"GET ", b"POST ", b"PUT ", b"PATCH ", b"HEAD ", b"OPTIONS ", b"DELETE "];

/// The first bytes of a TLS connection: a handshake record of any version (RFC 8446, 5.1).
const TLS_BEGINS: [u8; 2] = [0x16, 0x03];

/// The framing of one connection.
pub enum Framer {
    /// No bytes have come. The peer may still turn out to be a bbq client, which would wait for a welcome.
    NewLines,
    /// The same for syslog messages.
    NewSyslog,
    /// The same for one message per connection.
    NewWhole,
    /// The same for messages of GELF.
    NewGelf,
    /// Lines.
    Lines(Lines),
    /// Syslog messages.
    Syslog(Syslog),
    /// One message per connection.
    Whole(Whole),
    /// Messages of GELF.
    Gelf(Gelf),
}

/// The framing of a protocol.
struct Framing {
    protocol: &'static Protocol,
    begin: fn() -> Framer,
    resume: fn(Suspended) -> Option<Framer>,
}

static FRAMINGS: [Framing; 4] = [
    Framing {
        protocol: &LINES,
        begin: || Framer::NewLines,
        resume: |suspended| Lines::resume(suspended).map(Framer::Lines),
    },
    Framing {
        protocol: &SYSLOG,
        begin: || Framer::NewSyslog,
        resume: |suspended| Syslog::resume(suspended).map(Framer::Syslog),
    },
    Framing {
        protocol: &WHOLE,
        begin: || Framer::NewWhole,
        resume: |suspended| Whole::resume(suspended).map(Framer::Whole),
    },
    Framing {
        protocol: &GELF,
        begin: || Framer::NewGelf,
        resume: |suspended| Gelf::resume(suspended).map(Framer::Gelf),
    },
];

impl Framer {
    /// `None` for a protocol that is not a text framing.
    pub(crate) fn of(protocol: &Protocol) -> Option<Framer> {
        let framing = FRAMINGS.iter().find(|framing| framing.protocol == protocol);
        framing.map(|framing| (framing.begin)())
    }

    /// The state of the framing, from which another process can continue.
    pub fn suspend(self) -> Suspended {
        match self {
            // The default is the start of a connection. The process that resumes it does not look for a hello.
            Framer::NewLines | Framer::NewSyslog | Framer::NewGelf => Suspended::default(),
            Framer::NewWhole => Whole::new().suspend(),
            Framer::Lines(framer) => framer.suspend(),
            Framer::Syslog(framer) => framer.suspend(),
            Framer::Whole(framer) => framer.suspend(),
            Framer::Gelf(framer) => framer.suspend(),
        }
    }

    /// Continues from the state of another process; `None` when the state is not valid.
    pub fn resume(protocol: &Protocol, suspended: Suspended) -> Option<Framer> {
        let framing = FRAMINGS.iter().find(|framing| framing.protocol == protocol);
        framing.and_then(|framing| (framing.resume)(suspended))
    }

    pub(crate) fn push(
        &mut self,
        rules: &FramingRules,
        input: &[u8],
        mut emit: &mut dyn FnMut(Frame<'_>),
    ) -> Result<(), FramerError> {
        if let Framer::NewLines | Framer::NewSyslog | Framer::NewWhole | Framer::NewGelf = self {
            self.begin(input)?;
        }
        match self {
            // `begin` has replaced these.
            Framer::NewLines | Framer::NewSyslog | Framer::NewWhole | Framer::NewGelf => {}
            Framer::Lines(framer) => framer.push(rules, input, &mut emit),
            Framer::Syslog(framer) => framer.push(rules, input, &mut emit),
            Framer::Whole(framer) => framer.push(rules, input, &mut emit),
            Framer::Gelf(framer) => framer.push(rules, input, &mut emit),
        }
        Ok(())
    }

    /// Begins the framing, unless the first bytes are those of a bbq client, of TLS or of a request of HTTP.
    fn begin(&mut self, input: &[u8]) -> Result<(), FramerError> {
        let (begun, expected) = match self {
            Framer::NewLines => (Framer::Lines(Lines::new()), "lines"),
            Framer::NewWhole => (Framer::Whole(Whole::new()), "whole messages"),
            Framer::NewGelf => (Framer::Gelf(Gelf::new()), "messages of GELF"),
            _ => (Framer::Syslog(Syslog::new()), "syslog messages"),
        };
        // A whole message may be binary.
        let is_text = !matches!(begun, Framer::Whole(_));
        if is_text && Hello::begins(input) {
            return Err(FramerError::Hello(expected));
        }
        if is_text && input.starts_with(&TLS_BEGINS) {
            return Err(FramerError::Tls(expected));
        }
        if is_http_request(input) {
            return Err(FramerError::Http(expected));
        }
        if matches!(begun, Framer::Gelf(_)) && Compression::of(input).is_some() {
            return Err(FramerError::Compressed);
        }
        *self = begun;
        Ok(())
    }

    /// The sender has ended the connection.
    pub(crate) fn finish(&mut self, rules: &FramingRules, mut emit: &mut dyn FnMut(Frame<'_>)) {
        match self {
            Framer::NewLines | Framer::NewSyslog | Framer::NewGelf => {}
            Framer::NewWhole => Whole::new().finish(rules, &mut emit),
            Framer::Lines(framer) => framer.finish(rules, &mut emit),
            Framer::Syslog(framer) => framer.finish(rules, &mut emit),
            Framer::Whole(framer) => framer.finish(rules, &mut emit),
            Framer::Gelf(framer) => framer.finish(rules, &mut emit),
        }
    }

    /// The connection broke. For `whole`, this end does not complete the message.
    pub(crate) fn abort(&mut self, rules: &FramingRules, mut emit: &mut dyn FnMut(Frame<'_>)) {
        match self {
            Framer::NewWhole => Whole::new().abort(&mut emit),
            Framer::Whole(framer) => framer.abort(&mut emit),
            _ => self.finish(rules, emit),
        }
    }

    /// Gives up the unfinished message, to free its memory; the caller counts it. Returns `false` if the connection can have no other
    /// message.
    pub(crate) fn give_up(&mut self) -> bool {
        match self {
            Framer::NewLines | Framer::NewSyslog | Framer::NewGelf => {}
            Framer::NewWhole => return false,
            Framer::Lines(framer) => framer.give_up(),
            Framer::Syslog(framer) => framer.give_up(),
            Framer::Gelf(framer) => framer.give_up(),
            Framer::Whole(framer) => {
                framer.give_up();
                return false;
            }
        }
        true
    }

    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Framer::NewLines | Framer::NewSyslog | Framer::NewWhole | Framer::NewGelf => 0,
            Framer::Lines(framer) => framer.held_bytes(),
            Framer::Syslog(framer) => framer.held_bytes(),
            Framer::Whole(framer) => framer.held_bytes(),
            Framer::Gelf(framer) => framer.held_bytes(),
        }
    }
}

/// Whether bytes are a request line (RFC 9112, 3) and a header behind it. The line alone may be that of a log, which seldom ends it with CR.
fn is_http_request(input: &[u8]) -> bool {
    if !HTTP_METHODS.iter().any(|method| input.starts_with(method)) {
        return false;
    }
    let mut lines = input.split_inclusive(|byte| *byte == b'\n');
    let (Some(request), Some(header)) = (lines.next(), lines.next()) else { return false };
    let is_header = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.len() < line.len()
            && !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    [b" HTTP/1.1\r\n", b" HTTP/1.0\r\n"].iter().any(|end| request.ends_with(*end)) && is_header(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_line_with_a_header_behind_it_is_a_request() {
        for request in [
            "POST / HTTP/1.1\r\nHost: x\r\n\r\n<34>1 forged",
            "GET /index.html HTTP/1.0\r\nUser-Agent: x",
            "OPTIONS * HTTP/1.1\r\nContent-Length: 1\r\n",
        ] {
            assert!(is_http_request(request.as_bytes()), "{request:?}");
        }
        for text in [
            "GET / HTTP/1.1\nHost: x\n",
            "GET / HTTP/1.1\r\nGET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/2\r\nHost: x\r\n",
            "GET failed\r\nHost: x\r\n",
            "got / HTTP/1.1\r\nHost: x\r\n",
            "",
        ] {
            assert!(!is_http_request(text.as_bytes()), "{text:?}");
        }
    }
}
