//! Which messages a viewer wants to see.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use bbq_format::otlp::put_body;
use bbq_rules::{Message, Rules, Scratch};
use bbq_spool::{Entry, ParseFields};
use bbq_wire::batch::Fields;
use bbq_wire::{Peer, SourceKind, StreamId};
use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

/// Of a message, what is searched, which is no less than what is shown: the time for a message has a bound.
const SEARCHED_BYTES_MAX: usize = 16 * 1024;
/// Of a pattern and of each other word: nobody types more.
pub(super) const WORD_BYTES_MAX: usize = 1024;
/// Memory of a compiled pattern: some classes of Unicode such as `\w` fit. The time for a message grows with it.
const REGEX_BYTES_MAX: usize = 256 * 1024;
/// Memory of what was learnt of it, which makes it fast.
const REGEX_CACHE_BYTES_MAX: usize = 1 << 20;

/// Of an expression, and of `parse`.
pub(super) const EXPRESSION_BYTES_MAX: usize = 4096;
/// Patterns in an expression: each may take as much memory as [`REGEX_BYTES_MAX`] and [`REGEX_CACHE_BYTES_MAX`].
const EXPRESSION_PATTERNS_MAX: usize = 4;

/// From the worst to the most harmless (RFC 5424, section 6.2.1), each with its other names.
pub const SEVERITIES: [&[&str]; 8] = [
    &["emerg", "panic"],
    &["alert"],
    &["crit"],
    &["err", "error"],
    &["warning", "warn"],
    &["notice"],
    &["info"],
    &["debug"],
];
/// By their number (RFC 5424, section 6.2.1), as syslog.conf writes them.
pub const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clockd", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// Everything that is set must be true of a message.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(super) listener: Option<String>,
    pub(super) peer: Option<PeerFilter>,
    pub(super) stream: Option<StreamId>,
    pub(super) facility: Option<u8>,
    pub(super) severity: Option<RangeInclusive<u8>>,
    pub(super) text: Option<Finder<'static>>,
    pub(super) pattern: Option<Regex>,
    /// An expression, and what finds fields for it.
    pub(super) rules: Option<Rules>,
    /// The same, if it finds fields.
    pub(super) parser: Option<Arc<dyn ParseFields>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerFilter {
    Host(IpAddr),
    Socket(SocketAddr),
    Pid(u32),
    Uid(u32),
}

impl PeerFilter {
    pub(super) fn of(word: &str) -> Option<PeerFilter> {
        let number = |prefix: &str| word.strip_prefix(prefix)?.parse().ok();
        let host = || word.parse().ok().map(|host: IpAddr| PeerFilter::Host(host.to_canonical()));
        let socket = || word.parse().ok().map(PeerFilter::Socket);
        host()
            .or_else(socket)
            .or_else(|| number("pid:").map(PeerFilter::Pid))
            .or_else(|| number("uid:").map(PeerFilter::Uid))
    }

    fn is(self, peer: Peer) -> bool {
        match (self, peer) {
            (PeerFilter::Host(host), Peer::Inet(address)) => host == address.ip().to_canonical(),
            (PeerFilter::Socket(socket), Peer::Inet(address)) => socket == address,
            (PeerFilter::Pid(wanted), Peer::Process { pid, .. }) => wanted == pid,
            (PeerFilter::Uid(wanted), Peer::Process { uid, .. }) => wanted == uid,
            _ => false,
        }
    }
}

/// `err` is err and worse, `warning..err` what is between them, as for journalctl.
pub(super) fn severities(word: &str) -> Option<RangeInclusive<u8>> {
    let number = |name: &str| {
        let place = SEVERITIES.iter().position(|names| names.contains(&name));
        place.and_then(|place| u8::try_from(place).ok())
    };
    let (first, last) = word.split_once("..").unwrap_or((word, ""));
    let (first, last) = (number(first)?, if last.is_empty() { 0 } else { number(last)? });
    Some(first.min(last)..=first.max(last))
}

