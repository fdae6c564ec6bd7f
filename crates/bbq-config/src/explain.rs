//! What there is to know of a key: from the lists of keys and options, and from the configuration that is in effect.

use bbq_intake::{is_kept, listen_options};
use bbq_read::read_options;
use bbq_sink::{Kind as SinkKind, Kinds, common_options};
use bbq_spec::{ConfigError, NAME_OPTION, SpecOption, Values, nearest};

use crate::config::{Config, ConfigSource};
use crate::environment::{self, Environment};
use crate::file::{GivenSpec, Settings};
use crate::keys::{FILE_KEYS, FileKey, OnReload};

/// The key of listeners, and how the names of their options begin here: `listen.on_full`.
const LISTEN: &str = "listen";
/// The same for readers.
const READ: &str = "read";
/// The same for sinks.
const SINK: &str = "sink";

/// A key of the file, or an option of listeners, readers or sinks.
#[derive(Debug)]
pub enum Subject {
    /// A key of the file.
    Key(&'static FileKey),
    /// An option of listeners.
    Listen(&'static SpecOption),
    /// An option of readers.
    Read(&'static SpecOption),
    /// An option of sinks, with the kinds that have it.
    Sink(&'static SpecOption, Vec<&'static SinkKind>),
}

impl Subject {
    /// All of them, in the order in which people read them.
    #[must_use]
    pub fn all(kinds: &Kinds) -> Vec<Subject> {
        let keys = FILE_KEYS.iter().map(Subject::Key);
        let listen = [&NAME_OPTION].into_iter().chain(listen_options()).map(Subject::Listen);
        let read = [&NAME_OPTION].into_iter().chain(read_options()).map(Subject::Read);
        // An option that several kinds have is one.
        let mut sinks: Vec<(&SpecOption, Vec<&SinkKind>)> =
            common_options().map(|option| (option, kinds.present.to_vec())).collect();
        for (kind, option) in
            kinds.present.iter().flat_map(|kind| kind.each_option().map(move |option| (kind, option)))
        {
            match sinks.iter_mut().find(|(known, _)| {
                (known.key, known.meaning, known.default) == (option.key, option.meaning, option.default)
            }) {
                Some((_, kinds)) => kinds.push(kind),
                None => sinks.push((option, vec![kind])),
            }
        }
        let sinks = sinks.into_iter().map(|(option, kinds)| Subject::Sink(option, kinds));
        keys.chain(listen).chain(read).chain(sinks).collect()
    }

    /// Those with this name: a whole one (`spool.bytes_max`, `listen.on_full`), its last word, a table (`spool`, `listen`, `read`), or a kind of
    /// sink (`sink.file`, or `file` if it is nothing else).
    ///
    /// # Errors
    /// There is none; the nearest one.
    pub fn named(kinds: &Kinds, name: &str) -> Result<Vec<Subject>, ConfigError> {
        let table = format!("{name}.");
        let last_word = format!(".{name}");
        let of_sinks = name.strip_prefix(SINK).and_then(|rest| rest.strip_prefix('.'));
        let is_kind = |kind: &&SinkKind| Some(kind.word) == of_sinks;
        let is_meant = |subject: &Subject| {
            let known = subject.name();
            let words = subject.option().words();
            known == name
                || known.starts_with(&table)
                || known.ends_with(&last_word)
                || words.iter().any(|word| word == name || format!("{}.{word}", subject.table()) == name)
                || subject.kinds().iter().any(&is_kind)
        };
        let of_kind = |subject: Subject| match subject {
            // What other kinds have is not meant.
            Subject::Sink(option, kinds) => match kinds.iter().copied().find(&is_kind) {
                Some(kind) => Subject::Sink(option, vec![kind]),
                None => Subject::Sink(option, kinds),
            },
            subject => subject,
        };
        let found: Vec<Subject> = Subject::all(kinds).into_iter().filter(is_meant).map(of_kind).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        if let Some(why) = of_sinks.and_then(|word| kinds.why_left_out(word)) {
            return Err(ConfigError::new(why));
        }
        let is_kind =
            kinds.present.iter().any(|kind| kind.word == name) || kinds.why_left_out(name).is_some();
        if is_kind {
            return Subject::named(kinds, &format!("{SINK}.{name}"));
        }
        let mut known: Vec<String> = Subject::all(kinds).iter().map(Subject::name).collect();
        known.extend(kinds.present.iter().map(|kind| format!("{SINK}.{}", kind.word)));
        known.dedup();
        let all: Vec<&str> = known.iter().map(String::as_str).collect();
        let last: Vec<&str> = all.iter().filter_map(|name| name.rsplit('.').next()).collect();
        // Without a dot somebody means a last word.
        let near = nearest(name, if name.contains('.') { &all } else { &last });
        let hint = near.map(|near| format!(" did you mean {near:?}?")).unwrap_or_default();
        Err(ConfigError::new(format!("unknown key {name:?};{hint} `bbq config explain` lists all keys")))
    }

    /// What it is called among all of them.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Subject::Key(known) => known.option.key.to_owned(),
            Subject::Listen(option) => format!("{LISTEN}.{}", option.key),
            Subject::Read(option) => format!("{READ}.{}", option.key),
            Subject::Sink(option, _) => format!("{SINK}.{}", option.key),
        }
    }

    /// The kinds of sinks that have it.
    #[must_use]
    pub fn kinds(&self) -> &[&'static SinkKind] {
        match self {
            Subject::Sink(_, kinds) => kinds,
            Subject::Key(_) | Subject::Listen(_) | Subject::Read(_) => &[],
        }
    }

    /// The table of the file in which it stands; empty for none.
    #[must_use]
    pub fn table(&self) -> &'static str {
        match self {
            Subject::Key(known) => known.option.key.split_once('.').map_or("", |(table, _)| table),
            Subject::Listen(_) => LISTEN,
            Subject::Read(_) => READ,
            Subject::Sink(..) => SINK,
        }
    }

