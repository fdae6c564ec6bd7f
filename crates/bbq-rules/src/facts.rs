//! What an expression can ask of a message. Each part is read when it is first asked for.
//!
//! Invariant: memory for the fields of one message has a bound, whatever the message is.

use std::cell::OnceCell;

use bbq_format::otlp::{OtlpFields, put_body, syslog_severity};
use bbq_format::syslog::{self, SyslogFields};
use bbq_spec::hint;
use bbq_wire::SourceKind;
use bbq_wire::batch::Output;
use bbq_wire::otlp::{LogBody, body};
use serde_json::{Map, Value as Json};

use crate::message::Message;
use crate::options::Place;
use crate::parse::{DECODED_BYTES_MAX, Parse, Parsed};
use crate::sample::Fraction;
use crate::value::{Table, Value};

/// RFC 5424, section 6.2.1.
const SEVERITY_MAX: u8 = 7;
const FACILITY_MAX: u8 = 23;

macro_rules! names {
    ($($name:ident $word:literal)*) => {
        /// What an expression can name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Name {
            $($name),*
        }

        impl Name {
            /// Every name.
            pub(crate) const ALL: &[Name] = &[$(Name::$name),*];

            /// As it is written.
            pub(crate) fn word(self) -> &'static str {
                match self {
                    $(Name::$name => $word),*
                }
            }
        }
    };
}

names! {
    Message "message"
    Bytes "bytes"
    Listener "listener"
    Peer "peer"
    Severity "severity"
    SeverityWord "severity_name"
    Facility "facility"
    FacilityWord "facility_name"
    Host "host"
    App "app"
    Procid "procid"
    Msgid "msgid"
    Msg "msg"
    Data "structured_data"
    Fields "fields"
    Output "output"
    SeverityNumber "severity_number"
    Body "body"
    AttributesOf "attributes"
    Resource "resource"
    Event "event_name"
    Parsed "parsed"
}

impl Name {
    pub(crate) fn is_int(self) -> bool {
        matches!(self, Name::Bytes | Name::Severity | Name::Facility | Name::SeverityNumber)
    }

    pub(crate) fn is_table(self) -> bool {
        matches!(self, Name::Data | Name::Fields | Name::AttributesOf | Name::Resource | Name::Parsed)
    }
}

/// Which names an expression can use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    pub(crate) place: Option<Place>,
    /// Whether `parse` gives names to what it finds.
    pub(crate) has_parsed: bool,
}

impl Scope {
    /// The name that a word is.
    ///
    /// # Errors
    /// There is none, or no message here has it.
    pub(crate) fn name(&self, word: &str) -> Result<Name, String> {
        let Some(name) = Name::ALL.iter().copied().find(|name| name.word() == word) else {
            let known: Vec<&str> = Name::ALL.iter().map(|name| name.word()).collect();
            return Err(format!("{word:?} is not a name{}; names: {}", hint(word, &known), known.join(", ")));
        };
        if name == Name::Parsed && !self.has_parsed {
            return Err(
                "nothing is parsed; write parse = \"json\", \"logfmt\" or \"/PATTERN/\" beside it".to_owned()
            );
        }
        match (self.place, name) {
            (Some(Place::Listener), Name::Fields) => {
                Err("only messages of readers have fields, those of fluent and gelf, and some of http; use it at one of these, or at a sink".to_owned())
            }
            (Some(Place::Listener | Place::ListenerOfRequests), Name::Output) => {
                Err(format!("only messages of readers have {word}; use it at a reader or a sink"))
            }
            _ => Ok(name),
        }
    }
}

/// A message, and what was read of it.
pub(crate) struct Facts<'m> {
    message: &'m Message<'m>,
    /// The address of its peer; empty if there is none.
    peer: &'m str,
    parse: Option<&'m Parse>,
    /// Facility and severity.
    priority: OnceCell<Option<(u8, u8)>>,
    syslog: OnceCell<Box<SyslogFields>>,
    otlp: OnceCell<Option<Box<OtlpFields>>>,
    /// The body of a record of OpenTelemetry as text.
    body: OnceCell<Vec<u8>>,
    parsed: OnceCell<Parsed<'m>>,
}

