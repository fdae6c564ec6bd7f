//! The SPEC of a sink for Apache Kafka.

use std::sync::Arc;
use std::time::Duration;

use bbq_format::Format;
use bbq_sink::{
    DEAD_LETTERS_OPTION, FORMAT_WORDS, Kind, LinkSink, Now, OpenError, Sink, Target, format_option,
    parse_servers, tls_options, with_port,
};
use bbq_spec::{ConfigError, Query, SpecOption, Values, without_user};
use bbq_storage::Storage;

use super::links::KafkaLinks;
use super::security::{MECHANISM_WORDS, Security};
use super::settings::{KafkaSettings, Key};
use super::shared::Remembered;
use super::size::TRANSACTION_BYTES_MAX;
use super::topic::{self, check_topic};

/// The port of a broker, unless it is configured.
const PORT_DEFAULT: u16 = 9092;
/// What is behind the name of the topic in that of the topic of the progress, unless it is configured.
const PROGRESS_SUFFIX: &str = "-bbq-progress";
/// Unless it is configured, as in other clients.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);
/// What brokers allow, unless they are configured.
const TRANSACTION_SECONDS_MAX: u64 = 900;

/// Unless it is configured: several times as long as a system holds back what is written to its disk.
const KEEP_DEFAULT: Duration = Duration::from_secs(150);
/// After a start as much is read again.
const KEEP_SECONDS_MAX: u64 = 24 * 3600;

const ON_OFF: Values = Values::Words(&["off", "on"]);
const ON_OFF_WORDS: [(&str, bool); 2] = [("off", false), ("on", true)];
const COMPRESSION_WORDS: [(&str, &str); 5] =
    [("none", "none"), ("gzip", "gzip"), ("snappy", "snappy"), ("lz4", "lz4"), ("zstd", "zstd")];

/// `kafka://HOST:PORT/TOPIC`
pub static KAFKA: Kind = Kind {
    word: "kafka",
    argument: "//HOST[:PORT][,...]/TOPIC",
    summary: "writes to a topic of Apache Kafka, each message exactly once",
    options: &[&[
        SpecOption {
            key: "exactly_once",
            values: ON_OFF,
            default: "on",
            meaning: "`on` writes in transactions; with `off` a message may come twice after a failure, and only the topic is needed",
        },
        SpecOption {
            key: "create",
            values: ON_OFF,
            default: "on",
            meaning: "if TOPIC has fields: `on` creates missing topics, as the brokers are configured; with `off` their messages go to \
                      the topic with `other` in place of each field",
        },
        SpecOption {
            key: "progress_topic",
            values: Values::Text { form: "TOPIC", pattern: "" },
            default: "TOPIC-bbq-progress",
            meaning: "the topic where bbq keeps its position; created if missing; required if TOPIC has fields",
        },
        SpecOption {
            key: "transaction_timeout_seconds",
            values: Values::Number(1..=TRANSACTION_SECONDS_MAX),
            default: "60",
            meaning: "how long the brokers wait for bbq before they end a transaction; readers wait for an open transaction",
        },
        SpecOption {
            key: "keep_seconds",
            values: Values::NumberOrNever(1..=KEEP_SECONDS_MAX),
            default: "150",
            meaning: "how long messages stay in the spool (at most a quarter of it) after the brokers have acknowledged them, to be sent \
                      again if the brokers lose them. Set it longer than the brokers' systems hold back writes (Linux: 30 s)",
        },
        SpecOption {
            key: "key",
            values: Values::Text {
                form: "stream, listener, peer, none, or fields such as {host}",
                pattern: "",
            },
            default: "stream",
            meaning: "the key of a message; messages with the same key are in one partition, in order",
        },
        format_option("raw"),
        SpecOption {
            key: "headers",
            values: ON_OFF,
            default: "off",
            meaning: "adds `Bbq-Listener`, `Bbq-Peer`, `Bbq-Time`, `Bbq-Stream` and `Bbq-Sequence` to each message",
        },
        SpecOption {
            key: "compression",
            values: Values::Words(&["none", "gzip", "snappy", "lz4", "zstd"]),
            default: "none",
            meaning: "how batches are compressed",
        },
        SpecOption {
            key: "sasl",
            values: Values::Words(MECHANISM_WORDS),
            default: "scram-sha-512",
            meaning: "how the brokers check `user` and `password_file`",
        },
        SpecOption {
            key: "user",
            values: Values::Text { form: "NAME", pattern: "" },
            default: "none",
            meaning: "the user; needs `password_file` or `password_env`",
        },
        SpecOption {
            key: "password",
            values: Values::Secret,
            default: "none",
            meaning: "the password of `user`",
        },
        SpecOption {
            key: "tls",
            values: ON_OFF,
            default: "off",
            meaning: "TLS; `tls_ca` and `tls_cert` also turn it on",
        },
        tls_options::CA,
        tls_options::CERTIFICATE,
        tls_options::KEY,
        DEAD_LETTERS_OPTION,
    ]],
    is_exclusive: false,
    parse,
};

