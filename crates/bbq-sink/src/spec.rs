//! A sink SPEC: `KIND:ARGUMENT[?key=value&...]`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bbq_rules::{Place, Rules, rule_options};
use bbq_spec::own_files::absolute;
use bbq_spec::{ConfigError, Query, Secret, SpecText};

use super::backlog::{Backlog, common_options};
use super::dead_letters::{self, DEAD_LETTERS_OPTION};
use super::kind::{Kind, Target};

/// A checked sink SPEC.
#[derive(Clone, Debug)]
pub struct SinkSpec {
    /// As it was written.
    pub text: String,
    /// The name that its cursor is stored under: the option `name`, or else the SPEC without its options.
    pub name: String,
    /// The SPEC without its options.
    pub head: String,
    kind: &'static Kind,
    /// The secrets of the target, which are not in the text.
    secrets: Vec<Secret>,
    pub(crate) target: Arc<dyn Target>,
    pub(crate) dead_letters_bytes: u64,
    pub(crate) backlog: Backlog,
    /// What the sink leaves out and changes, if anything.
    pub(crate) rules: Option<Rules>,
}

impl PartialEq for SinkSpec {
    fn eq(&self, other: &SinkSpec) -> bool {
        // The text is not enough: a value from a table may have an ampersand, which looks like another option in the text.
        self.text == other.text
            && self.name == other.name
            && self.secrets == other.secrets
            && self.rules == other.rules
    }
}

impl Eq for SinkSpec {}

/// As it was written.
impl fmt::Display for SinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl SinkSpec {
    pub(crate) fn of_kind(kind: &'static Kind, spec: &SpecText) -> Result<SinkSpec, ConfigError> {
        // This comes first: if all options are known, the text of the SPEC has no secret, and errors may show it.
        let mut query = Query::of(spec, common_options().chain(kind.each_option()))?;
        let SpecText { text, head, .. } = spec;
        let (word, argument) = head.split_once(':').unwrap_or((head, ""));
        match (kind.argument, argument) {
            ("", "") => {}
            ("", _) => {
                return Err(ConfigError::new(format!("{text:?}: nothing may follow {word}:; write {word}:")));
            }
            (form, "") => {
                return Err(ConfigError::new(format!("{text:?} has no {form}; write {word}:{form}")));
            }
            _ => {}
        }
        let name = query.take_name(spec)?;
        let backlog = Backlog::take(&mut query)?;
        let rules = Rules::take(&mut query, Place::Sink)?;
        let target = (kind.parse)(argument, &mut query)?;
        if target.is_next_server() && rules.is_some() {
            let options = rule_options().map(|option| option.key).collect::<Vec<_>>().join(", ");
            return Err(ConfigError::new(format!(
                "{text:?}: a sink {word}: passes every message on as it came, as the next server expects the numbers of a stream without \
                 gaps; write {options} at the listeners or readers of this server, or at the sinks of the next one"
            )));
        }
        if target.holds_back() && backlog.gives_up() {
            return Err(ConfigError::new(format!(
                "{text:?}: a sink that keeps messages which its server may lose cannot give them up; set keep_seconds=0, or leave out \
                 spool_bytes_max, spool_seconds_max and on_full=drop-oldest"
            )));
        }
        // Only kinds whose destination may refuse messages have the option.
        let dead_letters_bytes =
            query.take_number(DEAD_LETTERS_OPTION.key)?.unwrap_or(dead_letters::BYTES_DEFAULT);
        let secrets = query.finish()?;
        let (text, head) = (text.clone(), head.clone());
        Ok(SinkSpec { text, name, head, kind, secrets, target, dead_letters_bytes, backlog, rules })
    }

    /// Whether the sink passes all messages on to another bbq server, so that they are on both.
    pub fn is_replica(&self) -> bool {
        self.target.is_next_server() && self.backlog.takes_all()
    }

