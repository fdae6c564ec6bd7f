//! How far the topic is, as records of a second topic say.
//!
//! ```text
//! key: id of the sink      value: <writer>\n<positions>\n<refused messages>\n<times of receipt>\n<places>\n<places to copy>\n
//! ```
//!
//! Earlier releases wrote and read the first three or four lines. `places` are those of the messages of the transaction, of which some
//! may have to be copied: see [`super::left_open`].
//!
//! All records are in partition 0. The topic may belong to several servers: the last record with the own key counts.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use bbq_sink::{Positions, Refused};
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::{Offset, TopicPartitionList};

use super::client::{self, Isolation};
use super::cluster::{Cluster, RESPONSE_TIMEOUT};
use super::context::Context;
use super::link::Ended;
use super::places::Places;
use super::problem::{MAJORITY, described};
use super::settings::{KafkaSettings, PROGRESS_PARTITION};
use super::thread::Call;

/// Longer than a transaction of another server can stay open that began before, with the time that the coordinator takes to notice.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// Brokers that send nothing for so long, of what every reader may have, are away.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether another server's transaction is over, and whether the sink is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The own transactions have ended before anything is read. One that seems open for longer than this will not end by itself.
const OWN_PATIENCE: Duration = Duration::from_secs(1);
/// A consumer that reads one partition for no group has nothing to close at the brokers.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// How many records at the end are read first; eight times as many if the own one is not among them.
const FIRST_WINDOW: i64 = 1000;
const WINDOW_FACTOR: i64 = 8;

/// The last record of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Where it is in its topic.
    pub(super) offset: i64,
    /// Who wrote it; see [`super::shared::Shared`].
    pub(super) writer: String,
    pub(super) positions: Positions,
    pub(super) refused: Refused,
    /// Where the messages of the transaction are.
    pub(super) places: Places,
    /// Those of them that the brokers have aborted, although the transaction is committed.
    pub(super) to_copy: Places,
}

impl Progress {
    pub(super) fn value(&self) -> String {
        let Progress { writer, positions, refused, places, to_copy, .. } = self;
        format!("{writer}\n{positions}\n{refused}\n{}\n{places}\n{to_copy}\n", positions.times())
    }

    pub(super) fn parse(offset: i64, value: &str) -> Option<Progress> {
        let mut lines = value.lines();
        let writer = lines.next()?.to_owned();
        let positions = Positions::parse(lines.next()?)?;
        let refused = Refused::parse(lines.next()?)?;
        let positions = positions.with_times(lines.next().unwrap_or_default());
        let places = Places::parse(lines.next().unwrap_or_default())?;
        let to_copy = Places::parse(lines.next().unwrap_or_default())?;
        Some(Progress { offset, writer, positions, refused, places, to_copy })
    }
}

/// What the topic of the progress has of a sink.
pub(super) enum Found {
    /// The last record, and where the topic begins and ends.
    Last(Option<Progress>, Range<i64>),
    /// A transaction of the sink that is over for its coordinator has no mark in the topic: the value of its record.
    LeftOpen(Vec<u8>),
}

/// What became of the transactions before an offset.
enum Stable {
    /// All before this one are over.
    Until(i64),
    /// The first is of this sink, and stays open: the value of its record.
    LeftOpen(Vec<u8>),
}