fn parse(argument: &str, query: &mut Query<'_>) -> Result<Arc<dyn Target>, ConfigError> {
    let shown = without_user(&format!("kafka:{argument}"));
    let wrong = |why: String| ConfigError::new(format!("{shown:?}: {why}; write kafka://HOST:PORT/TOPIC"));
    let rest = argument.strip_prefix("//").ok_or_else(|| wrong("it has no host".to_owned()))?;
    let (hosts, topic) = rest.split_once('/').ok_or_else(|| wrong("it has no topic".to_owned()))?;
    if hosts.contains('@') {
        return Err(wrong(
            "it must not have a user and a password; use the options user and password_file".to_owned(),
        ));
    }
    let servers = parse_servers(hosts, PORT_DEFAULT).map_err(wrong)?;
    let servers = servers.iter().map(|(host, port)| with_port(host, *port)).collect::<Vec<_>>().join(",");
    let template = topic::parse(topic).map_err(wrong)?;
    let word = |query: &mut Query<'_>, key, default| {
        Ok::<_, ConfigError>(query.take_word(key, &ON_OFF_WORDS)?.unwrap_or(default))
    };
    let is_exactly_once = word(query, "exactly_once", true)?;
    let creates = query.take_word("create", &ON_OFF_WORDS)?;
    if creates.is_some() && !template.has_fields() {
        return Err(wrong("create is for a TOPIC with fields, such as logs-{host}".to_owned()));
    }
    let progress = query.take("progress_topic", |topic| check_topic(topic).map(|()| topic.to_owned()))?;
    let timeout = query.take_number("transaction_timeout_seconds")?.map(Duration::from_secs);
    let keep = query.take_number("keep_seconds")?.map(Duration::from_secs);
    for (key, is_given) in [
        ("progress_topic", progress.is_some()),
        ("transaction_timeout_seconds", timeout.is_some()),
        ("keep_seconds", keep.is_some()),
    ] {
        if is_given && !is_exactly_once {
            return Err(wrong(format!("{key} has no effect with exactly_once=off")));
        }
    }
    if progress.is_none() && is_exactly_once && template.has_fields() {
        return Err(wrong(
            "the topic has fields, so bbq needs a name for the topic where it keeps its position; add progress_topic=NAME".to_owned(),
        ));
    }
    let progress = progress.unwrap_or_else(|| format!("{topic}{PROGRESS_SUFFIX}"));
    if is_exactly_once && template.may_be(&progress) {
        return Err(wrong(format!(
            "the progress needs a topic of its own, and {progress} may be one of the messages; set progress_topic to another one"
        )));
    }
    if is_exactly_once {
        check_topic(&progress).map_err(|why| wrong(format!("progress_topic: {why}")))?;
    }
    let settings = KafkaSettings {
        name: query.name().to_owned(),
        servers,
        topic: template.fallback().to_owned(),
        creates: template.has_fields() && creates.unwrap_or(true),
        template,
        progress,
        is_exactly_once,
        transaction_timeout: timeout.unwrap_or(TRANSACTION_TIMEOUT),
        keep: keep.unwrap_or(KEEP_DEFAULT),
        key: query.take("key", parse_key)?.unwrap_or(Key::Stream),
        format: query.take_word("format", &FORMAT_WORDS)?.unwrap_or(Format::Raw),
        has_origin: word(query, "headers", false)?,
        compression: query.take_word("compression", &COMPRESSION_WORDS)?.unwrap_or("none"),
        security: Security::take(&shown, query)?,
        shown,
    };
    Ok(Arc::new(OpenKafka(Arc::new(settings))))
}

fn parse_key(text: &str) -> Result<Key, String> {
    Ok(match text {
        "stream" => Key::Stream,
        "listener" => Key::Listener,
        "peer" => Key::Peer,
        "none" => Key::None,
        text if !text.contains(['{', '}']) => {
            return Err(format!(
                "{text:?} is not one of stream, listener, peer, none, and has no field such as {{host}}"
            ));
        }
        text => Key::Template(topic::parse_key(text)?),
    })
}

#[derive(Debug)]
struct OpenKafka(Arc<KafkaSettings>);