pub(super) fn facility(word: &str) -> Option<u8> {
    let place = FACILITIES.iter().position(|name| *name == word)?;
    u8::try_from(place).ok()
}

/// Compiles a pattern.
///
/// # Errors
/// It is none, or needs too much memory.
pub(super) fn pattern(text: &str) -> Result<Regex, String> {
    let pattern =
        RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_CACHE_BYTES_MAX).build();
    pattern.map_err(|error| format!("it is not a regular expression: {}", in_a_line(&error)))
}

/// A mistake of syntax has lines that repeat the pattern and show the place; its last one says what is wrong.
fn in_a_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Compiles an expression, and what finds fields for it. They are written as the options of rules.
///
/// # Errors
/// What is wrong, by the name of the option.
pub(super) fn rules(condition: Option<&str>, parse: Option<&str>) -> Result<Rules, String> {
    // Each is the word of a function, or stands in a text.
    let patterns = condition.map_or(0, |condition| condition.matches("matches").count());
    if patterns > EXPRESSION_PATTERNS_MAX {
        return Err(format!(
            "where: a tail has room for {EXPRESSION_PATTERNS_MAX} patterns, and this expression has the word matches {patterns} times; write \
             one pattern with alternatives: matches(\"a|b\")"
        ));
    }
    let texts = [("where", condition), ("parse", parse)];
    let texts = texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.into())));
    Rules::parse_text(&serde_json::Value::Object(texts.collect()).to_string())
}

impl Filter {
    /// Whether a single message may take long to look at.
    pub(super) fn is_costly(&self) -> bool {
        self.pattern.is_some() || self.rules.is_some()
    }

    /// The entry as it is shown: with the fields that are found, if any are looked for.
    pub(super) fn with_parser<'a>(&'a self, entry: &Entry<'a>) -> Entry<'a> {
        Entry { parser: self.parser.as_ref(), ..entry.with_batch(entry.batch.clone()) }
    }

    /// Whether the expression is true of a message, if there is one.
    ///
    /// # Errors
    /// Why it is neither true nor false.
    pub(super) fn is_true_of<'m>(
        &self,
        message: impl FnOnce() -> Message<'m>,
        scratch: &mut Scratch,
    ) -> Result<bool, String> {
        self.rules.as_ref().map_or(Ok(true), |rules| rules.is_true_of(&message(), scratch))
    }

    /// Whether a message of the batch may be wanted.
    pub(super) fn may_want(&self, entry: &Entry<'_>) -> bool {
        let header = &entry.batch.header;
        self.listener.as_deref().is_none_or(|listener| listener == entry.origin().listener)
            && self.stream.is_none_or(|stream| stream == header.stream)
            && (header.source == SourceKind::Syslog
                || (self.facility.is_none() && !self.asks_syslog_alone(header.source))
                // Of a journal.
                || entry.batch.record_fields().next().is_some())
    }

    /// OpenTelemetry has severities, too.
    fn asks_syslog_alone(&self, source: SourceKind) -> bool {
        self.severity.is_some() && source != SourceKind::Otlp
    }

    /// Whether a message of a batch that passes [`Filter::may_want`] is wanted, but for the expression. It may have fields of its `own`.
    /// `scratch` holds the text of a record that is not text.
    pub(super) fn wants(
        &self,
        (source, raw): (SourceKind, &[u8]),
        peer: Peer,
        own: Option<&Fields<'_>>,
        scratch: &mut Vec<u8>,
    ) -> bool {
        if self.peer.is_some_and(|wanted| !wanted.is(peer)) || !self.wants_priority(source, raw, own) {
            return false;
        }
        if self.text.is_none() && self.pattern.is_none() {
            return true;
        }
        let text = if source == SourceKind::Otlp {
            scratch.clear();
            put_body(raw, scratch);
            scratch.as_slice()
        } else {
            raw
        };
        let text = &text[..text.len().min(SEARCHED_BYTES_MAX)];
        self.text.as_ref().is_none_or(|wanted| wanted.find(text).is_some())
            && self.pattern.as_ref().is_none_or(|pattern| pattern.is_match(text))
    }

    fn wants_priority(&self, source: SourceKind, raw: &[u8], own: Option<&Fields<'_>>) -> bool {
        if self.facility.is_none() && self.severity.is_none() {
            return true;
        }
        let priority = match (own, source) {
            (Some(own), _) => of_journal(own),
            (None, SourceKind::Otlp) => {
                bbq_format::otlp::severity_of(raw).map(|severity| (None, Some(severity)))
            }
            (None, _) => priority(raw).map(|priority| (Some(priority / 8), Some(priority % 8))),
        };
        let Some((facility, severity)) = priority else { return false };
        self.facility.is_none_or(|wanted| Some(wanted) == facility)
            && self.severity.as_ref().is_none_or(|wanted| severity.is_some_and(|is| wanted.contains(&is)))
    }
}

