//! The fields of messages that names are made from.

/// A field of a message in a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The name of the listener that received the message first.
    Listener,
    /// The host: HOSTNAME of syslog, or `host.name` of OpenTelemetry.
    Host,
    /// The program: APP-NAME of syslog, or `service.name` of OpenTelemetry.
    App,
    /// The word for the facility of syslog.
    Facility,
    /// The word for the severity of syslog, or the severity of OpenTelemetry.
    Severity,
    /// The id of the sender's stream, 32 hexadecimal digits.
    Stream,
    /// The number of the lane.
    Lane,
    /// The day of receipt in UTC, or another part of that time.
    Date,
    /// A field that `parse` has found, by its name.
    Parsed,
    /// A field that the reader of the message knows, by its name.
    OfReader,
}

impl Field {
    /// Every field.
    pub const ALL: [Field; 10] = [
        Field::Listener,
        Field::Host,
        Field::App,
        Field::Facility,
        Field::Severity,
        Field::Stream,
        Field::Lane,
        Field::Date,
        Field::Parsed,
        Field::OfReader,
    ];

    /// The word in the braces.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Field::Listener => "listener",
            Field::Host => "host",
            Field::App => "app",
            Field::Facility => "facility",
            Field::Severity => "severity",
            Field::Stream => "stream",
            Field::Lane => "lane",
            Field::Date => "date",
            Field::Parsed => "parsed.NAME",
            Field::OfReader => "fields.NAME",
        }
    }

    /// Whether messages of a batch may have different values of it.
    pub(super) fn is_per_message(self) -> bool {
        self.is_of_header()
            || matches!(self, Field::Facility | Field::Severity | Field::Parsed | Field::OfReader)
    }

    /// Whether the header of a message has to be read for it, and not its priority alone.
    pub(super) fn is_of_header(self) -> bool {
        matches!(self, Field::Host | Field::App)
    }

    /// Whether its name is written behind a word: `{parsed.NAME}`.
    pub(super) fn is_named(self) -> bool {
        matches!(self, Field::Parsed | Field::OfReader)
    }

    /// Whether a sender can choose any text for it. A client of bbq may say which listener was the first.
    pub(super) fn is_of_sender(self) -> bool {
        matches!(
            self,
            Field::Listener
                | Field::Host
                | Field::App
                | Field::Severity
                | Field::Stream
                | Field::Parsed
                | Field::OfReader
        )
    }
}
