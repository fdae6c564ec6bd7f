//! The options of rules, which listeners, readers and sinks have in common.

use bbq_spec::{SpecOption, Values};

/// Where rules are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a listener, before the disk.
    Listener,
    /// The same, and messages may have fields: those of requests that say something of each.
    ListenerOfRequests,
    /// At a reader, before the disk.
    Reader,
    /// At a sink.
    Sink,
}

/// The option that keeps messages.
pub(crate) const WHERE: &str = "where";
/// The option that keeps a share of them.
pub(crate) const SAMPLE: &str = "sample";
/// The option that replaces parts of them.
pub(crate) const REDACT: &str = "redact";
/// The option that finds fields in them.
pub(crate) const PARSE: &str = "parse";

/// Of the rules of a sink: what listeners and readers have as [`PARSE`].
pub(crate) const PARSE_OF: &str = "parse_of";

static OPTIONS: [SpecOption; 4] = [
    SpecOption {
        key: WHERE,
        values: Values::Text { form: "an expression (docs/FILTERS.md)", pattern: "." },
        default: "every message",
        meaning: "keeps the messages for which the expression is true, such as `severity <= 4`. The others are counted (`filtered`)",
    },
    SpecOption {
        key: SAMPLE,
        values: Values::Fraction,
        default: "every message",
        meaning: "keeps this share of the messages, chosen by a hash of stream and number. The others are counted (`filtered`)",
    },
    SpecOption {
        key: REDACT,
        values: Values::Rewrites,
        default: "nothing",
        meaning: "replaces what matches a regular expression in each message: `s/PATTERN/WITH/`, with any delimiter, several with \
                  semicolons between them",
    },
    SpecOption {
        key: PARSE,
        values: Values::Text {
            form: "json, logfmt, syslog, /PATTERN/",
            pattern: "^(json|logfmt|syslog|/.+/)$",
        },
        default: "nothing",
        meaning: "finds fields in each message, for `where`, the JSON output and names at destinations: those of JSON or logfmt, or the named \
                  groups of the pattern, as `parsed.NAME`; `syslog` reads headers of syslog in messages that came by another protocol. That of \
                  a listener or reader also holds at sinks that have none",
    },
];

/// The options of rules.
pub fn rule_options() -> impl Iterator<Item = &'static SpecOption> {
    OPTIONS.iter()
}
