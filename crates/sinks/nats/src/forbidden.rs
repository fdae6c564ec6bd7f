//! Subjects of the template that the user may not publish to, as the server has said.
//!
//! Senders choose hosts, and so subjects. A message whose subject is forbidden is set apart, so that it does not hold up the others; but only if
//! the user may publish to another subject of the template. Otherwise it is the user that lacks a permission, and the sink waits.
//!
//! The server says nothing of a permission that it gives later. So a subject is tried again after a while.

use std::collections::HashMap;
use std::str::Chars;
use std::time::{Duration, Instant};

use async_nats::Subject;
use bbq_spec::RateLimitedLog;
use tracing::warn;

/// A subject is forbidden for so long; then a message is published to it again, which ends the connection if it still is.
const FORBIDDEN_FOR: Duration = Duration::from_secs(60);
/// If so many are, the sink waits: each takes some 100 bytes.
const SUBJECTS_MAX: usize = 10_000;
/// In front of the subject in what a server says.
const WORDS: &str = "permissions violation for publish to \"";

/// What is known. It outlives a connection.
#[derive(Debug, Default)]
pub(super) struct Forbidden {
    /// Since when.
    subjects: HashMap<String, Instant>,
    /// Whether the server took a message with another subject since it refused the last of them.
    has_other: bool,
    /// The subject of the last message that it took.
    taken: Option<Subject>,
    log: RateLimitedLog,
}

impl Forbidden {
    /// The server refuses a subject. Returns whether that is new.
    pub(super) fn note(&mut self, subject: &str, sink: &str, now: Instant) -> bool {
        self.subjects.retain(|_, since| is_recent(*since, now));
        if self.subjects.contains_key(subject) || self.subjects.len() >= SUBJECTS_MAX {
            return false;
        }
        if let Some(silent) = self.log.report() {
            let seconds = FORBIDDEN_FOR.as_secs();
            warn!(
                sink,
                subject,
                silent,
                "the user may not publish to the subject: its messages become dead letters, and one is tried again after {seconds} s"
            );
        }
        self.subjects.insert(subject.to_owned(), now);
        self.has_other = false;
        true
    }

    pub(super) fn is_forbidden(&self, subject: &str, now: Instant) -> bool {
        // Nearly always there is none, and this is asked for every message.
        !self.subjects.is_empty() && self.subjects.get(subject).is_some_and(|since| is_recent(*since, now))
    }

    /// The server took a message with this subject.
    pub(super) fn taken(&mut self, subject: Option<Subject>) {
        self.has_other = true;
        if subject.is_some() {
            self.taken = subject;
        }
    }

    /// Whether the user may publish to another subject of the template than those that are forbidden.
    pub(super) fn has_other(&self) -> bool {
        self.has_other
    }

    /// The sink waits for a permission: what it waits with is tried first when the sink goes on.
    pub(super) fn forget(&mut self) {
        self.subjects.clear();
    }

    /// It refuses a subject that it was asked for: the next one to ask for is another, as nothing else may be taken any more.
    pub(super) fn not_taken(&mut self, subject: &str) {
        self.taken.take_if(|taken| taken.as_str() == subject);
    }

    /// A subject to ask for that: the last one that was taken, or the one of further names.
    pub(super) fn to_ask(&self, fallback: &str, now: Instant) -> Option<String> {
        let candidates = self.taken.as_deref().into_iter().chain([fallback]);
        candidates.map(str::to_owned).find(|subject| !self.is_forbidden(subject, now))
    }
}

fn is_recent(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < FORBIDDEN_FOR
}

/// Why a message is set apart.
pub(super) fn refusal(subject: &str) -> String {
    format!("the user may not publish to the subject {subject}; give it the permission")
}

/// Why a sink waits. `filter` has all subjects of the template.
pub(super) fn held(subject: &str, filter: &str) -> String {
    format!(
        "the user may not publish to the subject {subject}, nor to another one of {filter} as far as is known, so the sink waits; give it the \
         permission to publish to {filter}"
    )
}

/// The subject that a server says is forbidden.
pub(super) fn named_in(text: &str) -> Option<String> {
    // Its texts are in small letters here and there, and of ASCII in front of the subject.
    let at = text.to_ascii_lowercase().find(WORDS)?;
    let mut letters = text.get(at + WORDS.len()..)?.chars();
    let mut subject = Vec::new();
    loop {
        match letters.next()? {
            '"' => return String::from_utf8(subject).ok(),
            '\\' => unescape(&mut letters, &mut subject)?,
            letter => push(letter, &mut subject),
        }
    }
}

