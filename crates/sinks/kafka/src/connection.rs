//! A producer that is ready: earlier producers are fenced off, and it is known how far the topic is.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bbq_sink::{Positions, Refused, TAKEN_OVER};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, Producer as _};
use tracing::warn;

use super::client;
use super::cluster::{Cluster, Topics};
use super::context::{Context, Failure};
use super::copies::Copies;
use super::known_end::KnownEnd;
use super::link::{Ended, KafkaLink};
use super::places::{Place, Places};
use super::problem::{MAJORITY, described, described_code, is_fenced, needs_operator, remedy};
use super::progress::Progress;
use super::sent::{PROGRESS, Sent};
use super::settings::{KafkaSettings, PROGRESS_PARTITION};
use super::thread::Call;
use super::topics::KnownTopics;

/// Brokers that do not go on with what they were given within this time are away.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The same if librdkafka has told of an error meanwhile, such as a connection that ended.
const ERROR_PATIENCE: Duration = Duration::from_secs(10);
/// A call of librdkafka waits no longer. Then it is looked whether the sink is to stop, and the call is made again.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_millis(100);
/// A topic that the brokers make on request is there within this time.
const TOPIC_PATIENCE: Duration = Duration::from_secs(10);
/// Between two calls that return at once.
const PAUSE: Duration = Duration::from_millis(10);

/// See the module.
pub(super) struct Connection {
    pub(super) producer: BaseProducer<Context>,
    pub(super) settings: Arc<KafkaSettings>,
    /// How far the topic is; nothing unless it is known exactly.
    pub(super) committed: Positions,
    /// How far the topic is with everything that is taken.
    pub(super) positions: Positions,
    /// The largest message.
    pub(super) message_bytes_max: usize,
    /// The largest batch of several messages.
    pub(super) batch_bytes: usize,
    /// When the transaction was begun.
    pub(super) begun_at: Instant,
    /// When the last transaction was committed.
    pub(super) committed_at: Instant,
    /// The messages of the transaction.
    pub(super) sent: Sent,
    /// Where the last transaction that was committed is, with its progress; nothing if it is not known.
    pub(super) last: Vec<Place>,
    pub(super) known_end: KnownEnd,
    pub(super) topics: KnownTopics,
}

/// How long something may take.
pub(super) struct Patience {
    begin: Instant,
}

impl Patience {
    pub(super) fn new() -> Patience {
        Patience { begin: Instant::now() }
    }

    /// Why there is none left, if so.
    pub(super) fn end(&self, settings: &KafkaSettings, context: &Context) -> Option<io::Error> {
        let elapsed = self.begin.elapsed();
        let told = context.last_error();
        match told {
            Some((code, why)) if elapsed >= ERROR_PATIENCE || needs_operator(code) => {
                Some(io::Error::other(format!("{why}{}", remedy(settings, code))))
            }
            _ if elapsed >= RESPONSE_TIMEOUT => {
                let text =
                    format!("the brokers did not respond within {} s{MAJORITY}", RESPONSE_TIMEOUT.as_secs());
                Some(io::Error::new(io::ErrorKind::TimedOut, text))
            }
            _ => None,
        }
    }
}

