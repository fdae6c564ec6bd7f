//! Makes the name of each message, and bounds how many different names there are.
//!
//! Of each name of a day (UTC) a hash is kept: 8 bytes, however long names are. A day begins with the first message that was received here
//! on it; what was received earlier and comes later counts for the newer day. After a start nothing is known of earlier names.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use bbq_spool::{Entry, ParseFields, ParsedRecord};
use bbq_wire::SourceKind;
use bbq_wire::batch::Fields;
use tracing::warn;

use super::NameTemplate;
use super::template::Facts;
use crate::journal;
use crate::otlp::OtlpFields;
use crate::syslog::{self, SyslogFields};

const NANOS_PER_DAY: u64 = 86_400 * 1_000_000_000;

/// The names of the messages of a sink. Has the memory for one.
#[derive(Debug)]
pub struct Names {
    template: NameTemplate,
    /// For the log.
    sink: String,
    /// Senders do not know its key: they cannot choose names with the same hash.
    hasher: RandomState,
    /// Hashes of the names of `day`.
    known: HashSet<u64>,
    /// Days since 1970.
    day: u64,
    /// Messages of `day` beyond the bound.
    over: u64,
    /// Of the batch.
    batch: OfBatch,
    /// Of a message: what `parse` has found by the names in the template.
    parsed: Vec<String>,
    /// The same of the fields that its reader knows.
    of_reader: Vec<String>,
    name: String,
}

/// What the messages of a batch have in common.
#[derive(Debug)]
struct OfBatch {
    listener: String,
    stream: String,
    lane: String,
    received_ns: u64,
    source: SourceKind,
    /// The listener of this server.
    here: String,
    /// Finds what the template names in the messages.
    parser: Option<Arc<dyn ParseFields>>,
    /// The fields that all have in common, in the order of the template's names.
    of_reader: Vec<String>,
}

/// What a message has of its own.
#[derive(Default)]
struct OfMessage {
    host: Option<String>,
    app: Option<String>,
    facility: Option<&'static str>,
    severity: Option<String>,
    /// The same, of syslog.
    severity_word: Option<&'static str>,
}

impl Names {
    /// For the sink of this name, which is for the log.
    #[must_use]
    pub fn new(template: NameTemplate, sink: &str) -> Names {
        let batch = OfBatch {
            listener: String::new(),
            stream: String::new(),
            lane: String::new(),
            received_ns: 0,
            source: SourceKind::Lines,
            here: String::new(),
            parser: None,
            of_reader: vec![String::new(); template.named().of_reader.len()],
        };
        let parsed = vec![String::new(); template.named().parsed.len()];
        let of_reader = batch.of_reader.clone();
        let name = template.fallback().to_owned();
        let (hasher, known, sink) = (RandomState::new(), HashSet::new(), sink.to_owned());
        Names { template, sink, hasher, known, day: 0, over: 0, batch, parsed, of_reader, name }
    }

    /// The template.
    #[must_use]
    pub fn template(&self) -> &NameTemplate {
        &self.template
    }

    /// The messages that follow are those of this entry.
    pub fn begin(&mut self, entry: &Entry<'_>) {
        if !self.template.has_fields() {
            return;
        }
        let (origin, header) = (entry.origin(), &entry.batch.header);
        let OfBatch { listener, stream, lane, .. } = &mut self.batch;
        [&mut *listener, &mut *stream, &mut *lane].into_iter().for_each(String::clear);
        listener.push_str(origin.listener);
        // Writing to a String cannot fail.
        let _infallible = write!(stream, "{}", header.stream);
        let _infallible = write!(lane, "{}", entry.lane);
        (self.batch.received_ns, self.batch.source) = (origin.received_ns, header.source);
        if !self.parsed.is_empty() {
            self.batch.here.clear();
            self.batch.here.push_str(entry.source);
            self.batch.parser = entry.parser.cloned();
        }
        self.batch.of_reader.iter_mut().for_each(String::clear);
        put_fields(&self.template.named().of_reader, entry.batch.fields(), &mut self.batch.of_reader);
        self.begin_day(entry.envelope.received_ns / NANOS_PER_DAY);
        if !self.template.is_per_message() {
            self.make(&OfMessage::default(), u64::from(header.records));
        }
    }