/// Reads what is behind a backslash, as Go's `%q` writes it.
fn unescape(letters: &mut Chars<'_>, subject: &mut Vec<u8>) -> Option<()> {
    let kind = letters.next()?;
    let mut number =
        |digits| (0..digits).try_fold(0_u32, |number, _| Some((number << 4) | letters.next()?.to_digit(16)?));
    let letter = match kind {
        // A byte of what is not UTF-8.
        'x' => {
            subject.push(u8::try_from(number(2)?).ok()?);
            return Some(());
        }
        'u' => char::from_u32(number(4)?)?,
        'U' => char::from_u32(number(8)?)?,
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        letter @ ('"' | '\\') => letter,
        _ => return None,
    };
    push(letter, subject);
    Some(())
}

fn push(letter: char, subject: &mut Vec<u8>) {
    subject.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_names_the_subject() {
        for (text, subject) in [
            (r#"nats: Permissions Violation for Publish to "logs.Web""#, Some("logs.Web")),
            (r#"the server says: permissions violation for publish to "a.\"b\\"; more"#, Some(r#"a."b\"#)),
            // Go's strconv.Quote writes so what cannot be printed.
            (r#"Permissions Violation for Publish to "logs.a\u200bb\u00a0""#, Some("logs.a\u{200b}b\u{a0}")),
            (
                r#"Permissions Violation for Publish to "\U000e0001\a\b\f\n\r\t\v\x7f""#,
                Some("\u{e0001}\u{7}\u{8}\u{c}\n\r\t\u{b}\u{7f}"),
            ),
            (r#"Permissions Violation for Publish to "\xc3\xa9""#, Some("\u{e9}")),
            (r#"Permissions Violation for Publish to "\xff""#, None),
            (r#"Permissions Violation for Publish to "\ud800""#, None),
            (r#"Permissions Violation for Publish to "\u20"""#, None),
            (r#"Permissions Violation for Publish to "\q""#, None),
            (r#"Permissions Violation for Publish to "a"#, None),
            (r#"Permissions Violation for Subscription to "_INBOX.>""#, None),
        ] {
            assert_eq!(named_in(text).as_deref(), subject, "{text}");
        }
    }

    #[test]
    fn a_subject_is_forbidden_for_a_while_and_others_have_to_be_taken() {
        let (mut forbidden, now) = (Forbidden::default(), Instant::now());
        forbidden.taken(Some("logs.a".into()));
        assert!(forbidden.note("logs.b", "test", now) && !forbidden.note("logs.b", "test", now));
        assert!(forbidden.is_forbidden("logs.b", now) && !forbidden.is_forbidden("logs.B", now));
        assert!(!forbidden.has_other(), "it was taken before");
        assert_eq!(forbidden.to_ask("logs.other", now).as_deref(), Some("logs.a"));
        forbidden.taken(None);
        assert!(forbidden.has_other());
        assert!(forbidden.note("logs.a", "test", now) && !forbidden.has_other());
        assert_eq!(forbidden.to_ask("logs.other", now).as_deref(), Some("logs.other"));
        assert!(forbidden.note("logs.other", "test", now));
        assert_eq!(forbidden.to_ask("logs.other", now), None);
        // The permission for the last one that was taken is gone, too, and the sink waits.
        forbidden.taken(Some("logs.a".into()));
        forbidden.forget();
        assert!(forbidden.note("logs.b", "test", now));
        forbidden.not_taken("logs.other");
        assert_eq!(forbidden.to_ask("logs.other", now).as_deref(), Some("logs.a"));
        forbidden.not_taken("logs.a");
        assert_eq!(forbidden.to_ask("logs.other", now).as_deref(), Some("logs.other"));
        let mut other = Forbidden::default();
        assert!(other.note("logs.a", "test", now));
        other.forget();
        assert!(other.note("logs.a", "test", now), "it is tried again");
        let later = now + FORBIDDEN_FOR;
        assert!(!forbidden.is_forbidden("logs.b", later) && forbidden.note("logs.b", "test", later));
        for number in 0..SUBJECTS_MAX {
            assert_eq!(forbidden.note(&number.to_string(), "test", later), number < SUBJECTS_MAX - 1);
        }
    }
}
