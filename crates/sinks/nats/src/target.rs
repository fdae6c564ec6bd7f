//! The SPEC of a sink for NATS JetStream.

use std::sync::Arc;
use std::time::Duration;

use bbq_format::Format;
use bbq_sink::tls_options::{self, PATH};
use bbq_sink::{
    DEAD_LETTERS_OPTION, FORMAT_WORDS, Kind, LinkSink, Now, OpenError, Sink, Target, format_option,
    parse_servers,
};
use bbq_spec::{ConfigError, Query, SpecOption, Values, without_user};
use bbq_storage::Storage;

use super::credentials::Credentials;
use super::links::NatsLinks;
use super::message::Encoding;
use super::settings::NatsSettings;
use super::shared::Remembered;
use super::subject::{self, check_subject};

/// The port of a NATS server, unless it is configured.
const PORT_DEFAULT: u16 = 4222;
/// Copies of a stream: what nats-server allows.
const REPLICAS_MAX: u64 = 5;
/// Unless it is configured. A server syncs its disk every 2 minutes, unless it is configured.
const KEEP_DEFAULT: Duration = Duration::from_secs(150);
/// After a start as much is read again.
const KEEP_SECONDS_MAX: u64 = 24 * 3600;
/// What is in front of the id in the subject of the progress, unless it is configured.
const PROGRESS_DEFAULT: &str = "bbq.progress";

const ON_OFF: Values = Values::Words(&["off", "on"]);
const ON_OFF_WORDS: [(&str, bool); 2] = [("off", false), ("on", true)];

