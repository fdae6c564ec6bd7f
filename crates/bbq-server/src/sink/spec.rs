//! A sink SPEC: `KIND:ARGUMENT[?key=value&...]`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bbq_spec::own_files::absolute;
use bbq_spec::{ConfigError, Query, Secret, SpecText, nearest};

use super::backlog::{Backlog, common_options};
use super::dead_letters::{self, DEAD_LETTERS_OPTION};
use super::kind::{Kind, Target};
use super::kinds::{LEFT_OUT, LeftOut, SINK_KINDS};

/// A checked sink SPEC.
#[derive(Clone, Debug)]
pub struct SinkSpec {
    /// As it was written.
    pub text: String,
    /// The name that its cursor is stored under: the option `name`, or else the SPEC without its options.
    pub name: String,
    /// The SPEC without its options.
    pub(crate) head: String,
    kind: &'static Kind,
    /// The secrets of the target, which are not in the text.
    secrets: Vec<Secret>,
    pub(super) target: Arc<dyn Target>,
    pub(super) dead_letters_bytes: u64,
    pub(super) backlog: Backlog,
}

impl PartialEq for SinkSpec {
    fn eq(&self, other: &SinkSpec) -> bool {
        // The text is not enough: a value from a table may have an ampersand, which looks like another option in the text.
        self.text == other.text && self.name == other.name && self.secrets == other.secrets
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
    /// Reads a SPEC.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<SinkSpec, ConfigError> {
        SinkSpec::of(&SpecText::of_text(text)?)
    }

    /// Reads a SPEC that is in parts already.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub(crate) fn of(spec: &SpecText) -> Result<SinkSpec, ConfigError> {
        let head = &spec.head;
        let (word, _) = head.split_once(':').unwrap_or((head, ""));
        let Some(kind) = SINK_KINDS.iter().find(|kind| kind.word == word && head.contains(':')) else {
            let left_out = LEFT_OUT.iter().find(|kind| kind.word == word);
            let shown = spec.shown_head();
            return Err(ConfigError::new(match left_out {
                Some(kind) => not_in_this_build(&shown, kind),
                None => unknown_sink(&shown, word),
            }));
        };
        SinkSpec::of_kind(kind, spec)
    }

    fn of_kind(kind: &'static Kind, spec: &SpecText) -> Result<SinkSpec, ConfigError> {
        // This comes first: if all options are known, the text of the SPEC has no secret, and errors may show it.
        let mut query = Query::of(spec, common_options().chain(kind.options))?;
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
        let target = (kind.parse)(argument, &mut query)?;
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
        Ok(SinkSpec { text, name, head, kind, secrets, target, dead_letters_bytes, backlog })
    }

    /// Whether the sink passes all messages on to another bbq server, so that they are on both.
    pub(crate) fn is_replica(&self) -> bool {
        self.target.is_next_server() && self.backlog.takes_all()
    }

    /// See [`Target::holds_back`].
    pub(crate) fn holds_back(&self) -> bool {
        self.target.holds_back()
    }

    /// Memory that the sink takes in any case, beside its share of the window.
    pub(crate) fn memory_bytes_min(&self) -> u64 {
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
    pub(crate) fn written(&self) -> Option<&Path> {
        // In this order, as the directory of a file depends on what is on the disk.
        self.file().or_else(|| self.directory())
    }

    /// Whether both sinks would write to the same place.
    pub(crate) fn clashes_with(&self, other: &SinkSpec) -> bool {
        self.kind.is_exclusive && self.place() == other.place()
    }

    /// Kind and argument, with a path from the root: `out.log` and `./out.log` are one file.
    fn place(&self) -> (&'static str, PathBuf) {
        let (_, argument) = self.head.split_once(':').unwrap_or_default();
        (self.kind.word, absolute(Path::new(argument)))
    }

    /// A SPEC that was not read from text.
    pub(super) fn of_target(name: &str, kind: &'static Kind, target: Arc<dyn Target>) -> SinkSpec {
        let [text, name, head] = [name; 3].map(str::to_owned);
        let dead_letters_bytes = dead_letters::BYTES_DEFAULT;
        let backlog = Backlog::default();
        SinkSpec { text, name, head, kind, secrets: Vec::new(), target, dead_letters_bytes, backlog }
    }
}