/// Who reads.
pub(super) struct Reader<'a> {
    settings: &'a KafkaSettings,
    id: &'a str,
    call: &'a Call<'a>,
    consumer: Consuming,
    deadline: Instant,
    /// Whether a transaction of the sink that was left open is returned, instead of waited for.
    finds_left_open: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        settings: &'a KafkaSettings,
        id: &'a str,
        call: &'a Call<'a>,
        finds_left_open: bool,
    ) -> Result<Reader<'a>, Ended> {
        let consumer = Consuming::new(settings, id, Isolation::Committed)?;
        let patience = READ_PATIENCE.max(2 * settings.transaction_timeout);
        Ok(Reader { settings, id, call, consumer, deadline: Instant::now() + patience, finds_left_open })
    }

    /// Looks for the last record with the key of the sink, up to the end that the topic has now. The producer has ended what earlier ones
    /// began.
    pub(super) fn last(mut self, cluster: &Cluster<'_>) -> Result<Found, Ended> {
        let (low, end) = cluster.end_of_progress(RESPONSE_TIMEOUT)?;
        if low >= end {
            return Ok(Found::Last(None, low..end));
        }
        // Behind the mark of a transaction that was not over yet.
        let end = match self.wait_stable(end)? {
            Stable::Until(stable) => stable,
            Stable::LeftOpen(value) => return Ok(Found::LeftOpen(value)),
        };
        let mut window = FIRST_WINDOW;
        loop {
            let begin = end.saturating_sub(window).max(low);
            if let Some((offset, value)) = self.read(begin, end)? {
                let value = std::str::from_utf8(&value).ok();
                let progress = value.and_then(|value| Progress::parse(offset, value));
                return progress.map(|progress| Found::Last(Some(progress), low..end)).ok_or_else(|| {
                    Ended::Failed(io::Error::other(format!(
                        "the last record of {} with the key {} was not written by bbq; nobody else may write to this topic",
                        self.settings.progress, self.id
                    )))
                });
            }
            if begin == low {
                return Ok(Found::Last(None, low..end));
            }
            window = window.saturating_mul(WINDOW_FACTOR);
            // What the first one still has to tell of its window cannot be taken for the next one's.
            self.consumer = Consuming::new(self.settings, self.id, Isolation::Committed)?;
        }
    }

    /// Waits until all transactions before `end` are over: readers of committed records see no further than the first that is not.
    fn wait_stable(&self, end: i64) -> Result<Stable, Ended> {
        let consumer = self.consumer.get()?;
        let (mut is_told, mut first) = (false, None);
        let mut finds_left_open = self.finds_left_open;
        loop {
            let why = format!(
                "a transaction is open for longer than a transaction of this sink can be. Unless another server has a longer \
                 transaction_timeout_seconds, brokers that were killed left it behind, and it never ends: find it with \
                 `kafka-transactions.sh --bootstrap-server {} find-hanging --topic {} --partition 0`, and end it with its command abort; \
                 at most the messages of one transaction may then come twice",
                self.settings.servers, self.settings.progress
            );
            self.check(&why, self.deadline)?;
            let left = self.deadline.saturating_duration_since(Instant::now());
            let ends = consumer.client().fetch_watermarks(
                &self.settings.progress,
                PROGRESS_PARTITION,
                left.min(SILENCE_MAX),
            );
            let (_, stable) = ends.map_err(|error| Ended::Failed(described(self.settings, &error)))?;
            if stable >= end {
                return Ok(Stable::Until(stable));
            }
            let (offset, since) = *first.get_or_insert_with(|| (stable, Instant::now()));
            if offset != stable {
                (first, finds_left_open) = (None, self.finds_left_open);
            } else if finds_left_open && since.elapsed() >= OWN_PATIENCE {
                if let Some(value) = self.own_at(stable)? {
                    return Ok(Stable::LeftOpen(value));
                }
                // The first is of another server. What is behind it is looked at when that has ended.
                finds_left_open = false;
            }
            if !std::mem::replace(&mut is_told, true) {
                let (topic, seconds) = (&self.settings.progress, left.as_secs());
                tracing::warn!(
                    topic,
                    seconds,
                    "a transaction is open in the topic of the progress: nothing is written until the brokers end it, at the latest after the \
                     transaction_timeout_seconds of the server that began it"
                );
            }
            self.call.pause(LOOK_INTERVAL);
        }
    }

    /// The value of the record at this offset, committed or not, if it has the own key.
    fn own_at(&self, offset: i64) -> Result<Option<Vec<u8>>, Ended> {
        let consuming = Consuming::new(self.settings, self.id, Isolation::Uncommitted)?;
        let consumer = consuming.get()?;
        self.assign(consumer, offset)?;
        let silent_since = Instant::now();
        loop {
            self.check(&format!("the brokers do not respond{MAJORITY}"), silent_since + SILENCE_MAX)?;
            match consumer.poll(LOOK_INTERVAL) {
                Some(Ok(message)) => {
                    let is_own = message.offset() == offset && message.key() == Some(self.id.as_bytes());
                    return Ok(is_own.then(|| message.payload().unwrap_or_default().to_vec()));
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(None),
                None | Some(Err(_)) => {}
            }
        }
    }

    fn assign(&self, consumer: &BaseConsumer<Context>, begin: i64) -> Result<(), Ended> {
        let mut assignment = TopicPartitionList::new();
        let added = assignment.add_partition_offset(
            &self.settings.progress,
            PROGRESS_PARTITION,
            Offset::Offset(begin),
        );
        let assigned = added.and_then(|()| consumer.assign(&assignment));
        assigned.map_err(|error| Ended::Failed(described(self.settings, &error)))
    }

    fn check(&self, why: &str, until: Instant) -> Result<(), Ended> {
        if self.call.is_stopped() {
            return Err(Ended::Stopped);
        }
        if Instant::now() < until.min(self.deadline) {
            return Ok(());
        }
        let topic = &self.settings.progress;
        Err(Ended::Failed(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("cannot read {topic} to its end: {why}"),
        )))
    }

    /// Offset and value of the last own record from `begin` on.
    ///
    /// The record before `end` may be one that ends a transaction, which librdkafka does not show; then it says that the partition
    /// ends. It does not say so while others go on writing; then a record behind `end` comes.
    fn read(&self, begin: i64, end: i64) -> Result<Option<(i64, Vec<u8>)>, Ended> {
        let failed = |error: &KafkaError| Ended::Failed(described(self.settings, error));
        let consumer = self.consumer.get()?;
        self.assign(consumer, begin)?;
        let mut last = None;
        let mut why = format!("the brokers do not respond{MAJORITY}");
        let mut silent_since = Instant::now();
        loop {
            self.check(&why, silent_since + SILENCE_MAX)?;
            match consumer.poll(LOOK_INTERVAL) {
                None => {
                    if let Some((_, told)) = consumer.context().last_error() {
                        why = format!("{told}{MAJORITY}");
                    }
                }
                Some(Ok(message)) => {
                    silent_since = Instant::now();
                    if message.offset() < end && message.key() == Some(self.id.as_bytes()) {
                        last = message.payload().map(|value| (message.offset(), value.to_vec()));
                    }
                    if message.offset() >= end - 1 {
                        break;
                    }
                }
                // Everything before `end` was stable.
                Some(Err(KafkaError::PartitionEOF(_))) => break,
                // The consumer is in no group; it only has the name of one.
                Some(Err(error)) if error.rdkafka_error_code() == Some(Code::GroupAuthorizationFailed) => {}
                Some(Err(error)) => match error.rdkafka_error_code() {
                    Some(
                        Code::TopicAuthorizationFailed | Code::UnknownTopicOrPartition | Code::UnknownTopic,
                    ) => {
                        return Err(failed(&error));
                    }
                    _ => why = error.to_string(),
                },
            }
        }
        Ok(last)
    }
}