/// Facility and severity of an entry of the journal.
fn of_journal(own: &Fields<'_>) -> Option<(Option<u8>, Option<u8>)> {
    let number = |wanted| own.clone().find(|(name, _)| *name == wanted)?.1.parse().ok();
    Some((number("SYSLOG_FACILITY"), number("PRIORITY")))
}

/// `<34>` in front of a syslog message.
fn priority(raw: &[u8]) -> Option<u8> {
    let digits = raw.trim_ascii_start().strip_prefix(b"<")?;
    let length = digits.iter().take(4).position(|byte| *byte == b'>')?;
    let number: u8 = std::str::from_utf8(&digits[..length]).ok()?.parse().ok()?;
    (number <= 191).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_worse_or_between() {
        for (word, range) in [
            ("err", 0..=3),
            ("err..", 0..=3),
            ("warning..err", 3..=4),
            ("err..warn", 3..=4),
            ("debug", 0..=7),
        ] {
            assert_eq!(severities(word), Some(range), "{word}");
        }
        assert_eq!((severities("loud"), severities("err..loud"), severities("")), (None, None, None));
    }

    #[test]
    fn priorities_are_read_and_what_is_none_is_not() {
        for (raw, number) in [
            ("<34>text", Some(34)),
            (" <0>", Some(0)),
            ("<191>1 ", Some(191)),
            ("<192>", None),
            ("<>", None),
            ("34>", None),
            ("<1234>", None),
        ] {
            assert_eq!(priority(raw.as_bytes()), number, "{raw}");
        }
    }

    #[test]
    fn all_that_is_set_must_be_true() {
        let peer = Peer::Inet("192.0.2.7:99".parse().unwrap());
        let filter = Filter {
            peer: PeerFilter::of("192.0.2.7"),
            severity: severities("err"),
            facility: facility("auth"),
            text: Some(Finder::new("login").into_owned()),
            pattern: Some(pattern("user=[a-z]+$").unwrap()),
            ..Filter::default()
        };
        let wants =
            |raw: &str, peer| filter.wants((SourceKind::Syslog, raw.as_bytes()), peer, None, &mut Vec::new());
        assert!(wants("<34>login of user=joe", peer));
        for (raw, peer) in [
            ("<38>login of user=joe", peer),
            ("<26>login of user=joe", peer),
            ("<34>logout of user=joe", peer),
            ("<34>login of user=7", peer),
            ("login of user=joe", peer),
            ("<34>login of user=joe", Peer::Unnamed),
        ] {
            assert!(!wants(raw, peer), "{raw}");
        }
        assert!(pattern("(").is_err() && pattern("(x{1000}){1000}").is_err());
        assert_eq!(PeerFilter::of("::ffff:192.0.2.7"), PeerFilter::of("192.0.2.7"));
    }
}