impl<'m> Facts<'m> {
    #[inline]
    pub(crate) fn new(message: &'m Message<'m>, peer: &'m str, parse: Option<&'m Parse>) -> Facts<'m> {
        Facts {
            message,
            peer,
            parse,
            priority: OnceCell::new(),
            syslog: OnceCell::new(),
            otlp: OnceCell::new(),
            body: OnceCell::new(),
            parsed: OnceCell::new(),
        }
    }

    pub(crate) fn is_sampled(&self, fraction: Fraction) -> bool {
        fraction.chooses(self.message.stream, self.message.sequence)
    }

    /// An integer of the message.
    #[inline]
    pub(crate) fn int(&self, name: Name) -> Option<i64> {
        match name {
            Name::Severity => match self.message.source {
                SourceKind::Otlp => syslog_severity(self.otlp()?.severity_number()).map(i64::from),
                _ if self.is_of_journal() => self.of_journal("PRIORITY", SEVERITY_MAX),
                _ => self.priority().map(|(_, severity)| severity.into()),
            },
            Name::Facility if self.is_of_journal() => self.of_journal("SYSLOG_FACILITY", FACILITY_MAX),
            Name::Facility => self.priority().map(|(facility, _)| facility.into()),
            Name::Bytes => i64::try_from(self.message.record.len()).ok(),
            Name::SeverityNumber => Some(self.otlp()?.severity_number().into()),
            _ => None,
        }
    }

    /// What the message has by a name.
    pub(crate) fn value(&'m self, name: Name) -> Option<Value<'m>> {
        let text = |text: Option<&'m str>| text.map(Value::text);
        match name {
            Name::Listener => Some(Value::text(self.message.listener)),
            Name::Message => Some(Value::text(self.text())),
            Name::Bytes | Name::Severity | Name::Facility | Name::SeverityNumber => {
                self.int(name).map(Value::Int)
            }
            Name::Peer => text(Some(self.peer).filter(|peer| !peer.is_empty())),
            Name::SeverityWord => match self.message.source {
                SourceKind::Otlp => text(self.otlp()?.severity()),
                _ if self.is_of_journal() => text(self.syslog()?.severity),
                _ => text(self.priority().and_then(|priority| syslog::words_of(priority).1)),
            },
            Name::FacilityWord if self.is_of_journal() => text(self.syslog()?.facility),
            Name::FacilityWord => text(self.priority().and_then(|priority| syslog::words_of(priority).0)),
            Name::Host => match self.message.source {
                SourceKind::Otlp => self.of_resource("host.name"),
                _ => text(self.syslog()?.hostname.as_deref()),
            },
            Name::App => match self.message.source {
                SourceKind::Otlp => self.of_resource("service.name"),
                _ => text(self.syslog()?.appname.as_deref()),
            },
            Name::Procid => text(self.syslog()?.procid.as_deref()),
            Name::Msgid => text(self.syslog()?.msgid.as_deref()),
            Name::Msg if self.is_of_journal() => Some(Value::text(self.text())),
            Name::Msg => text(self.syslog()?.msg.as_deref()),
            Name::Event => text(self.otlp()?.event_name()),
            Name::Output => match self.message.attributes.output {
                Output::Unknown => None,
                Output::Stdout => text(Some("stdout")),
                Output::Stderr => text(Some("stderr")),
            },
            Name::Body => self.otlp()?.body().map(Value::json),
            Name::Data => Some(self.table(self.syslog().map(|fields| &fields.structured_data))),
            Name::AttributesOf => Some(self.table(self.otlp().map(OtlpFields::attributes))),
            Name::Resource => Some(self.table(self.otlp().map(OtlpFields::resource))),
            Name::Fields => Some(Value::Table(Table::Fields(self.message.attributes.fields.clone()))),
            Name::Parsed => Some(Value::Table(self.parsed())),
        }
    }

    fn table(&self, map: Option<&'m Map<String, Json>>) -> Value<'m> {
        Value::Table(map.map_or(Table::Empty, Table::Json))
    }

    fn of_resource(&'m self, key: &str) -> Option<Value<'m>> {
        self.otlp()?.resource().get(key).map(Value::json)
    }

    /// The text of the message: its body if it is a record of OpenTelemetry.
    fn text(&'m self) -> &'m [u8] {
        if self.message.source != SourceKind::Otlp {
            return self.message.record;
        }
        let record = self.message.record;
        match body(record) {
            Ok(LogBody::Text(text)) => text,
            Ok(LogBody::Other) if record.len() <= DECODED_BYTES_MAX => self.body.get_or_init(|| {
                let mut body = Vec::new();
                put_body(record, &mut body);
                body
            }),
            Ok(LogBody::Absent) => &[],
            Ok(LogBody::Other) | Err(_) => record,
        }
    }

    /// Whether its header is one of syslog.
    fn is_syslog(&self) -> bool {
        self.message.source == SourceKind::Syslog
            || (self.message.source != SourceKind::Otlp && matches!(self.parse, Some(Parse::Syslog)))
    }

    #[inline]
    fn priority(&self) -> Option<(u8, u8)> {
        *self
            .priority
            .get_or_init(|| self.is_syslog().then(|| syslog::priority_of(self.message.record)).flatten())
    }

    fn syslog(&self) -> Option<&SyslogFields> {
        let fields = &self.message.attributes.fields;
        if !self.is_syslog() && !fields.is_of_journal() {
            return None;
        }
        let read = || syslog::read(self.message.record, self.message.received_ns);
        Some(self.syslog.get_or_init(|| Box::new(fields.of_syslog().unwrap_or_else(read))))
    }

    fn is_of_journal(&self) -> bool {
        self.message.attributes.fields.is_of_journal()
    }

    /// A number in a field of the journal.
    fn of_journal(&self, name: &str, most: u8) -> Option<i64> {
        let number: u8 = self.message.attributes.fields.of_journal(name)?.parse().ok()?;
        (number <= most).then_some(number.into())
    }

    fn otlp(&self) -> Option<&OtlpFields> {
        let record = self.message.record;
        let is_decoded = self.message.source == SourceKind::Otlp && record.len() <= DECODED_BYTES_MAX;
        let fields =
            self.otlp.get_or_init(|| is_decoded.then(|| OtlpFields::of(record)).flatten().map(Box::new));
        fields.as_deref()
    }

    fn parsed(&'m self) -> Table<'m> {
        self.found().map_or(Table::Empty, Table::Parsed)
    }

    /// What is found in the text; `None` if nothing is looked for.
    pub(crate) fn found(&'m self) -> Option<&'m Parsed<'m>> {
        let parse = self.parse?;
        Some(self.parsed.get_or_init(|| Parsed::of(parse, self.to_parse())))
    }

    /// The text of the message, without the header of syslog.
    fn to_parse(&'m self) -> &'m [u8] {
        self.syslog().and_then(|fields| fields.msg.as_deref()).map_or_else(|| self.text(), str::as_bytes)
    }
}
