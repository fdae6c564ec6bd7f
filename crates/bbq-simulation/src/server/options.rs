//! The options of a server and of its sinks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bbq_rules::Rules;
use bbq_sink_file::Rotation;

use crate::bug::Bug;
use crate::receiver::Receiver;
use crate::record::Record;
use crate::servers::Servers;

/// The configuration of a server; it may change from one start to the next.
#[derive(Clone, Debug)]
pub(crate) struct ServerOptions {
    pub(crate) lanes: u32,
    pub(crate) segment_bytes: u64,
    pub(crate) bytes_max: u64,
    pub(crate) flush_interval: Duration,
    pub(crate) hot_bytes_max: usize,
    pub(crate) drops_oldest: bool,
    pub(crate) sinks: Vec<SinkOptions>,
    /// Where the sinks that make requests deliver to, by sink.
    pub(crate) receivers: BTreeMap<usize, Arc<Receiver>>,
    /// For a crowd: the table has room for few streams, and senders show tokens.
    pub(crate) has_crowd: bool,
    pub(crate) bug: Option<Bug>,
    /// Different at each server of a run, so that no two draw the same numbers.
    pub(crate) salt: u64,
}

/// The configuration of a sink; it may change from one start to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinkOptions {
    pub(crate) destination: Destination,
    /// How much faster the sink's clock runs, because little time passes in a run.
    pub(crate) clock_rate: u32,
    pub(crate) limits: Limits,
    /// Which of its names is configured.
    pub(crate) name: usize,
    /// Which of the [`RULES`] it has.
    pub(crate) rules: usize,
}

/// Rules of sinks: which last digits of their numbers the records have that are left out.
pub(crate) const RULES: [&str; 4] = ["", "147", "248", "0123456789"];

/// Whether rules leave a record out.
pub(crate) fn leaves_out(rules: usize, record: &Record) -> bool {
    RULES[rules].contains(&(record.number % 10).to_string())
}

/// The same for a sink.
///
/// # Errors
/// They are no rules.
pub(super) fn rules_of(rules: usize) -> Result<Option<Rules>, String> {
    match RULES[rules] {
        "" => Ok(None),
        digits => {
            let text = format!("{{\"where\":\"!message.matches('^[0-9]+ [0-9]*[{digits}] ')\"}}");
            Rules::parse_text(&text).map(Some)
        }
    }
}

/// How the names end that an operator gives a sink.
pub(crate) const NAME_ENDS: [&str; 3] = ["", "-renamed", "-again"];

/// One of the names of a sink.
pub(crate) fn name_of(sink: usize, name: usize) -> String {
    format!("sink-{sink}{}", NAME_ENDS[name])
}

/// What may wait for a sink.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) bytes_max: Option<u64>,
    pub(crate) age_max: Option<Duration>,
    /// It drops its oldest before they fill the spool.
    pub(crate) drops_oldest: bool,
    /// What its dead letters may take, if that is so little that old ones are deleted.
    pub(crate) letters_bytes: Option<u64>,
}

/// Where a sink delivers to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    /// Files.
    File(Rotation),
    /// Other servers, of which one at a time gets the messages.
    Servers(Servers),
    /// A receiver of requests.
    Requests,
}