    /// The name of a message of the entry, which may have fields of its own.
    pub fn name(&mut self, message: &[u8], own: Option<&Fields<'_>>) -> &str {
        if self.template.is_per_message() {
            let of_message = OfMessage::of(message, own, &self.template, &self.batch);
            self.find_parsed(message);
            self.find_of_reader(own);
            self.make(&of_message, 1);
        }
        &self.name
    }

    fn find_parsed(&mut self, message: &[u8]) {
        let Names { template, batch: OfBatch { here, source, parser, .. }, parsed, .. } = self;
        parsed.iter_mut().for_each(String::clear);
        if let Some(parser) = parser {
            let record = ParsedRecord { listener: here, source: *source, bytes: message };
            parser.put_texts(&record, &template.named().parsed, parsed);
        }
    }

    fn find_of_reader(&mut self, own: Option<&Fields<'_>>) {
        let Names { template, batch, of_reader, .. } = self;
        of_reader.clone_from(&batch.of_reader);
        if let Some(own) = own {
            put_fields(&template.named().of_reader, own.clone(), of_reader);
        }
    }

    fn begin_day(&mut self, day: u64) {
        // Lanes may be a day apart. One that is further behind is right: the clock was ahead.
        if day <= self.day && day + 1 >= self.day {
            return;
        }
        self.tell_of_others("with other names than the day allowed");
        (self.day, self.over) = (day, 0);
        self.known.clear();
    }

    /// Makes the name of so many messages.
    fn make(&mut self, of_message: &OfMessage, messages: u64) {
        let OfBatch { listener, stream, lane, received_ns, .. } = &self.batch;
        let facts = Facts {
            listener,
            stream,
            lane,
            received_ns: *received_ns,
            host: of_message.host.as_deref(),
            app: of_message.app.as_deref(),
            facility: of_message.facility,
            severity: of_message.severity.as_deref().or(of_message.severity_word),
            parsed: &self.parsed,
            of_reader: &self.of_reader,
        };
        self.name.clear();
        self.template.put(&facts, &mut self.name);
        let Some(names_max) = self.template.rules.names_max else { return };
        let hash = self.hasher.hash_one(&self.name);
        if self.known.contains(&hash) {
            return;
        }
        if self.known.len() < names_max {
            self.known.insert(hash);
            return;
        }
        self.over += messages;
        if self.over == messages {
            self.tell_of_others(
                "more different names than a day may have: further ones get the name of all others, until midnight (UTC)",
            );
        }
        self.name.clear();
        self.name.push_str(self.template.fallback());
    }

    fn tell_of_others(&self, text: &str) {
        if self.over > 0 {
            let NameTemplate { rules, .. } = &self.template;
            let (sink, template, name) = (&self.sink, self.template.as_str(), self.template.fallback());
            warn!(sink, template, name, names = rules.names_max, messages = self.over, "{text}");
        }
    }
}

/// Puts the values of fields with these names in the places of the names.
fn put_fields(names: &[String], fields: Fields<'_>, texts: &mut [String]) {
    if names.is_empty() {
        return;
    }
    for (name, value) in fields {
        let place = names.iter().position(|known| known == name);
        if let Some(text) = place.and_then(|place| texts.get_mut(place)) {
            value.clone_into(text);
        }
    }
}

impl OfMessage {
    fn of(message: &[u8], own: Option<&Fields<'_>>, template: &NameTemplate, batch: &OfBatch) -> OfMessage {
        if let Some(own) = own {
            return OfMessage::of_syslog(journal::fields(own.clone()));
        }
        if batch.source == SourceKind::Otlp {
            let Some(fields) = OtlpFields::of(message) else { return OfMessage::default() };
            let [host, app, severity] = ["hostname", "appname", "severity"].map(|name| fields.label(name));
            return OfMessage { host, app, severity, ..OfMessage::default() };
        }
        if !template.is_of_header() {
            let (facility, severity_word) = syslog::priority_words(message);
            return OfMessage { facility, severity_word, ..OfMessage::default() };
        }
        OfMessage::of_syslog(syslog::read(message, batch.received_ns))
    }