impl Connection {
    /// Returns when messages can be sent.
    pub(super) fn open(link: &mut KafkaLink, call: &Call<'_>) -> Result<Connection, Ended> {
        let settings = Arc::clone(&link.settings);
        if link.shared.is_taken_over() {
            return Err(taken_over(&settings));
        }
        let cluster = Cluster::new(&settings, call)?;
        let Topics { mut copies, message_bytes_max, is_compacted } = cluster.prepare()?;
        if is_compacted == Some(false) {
            warn!(
                sink = settings.name,
                topic = settings.progress,
                "the topic of the progress deletes old records, and with them the position of a quiet sink; set its cleanup.policy to \
                 compact"
            );
        }
        let batch_bytes = client::batch_bytes(message_bytes_max, link.shared.batch_bytes_max());
        let config = client::producer(&settings, &link.shared.id, batch_bytes, message_bytes_max);
        let producer: KafkaResult<BaseProducer<Context>> = config.create_with_context(Context::new());
        let producer = producer.map_err(|error| Ended::Failed(described(&settings, &error)))?;
        if copies[0].is_none() {
            let refused = if settings.creates { cluster.make(&settings.topic)? } else { None };
            if let Some(why) = refused {
                let topic = &settings.topic;
                let text = format!(
                    "there is no topic {topic}, for messages that have no topic of their own, and bbq cannot create it: {why}; create it: \
                     kafka-topics --create --topic {topic}"
                );
                return Err(Ended::Failed(io::Error::other(text)));
            }
            wait_topic(&producer, &settings, call)?;
            copies[0] = cluster.wait(&settings.topic)?;
        }
        warn_of_weakness(link, copies);
        let mut connection = Connection {
            producer,
            settings: Arc::clone(&settings),
            committed: Positions::default(),
            positions: Positions::default(),
            message_bytes_max,
            batch_bytes,
            begun_at: Instant::now(),
            committed_at: Instant::now(),
            sent: Sent::default(),
            last: Vec::new(),
            known_end: KnownEnd::new(0),
            topics: KnownTopics::find(&settings, &cluster)?,
        };
        if settings.is_exactly_once {
            connection.call(call, |producer| producer.init_transactions(CALL_TIMEOUT))?;
            connection.find_progress(link, call, &cluster)?;
        } else {
            // What it took in transactions, before it was configured to do without.
            connection.committed = link.shared.seen_and_kept();
        }
        link.outgoing.rewind(&connection.committed);
        connection.positions = connection.committed.clone();
        if settings.is_exactly_once && !link.shared.is_writer() {
            // Whoever wrote before sees from now on that it must not come back.
            let end = connection.known_end.end();
            link.shared.begin_writing();
            connection.producer.context().forget_delivered();
            connection.begin()?;
            connection.send_progress(link)?;
            connection.wait_delivered(link, call)?;
            connection.check_delivered()?;
            connection.commit(link, call)?;
            link.shared.has_written(end);
        }
        Ok(connection)
    }

    /// Reads how far the topic is.
    fn find_progress(
        &mut self,
        link: &mut KafkaLink,
        call: &Call<'_>,
        cluster: &Cluster<'_>,
    ) -> Result<(), Ended> {
        let (found, Range { start, end }) = self.last_progress(link, call, cluster)?;
        let settings = &self.settings;
        self.known_end = KnownEnd::new(end);
        let (has_found, has_written) = (found.is_some(), link.shared.is_writer());
        let is_own = found.as_ref().is_some_and(|found| found.writer == link.shared.writer);
        let (positions, refused) = match found {
            Some(Progress { offset, .. }) if !is_own && link.shared.is_after_own(offset) => {
                link.shared.take_over();
                return Err(taken_over(settings));
            }
            Some(Progress { offset, positions, refused, places, .. }) => {
                if is_own {
                    link.shared.has_written(offset);
                }
                self.last = places.0;
                self.last.push(Place::at(&settings.progress, PROGRESS_PARTITION, offset));
                (positions, refused)
            }
            // It was deleted because it was old.
            None if start > 0 => (link.shared.seen(), Refused::default()),
            None => (Positions::default(), Refused::default()),
        };
        if !is_own {
            link.shared.forget_writing();
        }
        let lost = link.shared.see(&positions);
        if lost > 0 {
            let text = match has_found {
                true => {
                    "the brokers lost progress that they had acknowledged, and its messages; sending again the messages that are still in \
                     the spool"
                }
                false => {
                    "the topic of the progress lacks records that bbq wrote; sending again the messages that are still in the spool"
                }
            };
            warn!(sink = settings.name, topic = settings.progress, messages = lost, "{text}");
            if has_written {
                return Err(Ended::Lost(io::Error::other(text)));
            }
        }
        self.committed = positions;
        link.refused.merge(refused);
        link.shared.note_refused(&mut link.refused);
        Ok(())
    }

    /// Whether the brokers have taken everything that was sent.
    pub(super) fn check_delivered(&self) -> Result<(), Ended> {
        let failure = self.producer.context().take_failures().first().copied();
        self.check_fatal()?;
        match failure {
            Some(failure) => Err(Ended::Failed(described_code(&self.settings, failure.code))),
            None => Ok(()),
        }
    }