/// `nats://HOST:PORT/SUBJECT`
pub static NATS: Kind = Kind {
    word: "nats",
    argument: "//HOST[:PORT][,...]/SUBJECT",
    summary: "publishes to NATS JetStream, each message exactly once",
    options: &[&[
        SpecOption {
            key: "stream",
            values: Values::Text { form: "NAME", pattern: "" },
            default: "the one that has the subject",
            meaning: "the stream that the messages go to",
        },
        SpecOption {
            key: "create",
            values: ON_OFF,
            default: "off",
            meaning: "creates the stream named by `stream` if it is missing: in files, with the subjects of the messages and of the progress",
        },
        SpecOption {
            key: "replicas",
            values: Values::Number(1..=REPLICAS_MAX),
            default: "1",
            meaning: "on how many servers `create` stores a stream",
        },
        SpecOption {
            key: "progress",
            values: Values::Text { form: "SUBJECT", pattern: "" },
            default: PROGRESS_DEFAULT,
            meaning: "the stream must also have the subject SUBJECT.ID, where bbq keeps its position",
        },
        SpecOption {
            key: "keep_seconds",
            values: Values::NumberOrNever(1..=KEEP_SECONDS_MAX),
            default: "150",
            meaning: "how long messages stay in the spool (at most a quarter of it) after the server has acknowledged them, to be sent \
                      again if the server loses them. Set it longer than the server's `sync_interval`",
        },
        format_option("raw"),
        SpecOption {
            key: "headers",
            values: ON_OFF,
            default: "off",
            meaning: "adds `Bbq-Listener`, `Bbq-Peer`, `Bbq-Time`, `Bbq-Stream` and `Bbq-Sequence` to each message",
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
            key: "token",
            values: Values::Secret,
            default: "none",
            meaning: "the token that the server asks for",
        },
        SpecOption { key: "nkey", values: Values::Secret, default: "none", meaning: "the seed of an NKey" },
        SpecOption {
            key: "creds",
            values: PATH,
            default: "none",
            meaning: "a file with the JWT and the NKey of a user, as `nsc` and `nats auth` create it",
        },
        SpecOption {
            key: "tls",
            values: ON_OFF,
            default: "off",
            meaning: "TLS, even if the server does not ask for it; `tls_ca` and `tls_cert` also turn it on",
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
    let shown = without_user(&format!("nats:{argument}"));
    let wrong = |why: String| ConfigError::new(format!("{shown:?}: {why}; write nats://HOST:PORT/SUBJECT"));
    let rest = argument.strip_prefix("//").ok_or_else(|| wrong("it has no host".to_owned()))?;
    let (hosts, subjects) = rest.split_once('/').ok_or_else(|| wrong("it has no subject".to_owned()))?;
    if hosts.contains('@') {
        return Err(wrong(
            "it must not have a user and a password; use the options user and password_file".to_owned(),
        ));
    }
    let servers = parse_servers(hosts, PORT_DEFAULT).map_err(wrong)?;
    let template = subject::parse(subjects).map_err(wrong)?;
    let word = |query: &mut Query<'_>, key| {
        Ok::<_, ConfigError>(query.take_word(key, &ON_OFF_WORDS)?.unwrap_or_default())
    };
    let has_origin = word(query, "headers")?;
    let format = query.take_word("format", &FORMAT_WORDS)?.unwrap_or(Format::Raw);
    let stream = query.take("stream", |name| {
        match name.contains([' ', '.', '*', '>', '/', '\\', '\t']) || name.is_empty() {
            true => Err(format!("{name:?} is not the name of a stream")),
            false => Ok(name.to_owned()),
        }
    })?;
    let creates = word(query, "create")?;
    if creates && stream.is_none() {
        return Err(wrong("create=on needs the name of the stream; add stream=NAME".to_owned()));
    }
    let replicas = query.take_number("replicas")?;
    if replicas.is_some() && !creates {
        return Err(wrong("replicas has no effect without create=on".to_owned()));
    }
    let progress = query.take("progress", |subject| {
        check_subject(subject)?;
        match subject.contains(['*', '>']) {
            true => Err("a subject to send to has no * or >".to_owned()),
            false => Ok(subject.to_owned()),
        }
    })?;
    let progress = progress.unwrap_or_else(|| PROGRESS_DEFAULT.to_owned());
    if subject::covers(&subject::filter(&template), &format!("{progress}.*")) {
        return Err(wrong(format!(
            "the progress has a subject of the messages, {progress}.ID; set progress to another one"
        )));
    }
    let keep = query.take_number("keep_seconds")?.map_or(KEEP_DEFAULT, Duration::from_secs);
    let credentials = Credentials::take(query).map_err(|why| match why {
        super::credentials::Mistake::Config(error) => error,
        super::credentials::Mistake::Text(why) => wrong(why),
    })?;
    let wants_tls = word(query, "tls")?;
    let tls = tls_options::take_paths(&shown, query)?;
    let has_files = tls.ca.is_some() || tls.certificate.is_some();
    let tls = (wants_tls || has_files).then_some(tls);
    if let Some(tls) = &tls {
        // Mistakes are told at the start. The files are read again for each connection.
        tls.read().map_err(|error| ConfigError::new(format!("{shown:?}: {error}")))?;
    }
    Ok(Arc::new(OpenNats(Arc::new(NatsSettings {
        name: query.name().to_owned(),
        shown: shown.clone(),
        servers,
        encoding: Encoding { template, format, has_origin },
        stream,
        creates,
        replicas: replicas.unwrap_or(1),
        progress,
        keep,
        credentials,
        tls,
    }))))
}

#[derive(Debug)]
struct OpenNats(Arc<NatsSettings>);

impl Target for OpenNats {
    fn names_parsed(&self) -> bool {
        self.0.encoding.template.names_parsed()
    }

    fn holds_back(&self) -> bool {
        !self.0.keep.is_zero()
    }

    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        let remembered = match state.and_then(Remembered::parse) {
            Some(remembered) => remembered,
            None => Remembered::new().map_err(OpenError::NotYet)?,
        };
        let links = NatsLinks::new(Arc::clone(&self.0), remembered).map_err(OpenError::NotYet)?;
        let sink = LinkSink::new(links).map_err(OpenError::NotYet)?;
        Ok(Box::new(sink))
    }
}

#[cfg(test)]
mod tests {
    use bbq_sink::Kinds;

    use super::NATS;

    static KINDS: Kinds = Kinds { present: &[&NATS], left_out: &[] };

    #[test]
    fn mistakes_in_the_spec_are_named() {
        for (spec, words) in [
            ("nats:host/logs", "no host"),
            ("nats://host", "no subject"),
            ("nats://host/", "no subject"),
            ("nats:///logs", "no host"),
            ("nats://a,,b/logs", "no host"),
            ("nats://host:0/logs", "the port"),
            ("nats://host:x/logs", "the port"),
            ("nats://me:sesame@host/logs", "password_file"),
            ("nats://host/logs/x", "slash"),
            ("nats://host/logs.{hosts}", "{host}"),
            ("nats://host/logs?create=on", "stream=NAME"),
            ("nats://host/logs?replicas=3", "create=on"),
            ("nats://host/logs?user=me", "password_file"),
            ("nats://host/logs?password_env=PATH", "user=NAME"),
            ("nats://host/logs?token_env=PATH&nkey_env=PATH", "one way"),
            ("nats://host/logs.{host}?progress=logs", "the progress has a subject of the messages"),
            ("nats://host/logs?creds=/nowhere", "/nowhere"),
            ("nats://host/logs?tls_cert=/nowhere", "tls_key=PATH"),
            ("nats://host/logs?progress=a.>", "no * or >"),
            ("nats://host/logs?stream=a.b", "name of a stream"),
        ] {
            let error = KINDS.parse(spec).map(|spec| spec.text).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("sesame"), "{spec}: {error}");
        }
        for (spec, shown) in [
            ("nats://host/logs", r#"("host", 4222)"#),
            ("nats://a:1,[::1]:2,[::1]/logs.{host}", r#"[("a", 1), ("::1", 2), ("::1", 4222)]"#),
            ("nats://host/logs?stream=LOGS&create=on&replicas=3&headers=on", "replicas: 3"),
        ] {
            let spec = format!("{:?}", KINDS.parse(spec).unwrap());
            assert!(spec.contains(shown), "{spec}");
        }
    }
}