/// Words of destinations that have another form here.
const OTHER_WORDS: [(&str, &str); 10] = [
    ("elasticsearch", "http://HOST:9200/INDEX/_bulk?preset=elasticsearch"),
    ("opensearch", "http://HOST:9200/INDEX/_bulk?preset=elasticsearch"),
    ("clickhouse", "http://HOST:8123/?preset=clickhouse"),
    ("loki", "http://HOST:3100/loki/api/v1/push?preset=loki"),
    ("splunk", "https://HOST:8088/services/collector/event?preset=splunk&authorization_file=PATH"),
    ("otlp", "otlp+http://HOST:4318 or otlp+grpc://HOST:4317"),
    ("grpc", "otlp+grpc://HOST:4317"),
    ("tcp", "bbq://HOST:7700, for another bbq"),
    ("stderr", "file:/dev/stderr"),
    ("jetstream", "nats://HOST:4222/SUBJECT?stream=NAME"),
];

fn unknown_sink(text: &str, word: &str) -> String {
    if text.starts_with(['/', '.', '~']) {
        return format!("{text:?} is not a sink; to write to this file, write file:{text}");
    }
    if let Some((_, form)) = OTHER_WORDS.iter().find(|(other, _)| word.eq_ignore_ascii_case(other)) {
        return format!("{text:?} is not a sink; write {form}");
    }
    let words = SINK_KINDS.iter().map(|kind| kind.word).chain(LEFT_OUT.iter().map(|kind| kind.word));
    let words: Vec<&str> = words.collect();
    if let Some(near) = nearest(word, &words) {
        let argument = SINK_KINDS.iter().find(|kind| kind.word == near).map_or("", |kind| kind.argument);
        return format!("{text:?} is not a sink; did you mean {near}:{argument}?");
    }
    let forms: Vec<String> =
        SINK_KINDS.iter().map(|kind| format!("{}:{}", kind.word, kind.argument)).collect();
    format!(
        "{text:?} is not a sink; write one of {}; `bbq config explain sink` explains each",
        forms.join(", ")
    )
}

/// Why this build does not have a kind of sink, if it could.
pub(crate) fn why_left_out(word: &str) -> Option<String> {
    LEFT_OUT.iter().find(|left_out| left_out.word == word).map(|left_out| not_in_this_build(word, left_out))
}

