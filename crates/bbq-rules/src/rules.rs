//! The rules of a listener, reader or sink.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bbq_spec::counter::Counter;
use bbq_spec::{ConfigError, Query, RateLimitedLog};
use bbq_wire::SourceKind;
use serde_json::{Map, Value as Json};
use tracing::warn;

use crate::expression::Expression;
use crate::facts::{Facts, Scope};
use crate::message::{Message, Scratch};
use crate::options::{PARSE, PARSE_OF, Place, REDACT, SAMPLE, WHERE};
use crate::parse::Parse;
use crate::redact::Redaction;
use crate::sample::Fraction;

/// After a line in the log, so many failures are counted before the clock is read again.
const FAILURES_PER_LOOK: u64 = 1024;

/// What is kept, and what is replaced. Copies count together.
#[derive(Clone)]
pub struct Rules {
    inner: Arc<Inner>,
}

#[derive(Clone)]
struct Inner {
    condition: Option<Expression>,
    sample: Option<Fraction>,
    redaction: Option<Redaction>,
    parse: Option<ParseRule>,
    /// What listeners and readers of this server say of their messages, by name.
    parse_of: BTreeMap<String, ParseRule>,
    failures: Arc<Failures>,
}

impl From<Inner> for Rules {
    fn from(inner: Inner) -> Rules {
        Rules { inner: Arc::new(inner) }
    }
}

/// What finds fields, and the option as it was written.
#[derive(Clone)]
struct ParseRule {
    parse: Parse,
    text: String,
}

impl ParseRule {
    fn of(text: &str) -> Result<ParseRule, String> {
        Ok(ParseRule { parse: Parse::of(text)?, text: text.to_owned() })
    }
}

fn failures(owner: String) -> Arc<Failures> {
    let count = Counter::default();
    Arc::new(Failures { owner, count, is_told: AtomicBool::new(false), log: Mutex::default() })
}

/// Messages for which the expression had no result.
struct Failures {
    /// Whose rules they are, for the log.
    owner: String,
    count: Counter,
    /// Whether a line was logged.
    is_told: AtomicBool,
    log: Mutex<RateLimitedLog>,
}

/// The options as they were written.
#[derive(Default)]
struct Texts {
    condition: Option<String>,
    sample: Option<String>,
    redact: Option<String>,
    parse: Option<String>,
}

impl Rules {
    /// Takes the options of rules; `None` if there are none.
    ///
    /// # Errors
    /// An option is wrong. For an expression the error says where.
    pub fn take(query: &mut Query<'_>, place: Place) -> Result<Option<Rules>, ConfigError> {
        let parse = query.take(PARSE, ParseRule::of)?;
        let has_parsed = match &parse {
            Some(own) => own.parse.has_fields(),
            // Listeners and readers may say how: whoever knows them asks `asks_parsed_of_others`.
            None => place == Place::Sink,
        };
        let scope = Scope { place: Some(place), has_parsed };
        let condition = query.take(WHERE, |text| Expression::of(text, &scope))?;
        let sample = query.take(SAMPLE, Fraction::parse)?;
        let redaction = query.take(REDACT, Redaction::of)?;
        let is_configured = condition.is_some() || sample.is_some() || redaction.is_some() || parse.is_some();
        let owner = query.name().to_owned();
        Ok(is_configured.then(|| {
            Inner {
                condition,
                sample,
                redaction,
                parse,
                parse_of: BTreeMap::new(),
                failures: failures(owner),
            }
            .into()
        }))
    }