impl Target for OpenKafka {
    fn names_parsed(&self) -> bool {
        self.0.template.names_parsed() || matches!(&self.0.key, Key::Template(key) if key.names_parsed())
    }

    fn holds_back(&self) -> bool {
        self.0.is_exactly_once && !self.0.keep.is_zero()
    }

    /// A transaction that is sent, and one that collects.
    fn memory_bytes_min(&self) -> u64 {
        2 * TRANSACTION_BYTES_MAX as u64
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let remembered = match state.and_then(Remembered::parse) {
            Some(remembered) => remembered,
            None => Remembered::new().map_err(OpenError::NotYet)?,
        };
        let links = KafkaLinks::start(Arc::clone(&self.0), remembered).map_err(OpenError::NotYet)?;
        let sink = LinkSink::new(links).map_err(OpenError::NotYet)?;
        Ok(Box::new(sink))
    }
}

#[cfg(test)]
mod tests {
    use bbq_sink::Kinds;

    use super::KAFKA;

    static KINDS: Kinds = Kinds { present: &[&KAFKA], left_out: &[] };

    #[test]
    fn mistakes_in_the_spec_are_named() {
        let long = format!("kafka://host/{}", "x".repeat(240));
        for (spec, words) in [
            ("kafka:host/logs", "no host"),
            ("kafka://host", "no topic"),
            ("kafka://host/", "no topic"),
            ("kafka:///logs", "no host"),
            ("kafka://a,,b/logs", "no host"),
            ("kafka://host:0/logs", "the port"),
            ("kafka://host:x/logs", "the port"),
            ("kafka://me:sesame@host/logs", "password_file"),
            ("kafka://host/logs/x", "name of a topic"),
            ("kafka://host/..", "name of a topic"),
            (&long, "progress_topic"),
            ("kafka://host/logs?exactly_once=off&progress_topic=x", "no effect"),
            ("kafka://host/logs?exactly_once=off&transaction_timeout_seconds=9", "no effect"),
            ("kafka://host/logs?exactly_once=off&keep_seconds=9", "no effect"),
            ("kafka://host/logs?keep_seconds=86401", "1 to 86400"),
            ("kafka://host/logs?progress_topic=logs", "topic of its own"),
            ("kafka://host/logs?progress_topic=a/b", "name of a topic"),
            ("kafka://host/logs?transaction_timeout_seconds=0", "1 to 900"),
            ("kafka://host/logs?key=host", "stream, listener, peer, none"),
            ("kafka://host/logs?key={hosts}", "{hosts} is not a field for a key"),
            ("kafka://host/logs-{host}", "add progress_topic=NAME"),
            ("kafka://host/logs-{host}?progress_topic=logs-bbq", "may be one of the messages"),
            ("kafka://host/{host}?progress_topic=p", "senders could choose any topic"),
            ("kafka://host/logs-{hosts}?progress_topic=p", "character 6"),
            ("kafka://host/logs?create=off", "create is for a TOPIC with fields"),
            ("kafka://host/logs?compression=lzma", "none, gzip, snappy, lz4, zstd"),
            ("kafka://host/logs?user=me", "password_file"),
            ("kafka://host/logs?sasl=plain", "user=NAME"),
            ("kafka://host/logs?sasl=gssapi", "plain, scram-sha-256, scram-sha-512"),
            ("kafka://host/logs?password_env=PATH", "user=NAME"),
            ("kafka://host/logs?tls_ca=/nowhere", "/nowhere"),
            ("kafka://host/logs?tls_cert=/nowhere", "tls_key=PATH"),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("sesame"), "{spec}: {error}");
        }
        for (spec, shown) in [
            ("kafka://host/logs", r#"topic: "logs", creates: false, progress: "logs-bbq-progress""#),
            ("kafka://host/logs-{host}?progress_topic=bbq", r#"topic: "logs-other", creates: true"#),
            ("kafka://host/logs-{host}?exactly_once=off&create=off&key={host}.{app}", "creates: false"),
            ("kafka://a:1,[::1]:2,[::1]/logs", r#"servers: "a:1,[::1]:2,[::1]:9092""#),
            ("kafka://host/logs?user=me&password_env=PATH&sasl=plain", r#"mechanism: "PLAIN""#),
            ("kafka://host/logs?exactly_once=off&key=peer&compression=lz4", r#"key: Peer"#),
        ] {
            let spec = format!("{:?}", KINDS.parse(spec).unwrap());
            assert!(spec.contains(shown), "{spec}");
            assert!(!spec.contains(&std::env::var("PATH").unwrap()), "{spec}");
        }
    }
}