    /// Whether the producer is of no use any more.
    pub(super) fn check_fatal(&self) -> Result<(), Ended> {
        let Some((code, why)) = self.producer.client().fatal_error() else { return Ok(()) };
        // The coordinator may have ended a transaction that took too long. Whether somebody else writes, the progress says.
        let text = match is_fenced(code) {
            true => "the brokers take nothing more from this producer",
            false => "the producer failed",
        };
        Err(Ended::InDoubt(io::Error::other(format!("{text}: {why}"))))
    }

    /// Makes a call that waits until it succeeds, or until nothing is to be hoped for.
    pub(super) fn call(
        &self,
        call: &Call<'_>,
        mut make: impl FnMut(&BaseProducer<Context>) -> KafkaResult<()>,
    ) -> Result<(), Ended> {
        let patience = Patience::new();
        loop {
            if call.is_stopped() {
                return Err(Ended::Stopped);
            }
            let error = match make(&self.producer) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            self.producer.poll(PAUSE);
            let may_succeed = match &error {
                KafkaError::Transaction(error) => error.is_retriable(),
                KafkaError::Flush(code) => *code == Code::OperationTimedOut,
                _ => false,
            };
            if !may_succeed {
                return Err(Ended::InDoubt(described(&self.settings, &error)));
            }
            if let Some(why) = patience.end(&self.settings, self.producer.context()) {
                return Err(Ended::InDoubt(why));
            }
        }
    }

    /// Has librdkafka end the transaction: the topic has all of it from now on.
    pub(super) fn commit(&mut self, link: &mut KafkaLink, call: &Call<'_>) -> Result<(), Ended> {
        self.call(call, |producer| producer.commit_transaction(CALL_TIMEOUT))?;
        let topic_of = |number| match number {
            PROGRESS => Some(self.settings.progress.as_str()),
            number => self.sent.topic_of_number(number),
        };
        self.last = self.producer.context().with_delivered(|delivered| Places::of(delivered, topic_of)).0;
        link.shared.wrote_progress(&self.positions);
        self.known_end.committed();
        self.committed.clone_from(&self.positions);
        Ok(())
    }

    /// Returns the failures that came meanwhile, and one for each message that was taken back.
    pub(super) fn abort(&self, call: &Call<'_>) -> Result<Vec<Failure>, Ended> {
        self.call(call, |producer| producer.abort_transaction(CALL_TIMEOUT))?;
        Ok(self.producer.context().take_failures())
    }
}

/// Tells once what is weak.
fn warn_of_weakness(link: &mut KafkaLink, [topic, progress]: [Option<Copies>; 2]) {
    if link.has_warned {
        return;
    }
    let settings = Arc::clone(&link.settings);
    for (copies, topic) in [(topic, &settings.topic), (progress, &settings.progress)] {
        if let Some(weakness) = copies.and_then(|copies| copies.weakness(topic)) {
            warn!(sink = settings.name, "{weakness}");
            link.has_warned = true;
        }
    }
}

fn taken_over(settings: &KafkaSettings) -> Ended {
    Ended::Failed(io::Error::other(format!(
        "another bbq server has taken over {}; {TAKEN_OVER}",
        settings.topic
    )))
}

/// Waits until the topic is there: the brokers may be configured to make one that a producer asks for.
fn wait_topic(
    producer: &BaseProducer<Context>,
    settings: &KafkaSettings,
    call: &Call<'_>,
) -> Result<(), Ended> {
    let deadline = Instant::now() + TOPIC_PATIENCE;
    loop {
        if call.is_stopped() {
            return Err(Ended::Stopped);
        }
        let found = producer.client().fetch_metadata(Some(&settings.topic), TOPIC_PATIENCE);
        let found = found.map_err(|error| Ended::Failed(described(settings, &error)))?;
        let topic = found.topics().first();
        let code = topic.and_then(|topic| topic.error()).map(Code::from);
        match code {
            None if topic.is_some_and(|topic| !topic.partitions().is_empty()) => return Ok(()),
            Some(Code::LeaderNotAvailable | Code::UnknownTopicOrPartition) | None
                if Instant::now() < deadline =>
            {
                // It is asked for again while the brokers make it.
                call.pause(CALL_TIMEOUT);
            }
            code => {
                let code = code.unwrap_or(Code::UnknownTopicOrPartition);
                return Err(Ended::Failed(described_code(settings, code)));
            }
        }
    }
}