    fn of_syslog(fields: SyslogFields) -> OfMessage {
        OfMessage {
            host: fields.hostname,
            app: fields.appname,
            facility: fields.facility,
            severity: None,
            severity_word: fields.severity,
        }
    }
}

#[cfg(test)]
mod tests {
    use bbq_spool::{Envelope, NameMark};
    use bbq_wire::batch::BatchIdentity;
    use bbq_wire::{Batch, BatchBuilder, Compression, Peer, StreamId};

    use super::super::{Field, NameRules};
    use super::*;

    static RULES: NameRules = NameRules {
        what: "subject",
        fields: &Field::ALL,
        missing: "none",
        letter: |letter| if letter.is_ascii_alphanumeric() { letter } else { '-' },
        bytes_max: 1000,
        names_max: Some(2),
    };
    /// The fields of a message of its own, and what finds fields in it.
    type Beside<'a> = (&'a [(&'a str, &'a str)], Option<&'a Arc<dyn ParseFields>>);
    /// Where a message was received, and on which day.
    type Received = (SourceKind, u64);

    /// The names of messages of one batch.
    fn named(names: &mut Names, received: Received, messages: &[&str]) -> Vec<String> {
        named_with(names, received, messages, (&[], None))
    }

    /// The same with fields that each message has of its own, and with what finds fields in them.
    fn named_with(
        names: &mut Names,
        (source, day): Received,
        messages: &[&str],
        (own, parser): Beside<'_>,
    ) -> Vec<String> {
        let mut builder = BatchBuilder::new();
        builder.set_fields([("k8s.pod.name", "web-0")].into_iter());
        for message in messages {
            builder.push(message.as_bytes());
            if !own.is_empty() {
                builder.set_record_fields(own.iter().copied());
            }
        }
        let identity = BatchIdentity {
            stream: StreamId([1; 16]),
            first_sequence: 1,
            base_time_ns: 0,
            source,
            compression: Compression::None,
        };
        let bytes = builder.finish(&identity).unwrap();
        let mut scratch = Vec::new();
        let batch = Batch::verified_before(bytes, &mut scratch).unwrap();
        let received_ns = day * NANOS_PER_DAY + 1;
        let envelope = Envelope { source: 0, received_ns, peer: Peer::Unnamed, name_mark: NameMark::NOBODY };
        let entry = Entry { lane: 7, source: "in.1", envelope, batch, parser };
        names.begin(&entry);
        let mut own = entry.batch.record_fields();
        messages
            .iter()
            .map(|message| names.name(message.as_bytes(), own.next().as_ref()).to_owned())
            .collect()
    }

    /// Finds the words of a message by their places.
    #[derive(Debug)]
    struct Words;

    impl ParseFields for Words {
        fn reads_syslog(&self, _: &str) -> bool {
            false
        }

        fn put_json(&self, _: &ParsedRecord<'_>, _: &mut Vec<u8>) -> Option<u64> {
            None
        }

        fn put_texts(&self, record: &ParsedRecord<'_>, names: &[String], texts: &mut [String]) {
            assert_eq!((record.listener, record.source), ("in.1", SourceKind::Lines));
            let words = std::str::from_utf8(record.bytes).unwrap();
            for (name, text) in names.iter().zip(texts) {
                text.push_str(words.split(' ').nth(name.parse().unwrap()).unwrap_or_default());
            }
        }
    }

    fn names(text: &str) -> Names {
        Names::new(NameTemplate::parse(text, &RULES).unwrap(), "sink")
    }

    const SYSLOG: Received = (SourceKind::Syslog, 20_000);