fn not_in_this_build(text: &str, LeftOut { word, feature }: &LeftOut) -> String {
    format!(
        "{text:?}: this bbq was built without the sink {word}:; packages of bbq have every sink; otherwise build it from a \
         clone: cargo install --locked --path crates/bbq --features {feature} (or full, for every sink)"
    )
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use bbq_spec::{SpecOption, Values};
    use bbq_storage::{DiskStorage, Storage};

    use super::*;
    use crate::sink::interface::{Now, OpenError, Sink};

    #[test]
    fn the_forms_of_the_interface() {
        let spec = "file:/var/log/all.log?format=json&rotate_bytes=100MiB&rotate=daily&keep=7&name=all";
        let spec = SinkSpec::parse(spec).unwrap();
        let target = format!("{:?}", spec.target);
        for part in ["/var/log/all.log", "Json", "bytes: Some(104857600), daily: true, keep: Some(7)"] {
            assert!(target.contains(part), "{target}");
        }
        assert_eq!(spec.name, "all");
        assert_eq!(SinkSpec::parse("stdout:").unwrap().name, "stdout:");
        assert_eq!(SinkSpec::parse("null:").unwrap().name, "null:");
    }

    #[test]
    fn each_mistake_names_the_part_and_the_remedy() {
        for (spec, says) in [
            ("/var/log/x", "write file:/var/log/x"),
            ("elasticsearch://search:9200", "?preset=elasticsearch"),
            ("mongodb:a", "one of file:PATH"),
            ("fil:/var/log/x", "did you mean file:PATH?"),
            ("file", "did you mean file:PATH?"),
            ("file:", "has no PATH"),
            ("null:x", "nothing may follow null:"),
            ("file:x?format=xml", "raw, json"),
            ("file:x?keep=3", "without rotate"),
            ("file:x?name=", "is not a name"),
            ("stdout:?rotate=daily", "unknown option \"rotate\""),
        ] {
            let error = SinkSpec::parse(spec).unwrap_err().to_string();
            assert!(error.contains(says), "{spec}: {error}");
        }
    }

    #[test]
    fn a_kind_that_was_left_out_is_told_with_its_feature() {
        for LeftOut { word, feature } in LEFT_OUT {
            let error = SinkSpec::parse(&format!("{word}://me:sesame@host/x")).unwrap_err().to_string();
            assert!(error.contains(&format!("--features {feature}")), "{error}");
            assert!(error.contains("packages of bbq have every sink"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
            assert!(SINK_KINDS.iter().all(|kind| kind.word != *word), "{word} is in both lists");
        }
    }

    #[test]
    fn every_option_of_the_lists_is_taken() {
        for kind in SINK_KINDS {
            let argument = match kind.argument {
                "" => "",
                url if url.ends_with("/SUBJECT") || url.ends_with("/TOPIC") => "//host/name",
                url if url.starts_with("//") => "//host",
                _ => "x",
            };
            for option in kind.options {
                let value = match &option.values {
                    Values::Number(range) | Values::Size(range) => range.start().to_string(),
                    // Never in the text.
                    Values::Secret => continue,
                    // Files, which are read.
                    Values::Text { form: "PATH", .. } => continue,
                    // Their defaults are descriptions.
                    Values::Text { .. } if option.key == "endpoint" => "http://host".to_owned(),
                    Values::Text { .. } if ["stream", "region", "access_key_id"].contains(&option.key) => {
                        "S".to_owned()
                    }
                    Values::Text { .. } if option.key == "labels" => "severity".to_owned(),
                    _ => option.default.to_owned(),
                };
                let more = match option.key {
                    "keep" => "&rotate=daily",
                    "labels" => "&preset=loki",
                    "create" => "&stream=S",
                    "replicas" => "&stream=S&create=on",
                    "user" => "&password_env=PATH",
                    "sasl" => "&user=U&password_env=PATH",
                    "access_key_id" => "&secret_access_key_env=PATH",
                    _ => "",
                };
                let text = format!("{}:{argument}?{}={value}{more}", kind.word, option.key);
                SinkSpec::parse(&text).unwrap();
            }
        }
    }

    /// A kind with a secret.
    static CLOSED: Kind = Kind {
        word: "closed",
        argument: "",
        summary: "",
        options: &[SpecOption {
            key: "password",
            values: Values::Secret,
            default: "none",
            meaning: "opens it",
        }],
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
    fn a_secret_at_a_sink_that_has_none_is_not_shown() {
        for spec in [
            "https://user:sesame@host/",
            "nothing://sesame@host/?password=sesame",
            "http://user:sesame@host/",
            "http://host/a b?authorization=sesame",
            "http://user:sesame@host/?foo=bar",
            "http://user:sesame@host/?format=xml",
            "http://host/?authorisation=sesame",
            "http:host?Authorization=sesame",
            "stdout:?token=sesame",
            "null:x?token=sesame",
        ] {
            let error = SinkSpec::parse(spec).unwrap_err().to_string();
            assert!(!error.contains("sesame"), "{error}");
        }
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