    /// Reads what [`Rules::text`] returns.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse_text(text: &str) -> Result<Rules, String> {
        let wrong = || format!("{text:?} are no rules");
        let Ok(Json::Object(map)) = serde_json::from_str::<Json>(text) else { return Err(wrong()) };
        let mut texts = Texts::default();
        let of = |key: &str, problem: String| format!("{key}: {problem}");
        let mut parse_of = BTreeMap::new();
        for (key, value) in map {
            let value = match value {
                Json::String(value) => value,
                Json::Object(each) if key == PARSE_OF => {
                    for (listener, value) in each {
                        let rule = ParseRule::of(value.as_str().ok_or_else(wrong)?);
                        parse_of.insert(listener, rule.map_err(|problem| of(PARSE_OF, problem))?);
                    }
                    continue;
                }
                _ => return Err(wrong()),
            };
            match key.as_str() {
                WHERE => texts.condition = Some(value),
                SAMPLE => texts.sample = Some(value),
                REDACT => texts.redact = Some(value),
                PARSE => texts.parse = Some(value),
                _ => return Err(wrong()),
            }
        }
        let parse = texts.parse.map(|text| ParseRule::of(&text)).transpose();
        let parse = parse.map_err(|problem| of(PARSE, problem))?;
        let has_parsed = match &parse {
            Some(own) => own.parse.has_fields(),
            None => parse_of.values().any(|rule| rule.parse.has_fields()),
        };
        let scope = Scope { place: None, has_parsed };
        let condition = texts.condition.map(|text| Expression::of(&text, &scope)).transpose();
        let sample = texts.sample.map(|text| Fraction::parse(&text)).transpose();
        let redaction = texts.redact.map(|text| Redaction::of(&text)).transpose();
        let inner = Inner {
            condition: condition.map_err(|problem| of(WHERE, problem))?,
            sample: sample.map_err(|problem| of(SAMPLE, problem))?,
            redaction: redaction.map_err(|problem| of(REDACT, problem))?,
            parse,
            parse_of,
            failures: failures(String::new()),
        };
        Ok(inner.into())
    }

    /// The rules of a sink, with what listeners and readers say of their messages: their `parse` counts where the sink has none of its own.
    /// `None` if that is nothing.
    #[must_use]
    pub fn with_parse_of<'a>(
        own: Option<Rules>,
        others: impl Iterator<Item = (&'a str, &'a Rules)>,
    ) -> Option<Rules> {
        if own.as_ref().is_some_and(|own| own.inner.parse.is_some()) {
            return own;
        }
        let parse_of: BTreeMap<String, ParseRule> =
            others.filter_map(|(name, rules)| Some((name.to_owned(), rules.inner.parse.clone()?))).collect();
        if parse_of.is_empty() {
            return own;
        }
        let inner = match own {
            Some(own) => Inner { parse_of, ..Inner::clone(&own.inner) },
            None => Inner {
                condition: None,
                sample: None,
                redaction: None,
                parse: None,
                parse_of,
                failures: failures(String::new()),
            },
        };
        Some(inner.into())
    }

    /// The same rules, if there are any but for what is left out and replaced: those of messages that had all rules already.
    #[must_use]
    pub fn parse_alone(&self) -> Option<Rules> {
        let Inner { parse, parse_of, failures, .. } = &*self.inner;
        let inner = Inner {
            condition: None,
            sample: None,
            redaction: None,
            parse: parse.clone(),
            parse_of: parse_of.clone(),
            failures: Arc::clone(failures),
        };
        self.parses().then(|| inner.into())
    }

    /// The same rules with patterns of their own, which a thread uses without waiting for others. They count together.
    #[must_use]
    pub fn for_thread(&self) -> Rules {
        Inner::clone(&self.inner).into()
    }

    /// All rules in one line. [`Rules::parse_text`] reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let Inner { condition, sample, redaction, parse, parse_of, .. } = &*self.inner;
        let parts = [
            (WHERE, condition.as_ref().map(|condition| condition.text().to_owned())),
            (SAMPLE, sample.map(|fraction| fraction.share().to_string())),
            (REDACT, redaction.as_ref().map(|redaction| redaction.text().to_owned())),
            (PARSE, parse.as_ref().map(|rule| rule.text.clone())),
        ];
        let parts = parts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), Json::String(text?))));
        let mut parts: Map<String, Json> = parts.collect();
        if !parse_of.is_empty() {
            let each = parse_of.iter().map(|(listener, rule)| (listener.clone(), rule.text.clone().into()));
            parts.insert(PARSE_OF.to_owned(), Json::Object(each.collect()));
        }
        Json::Object(parts).to_string()
    }

    /// Whether they leave messages out.
    #[must_use]
    pub fn leaves_out(&self) -> bool {
        self.inner.condition.is_some() || self.inner.sample.is_some()
    }

    /// Whether they replace anything in messages.
    #[must_use]
    pub fn redacts(&self) -> bool {
        self.inner.redaction.is_some()
    }

    /// Whether they leave out or replace anything before messages are stored. Rules that only find fields are for those who show messages.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.leaves_out() || self.redacts()
    }

    /// Whether they find fields in messages.
    #[must_use]
    pub fn parses(&self) -> bool {
        self.inner.parse.is_some() || !self.inner.parse_of.is_empty()
    }

    /// Whether they find fields by names, and not a header of syslog alone.
    #[must_use]
    pub fn finds_fields(&self) -> bool {
        let Inner { parse, parse_of, .. } = &*self.inner;
        parse.iter().chain(parse_of.values()).any(|rule| rule.parse.has_fields())
    }

    /// The same for the messages of this listener or reader.
    #[must_use]
    pub fn finds_fields_at(&self, listener: &str) -> bool {
        self.parse_at(listener).is_some_and(Parse::has_fields)
    }

    /// Whether the expression names a field as parsed that only the `parse` of a listener or reader can find.
    #[must_use]
    pub fn asks_parsed_of_others(&self) -> bool {
        let Inner { condition, parse, .. } = &*self.inner;
        let nothing_parsed = Scope { place: None, has_parsed: false };
        // What can be used anywhere else is refused there for this alone.
        let asks = |condition: &Expression| Expression::of(condition.text(), &nothing_parsed).is_err();
        parse.is_none() && condition.as_ref().is_some_and(asks)
    }

    /// What finds fields in the messages of this listener.
    #[inline]
    pub(crate) fn parse_at(&self, listener: &str) -> Option<&Parse> {
        let Inner { parse, parse_of, .. } = &*self.inner;
        parse.as_ref().or_else(|| parse_of.get(listener)).map(|rule| &rule.parse)
    }

    /// Whether a message is kept. One for which the expression fails is kept and counted.
    #[inline]
    pub fn keeps(&self, message: &Message<'_>, scratch: &mut Scratch) -> bool {
        self.keeps_from(message.listener, message, scratch)
    }

    /// The same for the rules of a sink. The `parse` of this listener or reader of this server counts if they have none of their own; the one
    /// in the message is of the first server.
    #[inline]
    pub fn keeps_from(&self, listener: &str, message: &Message<'_>, scratch: &mut Scratch) -> bool {
        let Inner { condition, sample, failures, .. } = &*self.inner;
        if sample.is_some_and(|fraction| !fraction.chooses(message.stream, message.sequence)) {
            return false;
        }
        let Some(condition) = condition else { return true };
        let facts = Facts::new(message, scratch.peer(message.peer), self.parse_at(listener));
        match condition.decides(&facts) {
            Ok(keeps) => keeps,
            Err(failure) => {
                failures.add(condition.text(), &failure);
                true
            }
        }
    }

    /// Whether the expression is true of a message. Nothing is counted or logged: somebody tries an expression.
    ///
    /// # Errors
    /// The message does not have what the expression asks for. [`Rules::keeps`] keeps it.
    pub fn is_true_of(&self, message: &Message<'_>, scratch: &mut Scratch) -> Result<bool, String> {
        let Inner { condition, parse, .. } = &*self.inner;
        let Some(condition) = condition else { return Ok(true) };
        let facts = Facts::new(message, scratch.peer(message.peer), parse.as_ref().map(|rule| &rule.parse));
        condition.decides(&facts).map_err(|failure| failure.to_string())
    }

    /// Replaces in a record, and appends the result to `out`. Returns `false`, and appends nothing, if the record stays as it is.
    #[inline]
    pub fn redact(&self, source: SourceKind, record: &[u8], out: &mut Vec<u8>) -> bool {
        self.inner.redaction.as_ref().is_some_and(|redaction| redaction.apply(source, record, out))
    }

    /// For how many messages the expression has failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.inner.failures.count.count()
    }
}

impl Failures {
    #[cold]
    fn add(&self, condition: &str, failure: &impl fmt::Display) {
        self.count.add(1);
        let failed = self.count.count();
        if self.is_told.swap(true, Ordering::Relaxed) && !failed.is_multiple_of(FAILURES_PER_LOOK) {
            return;
        }
        // Another thread that logs the same at this moment is enough.
        let Ok(log) = self.log.try_lock() else { return };
        if log.report().is_some() {
            let Failures { owner, .. } = self;
            warn!(
                name = owner,
                failed, "cannot evaluate where = {condition:?} for a message, which is kept: {failure}"
            );
        }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rules").field(&self.text()).finish()
    }
}

/// Rules are the same if they are written the same.
impl PartialEq for Rules {
    fn eq(&self, other: &Rules) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.text() == other.text()
    }
}

impl Eq for Rules {}