    #[test]
    fn each_message_has_its_own_name() {
        let messages = ["<13>Oct 11 22:14:15 web.1 app[12]: text", "<165>1 - db x - - - text", "text"];
        for (text, expected) in [
            ("logs", ["logs", "logs", "logs"]),
            ("{listener}.{lane}.{date}", ["in-1.7.2024-10-04"; 3]),
            ("{facility}-{severity}", ["user-notice", "local4-notice", "other-other"]),
            ("l.{host}.{app}", ["l.web-1.app", "l.db.x", "l.other.other"]),
        ] {
            assert_eq!(named(&mut names(text), SYSLOG, &messages), expected);
        }
        let stream = named(&mut names("{stream}"), SYSLOG, &["x"]);
        assert_eq!(stream, [StreamId([1; 16]).to_string()]);
        assert_eq!(
            named(&mut names("l.{host}"), SYSLOG, &["text", "<165>1 - - x - - - text"]),
            ["l.none"; 2]
        );
    }

    #[test]
    fn a_name_has_what_is_found_in_its_message_and_nothing_of_another_one() {
        let lines = (SourceKind::Lines, 20_000);
        let parser: Arc<dyn ParseFields> = Arc::new(Words);
        let mut names = names("{parsed.1}-{parsed.0}-{parsed.1}");
        let found = named_with(&mut names, lines, &["a.b c", "d"], (&[], Some(&parser)));
        assert_eq!(found, ["c-a-b-c", "none-d-none"]);
        // A batch whose group has no rules.
        assert_eq!(named(&mut names, (SourceKind::Lines, 20_001), &["a b"]), ["none-none-none"]);
        let long = format!("a {}", "x".repeat(1000));
        let found = named_with(&mut names, (SourceKind::Lines, 20_002), &[&long], (&[], Some(&parser)));
        let cut = "x".repeat(128);
        assert_eq!(found, [format!("{cut}-a-{cut}")]);
    }

    #[test]
    fn an_entry_of_the_journal_has_the_names_of_syslog() {
        let own = [
            ("PRIORITY", "3"),
            ("SYSLOG_FACILITY", "10"),
            ("_HOSTNAME", "web"),
            ("SYSLOG_IDENTIFIER", "sshd"),
        ];
        let mut names = names("{host}.{app}.{facility}.{severity}");
        let lines = (SourceKind::Lines, 20_000);
        // The text of an entry is no header.
        let found = named_with(&mut names, lines, &["<13>1 - db other - - - text"], (&own, None));
        assert_eq!(found, ["web.sshd.authpriv.err"]);
        assert_eq!(named_with(&mut names, lines, &["text"], (&[("X", "1")], None)), ["none.none.none.none"]);
    }

    #[test]
    fn a_name_has_what_a_reader_knows_of_its_message() {
        let lines = (SourceKind::Lines, 20_000);
        let own = [("_SYSTEMD_UNIT", "a.service"), ("k8s.pod.name", "of its own")];
        let mut names = names("{fields._SYSTEMD_UNIT}-{fields.pod}-{fields.k8s.pod.name}-{fields.file}");
        let found = named_with(&mut names, lines, &["x"], (&own, None));
        assert_eq!(found, ["a-service-of-its-own-of-its-own-none"]);
        assert_eq!(named_with(&mut names, lines, &["x"], (&own[..1], None)), ["a-service-web-0-web-0-none"]);
        assert_eq!(named(&mut names, (SourceKind::Lines, 20_001), &["x"]), ["none-web-0-web-0-none"]);
    }

    #[test]
    fn a_day_has_no_more_names_than_are_allowed() {
        let mut names = names("{facility}");
        let messages = ["<0>a", "<8>b", "<16>c", "<0>d", "<24>e"];
        assert_eq!(named(&mut names, SYSLOG, &messages), ["kern", "user", "other", "kern", "other"]);
        assert_eq!(names.over, 2);
        // What is older does not begin a day.
        let (source, day) = SYSLOG;
        assert_eq!(named(&mut names, (source, day - 1), &["<16>c"]), ["other"]);
        assert_eq!(
            named(&mut names, (source, day + 1), &["<16>c", "<24>e", "<0>a"]),
            ["mail", "daemon", "other"]
        );
        assert_eq!(names.over, 1);
        // The clock was ahead.
        assert_eq!(named(&mut names, (source, day - 1), &["<16>c", "<0>a"]), ["mail", "kern"]);
    }
}
