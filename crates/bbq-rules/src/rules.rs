//! The rules of a listener, reader or sink.

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
use crate::options::{PARSE, Place, REDACT, SAMPLE, WHERE};
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

struct Inner {
    condition: Option<Expression>,
    sample: Option<Fraction>,
    redaction: Option<Redaction>,
    parse: Option<Parse>,
    /// The option as it was written.
    parse_text: String,
    failures: Arc<Failures>,
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
        let has_use = query.is_written(WHERE);
        let parse = query.take(PARSE, |text| match Parse::of(text)? {
            _ if !has_use => {
                Err("it has no use here without where; write an expression that names what it finds"
                    .to_owned())
            }
            parse => Ok((parse, text.to_owned())),
        })?;
        let scope = Scope {
            place: Some(place),
            has_parsed: parse.as_ref().is_some_and(|(parse, _)| parse.has_fields()),
        };
        let condition = query.take(WHERE, |text| Expression::of(text, &scope))?;
        let sample = query.take(SAMPLE, Fraction::parse)?;
        let redaction = query.take(REDACT, Redaction::of)?;
        let is_configured = condition.is_some() || sample.is_some() || redaction.is_some() || parse.is_some();
        let owner = query.name().to_owned();
        Ok(is_configured.then(|| Rules::new(condition, sample, redaction, parse, owner)))
    }

    /// Reads what [`Rules::text`] returns.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse_text(text: &str) -> Result<Rules, String> {
        let wrong = || format!("{text:?} are no rules");
        let Ok(Json::Object(map)) = serde_json::from_str::<Json>(text) else { return Err(wrong()) };
        let mut texts = Texts::default();
        for (key, value) in map {
            let Json::String(value) = value else { return Err(wrong()) };
            match key.as_str() {
                WHERE => texts.condition = Some(value),
                SAMPLE => texts.sample = Some(value),
                REDACT => texts.redact = Some(value),
                PARSE => texts.parse = Some(value),
                _ => return Err(wrong()),
            }
        }
        let of = |key: &str, problem: String| format!("{key}: {problem}");
        let parse = texts.parse.map(|text| Parse::of(&text).map(|parse| (parse, text))).transpose();
        let parse = parse.map_err(|problem| of(PARSE, problem))?;
        let has_parsed = parse.as_ref().is_some_and(|(parse, _)| parse.has_fields());
        let scope = Scope { place: None, has_parsed };
        let condition = texts.condition.map(|text| Expression::of(&text, &scope)).transpose();
        let sample = texts.sample.map(|text| Fraction::parse(&text)).transpose();
        let redaction = texts.redact.map(|text| Redaction::of(&text)).transpose();
        Ok(Rules::new(
            condition.map_err(|problem| of(WHERE, problem))?,
            sample.map_err(|problem| of(SAMPLE, problem))?,
            redaction.map_err(|problem| of(REDACT, problem))?,
            parse,
            String::new(),
        ))
    }

    fn new(
        condition: Option<Expression>,
        sample: Option<Fraction>,
        redaction: Option<Redaction>,
        parse: Option<(Parse, String)>,
        owner: String,
    ) -> Rules {
        let (parse, parse_text) = parse.map_or((None, String::new()), |(parse, text)| (Some(parse), text));
        let failures = Failures {
            owner,
            count: Counter::default(),
            is_told: AtomicBool::new(false),
            log: Mutex::default(),
        };
        let failures = Arc::new(failures);
        Rules { inner: Arc::new(Inner { condition, sample, redaction, parse, parse_text, failures }) }
    }

    /// The same rules with patterns of their own, which a thread uses without waiting for others. They count together.
    #[must_use]
    pub fn for_thread(&self) -> Rules {
        let Inner { condition, sample, redaction, parse, parse_text, failures } = &*self.inner;
        let inner = Inner {
            condition: condition.clone(),
            sample: *sample,
            redaction: redaction.clone(),
            parse: parse.clone(),
            parse_text: parse_text.clone(),
            failures: Arc::clone(failures),
        };
        Rules { inner: Arc::new(inner) }
    }

    /// All rules in one line. [`Rules::parse_text`] reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let Inner { condition, sample, redaction, parse_text, .. } = &*self.inner;
        let parts = [
            (WHERE, condition.as_ref().map(|condition| condition.text().to_owned())),
            (SAMPLE, sample.map(|fraction| fraction.share().to_string())),
            (REDACT, redaction.as_ref().map(|redaction| redaction.text().to_owned())),
            (PARSE, Some(parse_text.clone()).filter(|text| !text.is_empty())),
        ];
        let parts = parts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), Json::String(text?))));
        Json::Object(parts.collect::<Map<String, Json>>()).to_string()
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

    /// Whether a message is kept. One for which the expression fails is kept and counted.
    #[inline]
    pub fn keeps(&self, message: &Message<'_>, scratch: &mut Scratch) -> bool {
        let Inner { condition, sample, parse, failures, .. } = &*self.inner;
        if sample.is_some_and(|fraction| !fraction.chooses(message.stream, message.sequence)) {
            return false;
        }
        let Some(condition) = condition else { return true };
        let facts = Facts::new(message, scratch.peer(message.peer), parse.as_ref());
        match condition.decides(&facts) {
            Ok(keeps) => keeps,
            Err(failure) => {
                failures.add(condition.text(), &failure);
                true
            }
        }
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