    /// What the sink leaves out and changes, if anything.
    #[must_use]
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.as_ref()
    }

    /// See [`Target::holds_back`].
    pub fn holds_back(&self) -> bool {
        self.target.holds_back()
    }

    /// Whether a name at the destination or the expression of `where` has fields that only the `parse` of a listener or reader can find.
    #[must_use]
    pub fn names_parsed_of_others(&self) -> bool {
        let rules = self.rules.as_ref();
        (self.target.names_parsed() && !rules.is_some_and(Rules::finds_fields))
            || rules.is_some_and(Rules::asks_parsed_of_others)
    }

    /// Memory that the sink takes in any case, beside its share of the window.
    pub fn memory_bytes_min(&self) -> u64 {
        self.target.memory_bytes_min()
    }

    /// The file that the sink writes, if it is one file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.target.file()
    }

    /// The directory that the sink makes files in, if any.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.target.directory()
    }

    /// What the sink writes: a file, or a directory of files.
    pub fn written(&self) -> Option<&Path> {
        // In this order, as the directory of a file depends on what is on the disk.
        self.file().or_else(|| self.directory())
    }

    /// Whether both sinks would write to the same place.
    pub fn clashes_with(&self, other: &SinkSpec) -> bool {
        self.kind.is_exclusive && self.place() == other.place()
    }

    /// Kind and argument, with a path from the root: `out.log` and `./out.log` are one file.
    fn place(&self) -> (&'static str, PathBuf) {
        let (_, argument) = self.head.split_once(':').unwrap_or_default();
        (self.kind.word, absolute(Path::new(argument)))
    }

    /// The same sink with limits of its own, for a sink that was not read from text: how many bytes and how long messages may wait for it,
    /// and whether it drops its oldest before they fill the spool.
    #[must_use]
    pub fn with_limits(
        self,
        bytes_max: Option<u64>,
        age_max: Option<Duration>,
        drops_oldest: bool,
    ) -> SinkSpec {
        SinkSpec { backlog: Backlog::of_limits(bytes_max, age_max, drops_oldest), ..self }
    }

    /// The same sink with rules of its own, for a sink that was not read from text.
    #[must_use]
    pub fn with_rules(self, rules: Option<Rules>) -> SinkSpec {
        SinkSpec { rules, ..self }
    }

    /// The same sink, which finds fields as these listeners and readers say, unless it has a `parse` of its own or a next server gets all
    /// as it came.
    #[must_use]
    pub fn with_parse_of<'a>(self, others: impl Iterator<Item = (&'a str, &'a Rules)>) -> SinkSpec {
        if self.target.is_next_server() {
            return self;
        }
        let rules = Rules::with_parse_of(self.rules.clone(), others);
        self.with_rules(rules)
    }

    /// The same sink with so much disk space for its dead letters.
    #[must_use]
    pub fn with_dead_letters_bytes(self, dead_letters_bytes: u64) -> SinkSpec {
        SinkSpec { dead_letters_bytes, ..self }
    }

    /// A SPEC that was not read from text.
    pub fn of_target(name: &str, kind: &'static Kind, target: Arc<dyn Target>) -> SinkSpec {
        let [text, name, head] = [name; 3].map(str::to_owned);
        let dead_letters_bytes = dead_letters::BYTES_DEFAULT;
        let backlog = Backlog::default();
        let secrets = Vec::new();
        SinkSpec { text, name, head, kind, secrets, target, dead_letters_bytes, backlog, rules: None }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use bbq_spec::{SpecOption, Values};
    use bbq_storage::{DiskStorage, Storage};

    use super::*;
    use crate::interface::{Now, OpenError, Sink};

    /// A kind with a secret.
    static CLOSED: Kind = Kind {
        word: "closed",
        argument: "",
        summary: "",
        options: &[&[SpecOption {
            key: "password",
            values: Values::Secret,
            default: "none",
            meaning: "opens it",
        }]],
        is_exclusive: false,
        parse: |_, query| Ok(Arc::new(ClosedTarget { password: query.take_secret("password")? })),
    };

    #[derive(Debug)]
    struct ClosedTarget {
        password: Option<Secret>,
    }

    impl Target for ClosedTarget {
        fn open(&self, _: &Arc<dyn Storage>, _: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
            let is_open = self.password.as_ref().is_some_and(|password| password.expose() == "sesame");
            let nothing = io::Error::other("nothing behind the door");
            Err(if is_open { OpenError::NotYet(nothing) } else { OpenError::Refused(nothing) })
        }
    }

    fn closed(options: &str) -> Result<SinkSpec, ConfigError> {
        SinkSpec::of_kind(&CLOSED, &SpecText::of_text(&format!("closed:?{options}"))?)
    }

    #[test]
    fn a_secret_comes_from_a_file_and_is_shown_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        std::fs::write(&path, "sesame\n").unwrap();
        let options = format!("password_file={}", path.display());
        let spec = closed(&options).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
        assert!(
            matches!(
                spec.target.open(&storage, None, Now::new(Duration::ZERO, 0)),
                Err(OpenError::NotYet(_))
            ),
            "it does not open"
        );
        assert!(format!("{spec:?}").contains("<secret>") && !format!("{spec:?} {spec}").contains("sesame"));
        assert_eq!(spec, closed(&options).unwrap());
        std::fs::write(&path, "changed\n").unwrap();
        assert!(spec != closed(&options).unwrap(), "a reload would go on with the old secret");
    }

    #[test]
    fn a_secret_is_refused_where_it_would_be_seen() {
        for (options, says) in [
            ("password=sesame", "write password_file=PATH or password_env=NAME"),
            ("password=sesame&password=other", "password is given twice"),
            ("password=sesame&open", "option 2 has no value"),
            ("password=open&sesame", "option 2 has no value"),
            ("pasword=sesame", "did you mean \"password_"),
            ("Password=sesame", "unknown option \"Password\""),
            ("name=&password=sesame", "write password_file=PATH"),
            ("password_env=open sesame", "not the name of an environment variable"),
            ("pasword_env=PATH", "did you mean \"password_env\""),
            ("password_env=BBQ_NOT_SET", "BBQ_NOT_SET"),
            ("password_env=PATH&password_file=Cargo.toml", "contradict"),
            ("password_file=/nowhere/at/all", "/nowhere/at/all"),
        ] {
            let error = closed(options).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("sesame"), "{options}: {error}");
        }
        assert!(closed("password_env=PATH").is_ok() && closed("").is_ok());
    }
}