    /// Its definition.
    #[must_use]
    pub fn option(&self) -> &'static SpecOption {
        match self {
            Subject::Key(known) => &known.option,
            Subject::Listen(option) | Subject::Read(option) | Subject::Sink(option, _) => option,
        }
    }

    /// The unit of its numbers, if they have one: the name says it.
    #[must_use]
    pub fn unit(&self) -> Option<&'static str> {
        let option = self.option();
        let words: Vec<&str> = option.key.split(['_', '.']).collect();
        match option.values {
            Values::Text { .. }
            | Values::Words(_)
            | Values::Specs(_)
            | Values::Secret
            | Values::Fraction
            | Values::Rewrites => None,
            _ if words.contains(&"bytes") => Some("bytes"),
            _ if words.last() == Some(&"ms") => Some("milliseconds"),
            _ if words.last() == Some(&"seconds") => Some("seconds"),
            _ => None,
        }
    }

    /// Its environment variable, if it has one.
    #[must_use]
    pub fn variable(&self) -> Option<String> {
        match self {
            Subject::Key(known) => Some(environment::variable_of(known.option.key)),
            _ => None,
        }
    }

    /// How it is given on the command line of `bbq serve`, if it can be.
    #[must_use]
    pub fn argument(&self) -> Option<String> {
        match self {
            Subject::Key(known) => Some(format!("--{} {}", known.option.key, known.argument?)),
            Subject::Listen(option) => {
                Some(format!("--{LISTEN} 'SPEC?{}=...'", option.words().join("=...' or '")))
            }
            Subject::Read(option) => {
                Some(format!("--{READ} 'SPEC?{}=...'", option.words().join("=...' or '")))
            }
            Subject::Sink(option, _) => {
                Some(format!("--{SINK} 'SPEC?{}=...'", option.words().join("=...' or '")))
            }
        }
    }

    /// What a reload does with a change.
    #[must_use]
    pub fn on_reload(&self) -> OnReload {
        match self {
            Subject::Key(known) => known.on_reload,
            Subject::Listen(option) if is_kept(option.key) => OnReload::NewListeners,
            _ => OnReload::Applies,
        }
    }
}

/// A value that is in effect.
#[derive(Debug, PartialEq, Eq)]
pub struct Value {
    /// The listener, the reader or the sink whose option it is; `None` for a key of the file.
    pub of: Option<String>,
    /// The value, as it can stand in the file.
    pub text: String,
    /// Where it comes from; `None` for a default.
    pub from: Option<String>,
}

/// A configuration with the origin of each value.
#[derive(Debug)]
pub struct InEffect {
    config: Config,
    settings: Settings,
}

impl ConfigSource {
    /// What a server would use, with the origin of each value.
    ///
    /// # Errors
    /// The first mistake that was found.
    pub fn in_effect(&self, kinds: &Kinds) -> Result<InEffect, ConfigError> {
        let settings = self.settings()?;
        Ok(InEffect { config: Config::of(kinds, &settings)?, settings })
    }
}

