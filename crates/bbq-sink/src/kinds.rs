//! The kinds of sinks that a program has, and how a SPEC finds its own.

use bbq_spec::{ConfigError, SpecText, nearest};

use super::kind::Kind;
use super::spec::SinkSpec;

/// A kind of sink that a program could have and does not.
#[derive(Clone, Copy, Debug)]
pub struct LeftOut {
    /// What precedes the colon of a SPEC.
    pub word: &'static str,
    /// The cargo feature that has the kind.
    pub feature: &'static str,
}

/// The kinds of a program.
#[derive(Clone, Copy, Debug)]
pub struct Kinds {
    /// Those that it has, in the order in which help shows them.
    pub present: &'static [&'static Kind],
    /// Those that it was built without.
    pub left_out: &'static [LeftOut],
}

/// Words of destinations that have another form here.
const OTHER_WORDS: [(&str, &str); 18] = [
    ("elastic", "http://HOST:9200/INDEX/_bulk?preset=elasticsearch"),
    ("elasticsearch", "http://HOST:9200/INDEX/_bulk?preset=elasticsearch"),
    ("opensearch", "http://HOST:9200/INDEX/_bulk?preset=elasticsearch"),
    ("clickhouse", "http://HOST:8123/?preset=clickhouse"),
    ("loki", "http://HOST:3100/loki/api/v1/push?preset=loki"),
    ("splunk", "https://HOST:8088/services/collector/event?preset=splunk&authorization_file=PATH"),
    ("otlp", "otlp+http://HOST:4318 or otlp+grpc://HOST:4317"),
    ("grpc", "otlp+grpc://HOST:4317"),
    ("tcp", "bbq://HOST:7700, for another bbq"),
    ("udp", "bbq://HOST:7700, for another bbq"),
    ("tls", "bbq+tls://HOST:7701, for another bbq"),
    ("syslog", "bbq://HOST:7700, for another bbq; bbq sends no syslog"),
    ("gcs", "gs://BUCKET/PREFIX"),
    ("google", "gs://BUCKET/PREFIX"),
    ("stderr", "file:/dev/stderr"),
    ("console", "stdout:"),
    ("-", "stdout:"),
    ("jetstream", "nats://HOST:4222/SUBJECT?stream=NAME"),
];

impl Kinds {
    /// Reads a SPEC.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn parse(&self, text: &str) -> Result<SinkSpec, ConfigError> {
        self.read(&SpecText::of_text(text)?)
    }

    /// Reads a SPEC that is in parts already.
    ///
    /// # Errors
    /// Says which part is wrong and what is allowed.
    pub fn read(&self, spec: &SpecText) -> Result<SinkSpec, ConfigError> {
        let head = &spec.head;
        let (word, _) = head.split_once(':').unwrap_or((head, ""));
        let Some(kind) = self.present.iter().find(|kind| kind.word == word && head.contains(':')) else {
            let left_out = self.left_out.iter().find(|kind| kind.word == word);
            let shown = spec.shown_head();
            return Err(ConfigError::new(match left_out {
                Some(kind) => not_in_this_build(&shown, kind),
                None => self.unknown(&shown, word),
            }));
        };
        SinkSpec::of_kind(kind, spec)
    }

    /// Why this build does not have a kind of sink, if it could.
    #[must_use]
    pub fn why_left_out(&self, word: &str) -> Option<String> {
        let left_out = self.left_out.iter().find(|left_out| left_out.word == word)?;
        Some(not_in_this_build(word, left_out))
    }

    fn unknown(&self, text: &str, word: &str) -> String {
        if text.starts_with(['/', '.', '~']) {
            return format!("{text:?} is not a sink; to write to this file, write file:{text}");
        }
        if let Some((_, form)) = OTHER_WORDS.iter().find(|(other, _)| word.eq_ignore_ascii_case(other)) {
            return format!("{text:?} is not a sink; write {form}");
        }
        let words =
            self.present.iter().map(|kind| kind.word).chain(self.left_out.iter().map(|kind| kind.word));
        let words: Vec<&str> = words.collect();
        if let Some(near) = nearest(word, &words) {
            let argument =
                self.present.iter().find(|kind| kind.word == near).map_or("", |kind| kind.argument);
            return format!("{text:?} is not a sink; did you mean \"{near}:{argument}\"?");
        }
        if !text.contains(':') {
            return format!("{text:?} is not a sink; to write to a file of this name, write file:{text}");
        }
        format!(
            "{text:?} is not a sink; write KIND:DESTINATION, such as file:PATH or bbq://HOST:7700; kinds: {}; \
             `bbq config explain sink.KIND` explains each",
            words.join(", ")
        )
    }
}

fn not_in_this_build(text: &str, LeftOut { word, feature }: &LeftOut) -> String {
    format!(
        "{text:?}: this bbq was built without the sink {word}:; packages of bbq have every sink; otherwise build it from a \
         clone: cargo install --locked --path crates/bbq --features {feature} (or full, for every sink)"
    )
}
