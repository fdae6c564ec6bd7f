//! The protocols of listeners: what a SPEC can say of each.
//!
//! A new protocol is a constant and a line in [`PROTOCOLS`] here. `worker/sources.rs` serves its connections.

use std::fmt;

use bbq_wire::SourceKind;

/// How messages are separated, and what their senders are told.
pub struct Protocol {
    /// What stands in front of the plus sign of a SPEC.
    pub word: &'static str,
    /// What it is, for help.
    pub summary: &'static str,
    /// The kind of source in the header of batches that are built from its messages.
    pub source_kind: SourceKind,
    /// Whether it works over datagrams.
    pub has_datagrams: bool,
    /// What TLS negotiates for it (ALPN, RFC 7301).
    pub(super) application: &'static [&'static [u8]],
    /// The options of listeners that have no effect, and why.
    pub(super) without_effect: &'static [(&'static str, &'static str)],
}

/// In the order in which help shows them.
pub static PROTOCOLS: &[&Protocol] = &[
    &BBQ,
    &LINES,
    &SYSLOG,
    &WHOLE,
    &HTTP,
    &OTLP,
    &FLUENT,
    &GELF,
    #[cfg(test)]
    &CONFIRM,
];

const TEXT_HAS_NO_TOKENS: (&str, &str) = ("tokens", "only bbq, http and otlp have a place for a token");
const BATCHES_STAY: &str = "the batches of bbq clients are stored as they come, with their numbers and checksums; write it at a sink, or at \
                            the listeners and readers of the server that sends";
const REQUESTS_ARE_WHOLE: &[(&str, &str)] = &[
    ("on_oversize", "the server refuses a request with a longer message (413)"),
    ("on_incomplete", "the server refuses an incomplete request"),
];

pub(crate) static BBQ: Protocol = Protocol {
    word: "bbq",
    summary: "batches of bbq clients, acknowledged when on disk (docs/PROTOCOL.md)",
    source_kind: SourceKind::Bbq,
    has_datagrams: true,
    application: &[],
    without_effect: &[
        ("on_oversize", "the server refuses bbq clients that exceed the limit"),
        ("on_incomplete", "a bbq client sends an unfinished batch again"),
        ("where", BATCHES_STAY),
        ("sample", BATCHES_STAY),
        ("redact", BATCHES_STAY),
        ("parse", BATCHES_STAY),
    ],
};

pub(crate) static LINES: Protocol = Protocol {
    word: "lines",
    summary: "one message per line",
    source_kind: SourceKind::Lines,
    has_datagrams: true,
    application: &[],
    without_effect: &[TEXT_HAS_NO_TOKENS],
};

pub(crate) static SYSLOG: Protocol = Protocol {
    word: "syslog",
    summary: "syslog: RFC 6587 over streams, one message per datagram",
    source_kind: SourceKind::Syslog,
    has_datagrams: true,
    application: &[],
    without_effect: &[TEXT_HAS_NO_TOKENS],
};

pub(crate) static WHOLE: Protocol = Protocol {
    word: "whole",
    summary: "one message per connection or datagram",
    source_kind: SourceKind::Whole,
    has_datagrams: true,
    application: &[],
    without_effect: &[TEXT_HAS_NO_TOKENS],
};

pub(crate) static HTTP: Protocol = Protocol {
    word: "http",
    summary: "requests, answered when their messages are on disk",
    source_kind: SourceKind::Http,
    has_datagrams: false,
    application: &[b"h2", b"http/1.1"],
    without_effect: REQUESTS_ARE_WHOLE,
};

pub(crate) static OTLP: Protocol = Protocol {
    word: "otlp",
    summary: "OpenTelemetry logs, over HTTP and gRPC",
    source_kind: SourceKind::Otlp,
    has_datagrams: false,
    application: &[b"h2", b"http/1.1"],
    without_effect: REQUESTS_ARE_WHOLE,
};

pub(crate) static FLUENT: Protocol = Protocol {
    word: "fluent",
    summary: "the Forward Protocol of Fluentd, Fluent Bit and docker",
    source_kind: SourceKind::Lines,
    has_datagrams: false,
    application: &[],
    without_effect: &[
        TEXT_HAS_NO_TOKENS,
        (
            "on_incomplete",
            "a part of a message has no records; clients that ask for acknowledgements send it again",
        ),
    ],
};

pub(crate) static GELF: Protocol = Protocol {
    word: "gelf",
    summary: "GELF of Graylog's senders; over HTTP it goes to http",
    source_kind: SourceKind::Lines,
    has_datagrams: true,
    application: &[],
    without_effect: &[
        TEXT_HAS_NO_TOKENS,
        ("on_oversize", "a part of a message is no JSON; a longer one is dropped and counted"),
        ("on_incomplete", "a part of a message is no JSON; it is dropped and counted"),
    ],
};

/// See `worker/confirm.rs`.
#[cfg(test)]
pub(crate) static CONFIRM: Protocol = Protocol {
    word: "confirm",
    summary: "for tests: each line is confirmed when it is on disk",
    source_kind: SourceKind::Lines,
    has_datagrams: false,
    application: &[],
    without_effect: &[TEXT_HAS_NO_TOKENS],
};

impl Protocol {
    /// Whether it is HTTP, or is carried by it.
    pub(crate) fn is_http(&self) -> bool {
        [&HTTP, &OTLP].contains(&self)
    }

    /// Whether some of its messages have fields.
    pub(super) fn has_fields(&self) -> bool {
        [&HTTP, &FLUENT, &GELF].contains(&self)
    }
}

/// Words differ.
impl PartialEq for Protocol {
    fn eq(&self, other: &Protocol) -> bool {
        self.word == other.word
    }
}

impl Eq for Protocol {}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}