impl InEffect {
    /// What to say of environment variables that look as if they were keys, and are none.
    #[must_use]
    pub fn warnings_of(&self, environment: &Environment) -> Vec<String> {
        // A SPEC may name the variable of a secret.
        let specs =
            [LISTEN, READ, SINK].into_iter().filter_map(|key| self.settings.given_specs(key)).flatten();
        let options = specs.flat_map(|given| &given.spec.options);
        let secrets: Vec<&str> =
            options.filter(|(key, _)| key.ends_with("_env")).map(|(_, name)| name.as_str()).collect();
        environment.warnings(|name| secrets.contains(&name))
    }

    /// The configuration alone.
    #[must_use]
    pub fn into_config(self) -> Config {
        self.config
    }

    /// The values of a subject: one, or one for each listener, reader or sink. Those of SPECs that do not set an option are left out.
    #[must_use]
    pub fn values(&self, subject: &Subject) -> Vec<Value> {
        match subject {
            Subject::Key(known) => match known.option.values {
                Values::Specs(_) => self.specs(known.option.key),
                _ => {
                    let from = self.settings.place(known.option.key).map(ToString::to_string);
                    vec![Value { of: None, text: self.config.value_of(known.option.key), from }]
                }
            },
            Subject::Listen(option) => self.options(LISTEN, option, |_| true),
            Subject::Read(option) => self.options(READ, option, |_| true),
            Subject::Sink(option, kinds) => self.options(SINK, option, |head| {
                kinds
                    .iter()
                    .any(|kind| head.strip_prefix(kind.word).is_some_and(|rest| rest.starts_with(':')))
            }),
        }
    }

    fn specs(&self, key: &str) -> Vec<Value> {
        let texts = self.config.specs_of(key);
        let given = self.settings.given_specs(key);
        let value = |(index, text): (usize, &str)| {
            let from = given.and_then(|given| given.get(index)).map(|given| given.place.to_string());
            Value { of: None, text: text.to_owned(), from }
        };
        texts.into_iter().enumerate().map(value).collect()
    }

    /// The values that SPECs give to an option.
    fn options(&self, key: &str, option: &SpecOption, is_of_kind: impl Fn(&str) -> bool) -> Vec<Value> {
        let words = option.words();
        let given = self.settings.given_specs(key).unwrap_or_default();
        let of_kind = given.iter().filter(|given| is_of_kind(&given.spec.head));
        of_kind
            .flat_map(|GivenSpec { place, spec, .. }| {
                let set = spec.options.iter().filter(|(key, _)| words.contains(key));
                set.map(|(_, value)| Value {
                    of: Some(spec.shown_head()),
                    text: value.clone(),
                    from: Some(place.to_string()),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds_of_tests::KINDS;

    fn names(name: &str) -> Vec<String> {
        Subject::named(&KINDS, name).unwrap().iter().map(Subject::name).collect()
    }

    #[test]
    fn a_key_is_found_by_its_name_its_last_word_and_its_table() {
        assert_eq!(names("spool.bytes_max"), ["spool.bytes_max"]);
        assert_eq!(names("bytes_max"), ["spool.bytes_max"]);
        assert_eq!(names("spool").len(), 3);
        assert_eq!(names("on_full"), ["listen.on_full", "sink.on_full"]);
        assert_eq!(names("distribution"), ["distribution", "listen.distribution"]);
        assert_eq!(names("listen").len(), 2 + listen_options().count());
        assert!(names("otlp+http").contains(&"sink.compress".to_owned()));
        assert_eq!(names("otlp+http"), names("sink.otlp+http"));
        let all = Subject::all(&KINDS);
        assert!(all.iter().all(|subject| names(&subject.name()).contains(&subject.name())));
    }

    #[test]
    fn what_is_unknown_has_a_nearest() {
        let error = |name| Subject::named(&KINDS, name).unwrap_err().to_string();
        assert!(error("spool.byte_max").contains("did you mean \"spool.bytes_max\"?"));
        assert!(error("worker").contains("did you mean \"workers\"?"));
        assert!(error("on_ful").contains("did you mean \"on_full\"?"));
        assert!(error("zzz").ends_with("unknown key \"zzz\"; `bbq config explain` lists all keys"));
    }

    #[test]
    fn a_number_with_a_unit_in_its_name_has_a_unit() {
        let unit = |name| Subject::named(&KINDS, name).unwrap()[0].unit();
        assert_eq!(unit("spool.flush_interval_ms"), Some("milliseconds"));
        assert_eq!(unit("drain_timeout_seconds"), Some("seconds"));
        assert_eq!(unit("spool.bytes_max"), Some("bytes"));
        assert_eq!((unit("workers"), unit("data"), unit("listen.backlog")), (None, None, None));
    }
}