/// A consumer that is closed within a bounded time.
pub(super) struct Consuming(Option<BaseConsumer<Context>>);

impl Consuming {
    pub(super) fn new(settings: &KafkaSettings, id: &str, isolation: Isolation) -> Result<Consuming, Ended> {
        let consumer = client::reader(settings, id, isolation).create_with_context(Context::new());
        consumer
            .map(|consumer| Consuming(Some(consumer)))
            .map_err(|error| Ended::Failed(described(settings, &error)))
    }

    pub(super) fn get(&self) -> Result<&BaseConsumer<Context>, Ended> {
        self.0.as_ref().ok_or(Ended::Stopped)
    }
}

impl Drop for Consuming {
    /// rdkafka would wait without end for a consumer that does not say that it is closed.
    fn drop(&mut self) {
        let Some(consumer) = self.0.take() else { return };
        let deadline = Instant::now() + CLOSE_PATIENCE;
        let mut is_closing = consumer.close_queue().is_ok();
        while is_closing && !consumer.closed() {
            let _no_message = consumer.poll(LOOK_INTERVAL);
            is_closing = Instant::now() < deadline;
        }
        if !consumer.closed() {
            tracing::warn!("a consumer of librdkafka does not close; it is left open");
            std::mem::forget(consumer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_written() {
        for (positions, refused, places, to_copy) in [
            ("0:8192:70:3", "0:65+2", "logs:0:7+3,12+1 logs:1:9+1", "logs:1:9+1"),
            ("0:8192:70:3", "", "logs:0:7+3", ""),
            ("", "", "", ""),
        ] {
            let progress = Progress {
                offset: 7,
                writer: "w1".to_owned(),
                positions: Positions::parse(positions).unwrap(),
                refused: Refused::parse(refused).unwrap(),
                places: Places::parse(places).unwrap(),
                to_copy: Places::parse(to_copy).unwrap(),
            };
            assert_eq!(Progress::parse(7, &progress.value()), Some(progress));
        }
        let older = Progress::parse(7, "w1\n0:8192:70\n\n").unwrap();
        let positions = older.positions.clone().with_times("0:9");
        let newer = Progress { positions, ..older };
        assert_eq!(Progress::parse(7, "w1\n0:8192:70\n\n0:9\n"), Some(newer));
        assert_eq!(Progress::parse(7, "hello"), None);
    }
}
