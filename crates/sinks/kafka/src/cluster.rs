//! Asks the brokers about topics, and makes the topic of the progress.

use std::io;
use std::time::{Duration, Instant};

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode as Code;

use super::client::{self, Isolation};
use super::context::Context;
use super::copies::Copies;
use super::link::Ended;
use super::places::Place;
use super::problem::{described, described_code, needs_operator, remedy};
use super::settings::{KafkaSettings, PROGRESS_PARTITION};
use super::thread::Call;

/// Brokers that do not respond to a question within this time are away.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first wait for a response. Between two, the errors of the client are looked at.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Errors of the client are read for so long after the last, and so many of them.
const SERVE_FOR: Duration = Duration::from_millis(10);
const EVENTS_MAX: usize = 100;
/// A transaction of another producer that stays open for longer, and than two of this sink may be, is not waited for.
const OTHERS_PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked whether it is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// If the brokers do not tell what the topic takes: more than any message of bbq has, so that they judge.
const MESSAGE_BYTES_UNKNOWN: usize = 128 * 1024 * 1024;
/// What the topic of the progress is made with. Old records are deleted soon, so that it stays short: a start reads it.
const PROGRESS_CONFIG: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "16777216"), ("min.cleanable.dirty.ratio", "0.1")];
/// As many copies as the brokers are configured for; if they are to make the topic of the messages as well.
pub(super) const DEFAULT_REPLICATION: i32 = -1;
const MIN_IN_SYNC: &str = "min.insync.replicas";

/// Who asks.
pub(super) struct Cluster<'a> {
    pub(super) settings: &'a KafkaSettings,
    pub(super) call: &'a Call<'a>,
    pub(super) inquirer: BaseConsumer<Context>,
}

/// What is known of the topics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topics {
    /// Of the topic, if it is there, and of that of the progress.
    pub(super) copies: [Option<Copies>; 2],
    /// Bytes of the largest batch that the topic takes.
    pub(super) message_bytes_max: usize,
    /// Whether the topic of the progress keeps the last record of each key; `None` if the brokers do not tell.
    pub(super) is_compacted: Option<bool>,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(settings: &'a KafkaSettings, call: &'a Call<'a>) -> Result<Cluster<'a>, Ended> {
        // It sees ends behind transactions that are not committed.
        let inquirer = inquirer(settings, Isolation::Uncommitted)?;
        Ok(Cluster { settings, call, inquirer })
    }

    fn check(&self) -> Result<(), Ended> {
        if self.call.is_stopped() { Err(Ended::Stopped) } else { Ok(()) }
    }

    /// Has the context hear what the client tells.
    fn serve(&self) {
        for _ in 0..EVENTS_MAX {
            if self.inquirer.poll(SERVE_FOR).is_none() {
                return;
            }
        }
    }

    /// Waits until the brokers respond. Returns what they tell of the topic, if they have it.
    pub(super) fn find(&self, topic: &str) -> Result<Option<Copies>, Ended> {
        self.ask(topic)?.map_err(|code| Ended::Failed(described_code(self.settings, code)))
    }

    /// The same; or why they tell nothing of it.
    pub(super) fn ask(&self, topic: &str) -> Result<Result<Option<Copies>, Code>, Ended> {
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        let mut wait = FIRST_WAIT;
        loop {
            self.check()?;
            let found = self.inquirer.client().fetch_metadata(Some(topic), wait);
            self.serve();
            match found {
                Ok(found) => {
                    let topic = found.topics().first();
                    let code = topic.and_then(|topic| topic.error()).map(Code::from);
                    let partitions = topic.into_iter().flat_map(|topic| topic.partitions());
                    let replicas = partitions.map(|partition| partition.replicas().len()).min();
                    return match code {
                        None => Ok(Ok(replicas.map(|replicas| Copies {
                            replicas,
                            min_in_sync: None,
                            brokers: found.brokers().len(),
                        }))),
                        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => Ok(Ok(None)),
                        // It is being made, or its leader changes.
                        Some(Code::LeaderNotAvailable) => Ok(Ok(None)),
                        Some(code) => Ok(Err(code)),
                    };
                }
                Err(error) => {
                    let told = self.inquirer.context().last_error();
                    let is_hopeless = told.as_ref().is_some_and(|(code, _)| needs_operator(*code));
                    if is_hopeless || Instant::now() >= deadline {
                        return Err(Ended::Failed(match told {
                            Some((code, why)) => {
                                io::Error::other(format!("{why}{}", remedy(self.settings, code)))
                            }
                            None => described(self.settings, &error),
                        }));
                    }
                    wait *= 2;
                }
            }
        }
    }

    /// The end of the topic of the progress, behind transactions that are not committed.
    pub(super) fn end_of_progress(&self, patience: Duration) -> Result<(i64, i64), Ended> {
        let ends =
            self.inquirer.client().fetch_watermarks(&self.settings.progress, PROGRESS_PARTITION, patience);
        ends.map_err(|error| Ended::Failed(described(self.settings, &error)))
    }

    /// The topics of the messages and their partitions in which transactions are open.
    pub(super) fn open_partitions(&self) -> Result<Vec<(String, i32)>, Ended> {
        let committed = inquirer(self.settings, Isolation::Committed)?;
        let mut open = Vec::new();
        for (topic, partitions) in self.topics()? {
            for partition in partitions {
                self.check()?;
                let end = |consumer: &BaseConsumer<Context>| {
                    let ends = consumer.client().fetch_watermarks(&topic, partition, RESPONSE_TIMEOUT);
                    ends.map(|(_, end)| end).map_err(|error| Ended::Failed(described(self.settings, &error)))
                };
                // Asked first: what others write meanwhile does not count.
                let end_of_all = end(&self.inquirer)?;
                if end(&committed)? < end_of_all {
                    open.push((topic.clone(), partition));
                }
            }
        }
        Ok(open)
    }

    /// Waits until every transaction is over that began before the ends of these places.
    pub(super) fn wait_ended(&self, places: &[Place]) -> Result<(), Ended> {
        let committed = inquirer(self.settings, Isolation::Committed)?;
        let deadline = Instant::now() + OTHERS_PATIENCE.max(2 * self.settings.transaction_timeout);
        for place in places {
            let Place { topic, partition, .. } = place;
            loop {
                self.check()?;
                let ends = committed.client().fetch_watermarks(topic, *partition, RESPONSE_TIMEOUT);
                let (_, stable) = ends.map_err(|error| Ended::Failed(described(self.settings, &error)))?;
                if stable > place.last() {
                    break;
                }
                if Instant::now() >= deadline {
                    return Err(Ended::Failed(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!(
                            "a transaction of another producer stays open in partition {partition} of {topic}"
                        ),
                    )));
                }
                self.call.pause(LOOK_INTERVAL);
            }
        }
        Ok(())
    }

    /// Makes the topic of the progress if it is not there, and returns what is known of both topics.
    pub(super) fn prepare(&self) -> Result<Topics, Ended> {
        let KafkaSettings { topic, progress, is_exactly_once, .. } = self.settings;
        let mut copies = [self.find(topic)?, None];
        let config = client::administrator(self.settings);
        let administrator: AdminClient<DefaultClientContext> =
            config.create().map_err(|error| Ended::Failed(described(self.settings, &error)))?;
        let of_topic = self.configuration(&administrator, topic)?;
        let mut of_progress = None;
        if *is_exactly_once {
            copies[1] = self.find(progress)?;
            if copies[1].is_none() {
                self.make_progress(&administrator, copies[0], of_topic.as_ref())?;
                copies[1] = self.wait(progress)?;
            }
            of_progress = self.configuration(&administrator, progress)?;
        }
        for (copies, of) in copies.iter_mut().zip([&of_topic, &of_progress]) {
            if let Some(copies) = copies {
                copies.min_in_sync = value(MIN_IN_SYNC, of.as_ref()).and_then(|count| count.parse().ok());
            }
        }
        let largest = value("max.message.bytes", of_topic.as_ref()).and_then(|bytes| bytes.parse().ok());
        let is_compacted =
            value("cleanup.policy", of_progress.as_ref()).map(|policy| policy.contains("compact"));
        let message_bytes_max = largest.unwrap_or(MESSAGE_BYTES_UNKNOWN).min(MESSAGE_BYTES_UNKNOWN);
        Ok(Topics { copies, message_bytes_max, is_compacted })
    }

    /// The topic of the progress is as safe as that of the messages.
    fn make_progress(
        &self,
        administrator: &AdminClient<DefaultClientContext>,
        topic: Option<Copies>,
        of_topic: Option<&ConfigResource>,
    ) -> Result<(), Ended> {
        let replicas = topic.and_then(|topic| i32::try_from(topic.replicas).ok());
        let min_in_sync = value(MIN_IN_SYNC, of_topic).filter(|_| replicas.is_some());
        let mut config = PROGRESS_CONFIG.to_vec();
        config.extend(min_in_sync.map(|count| (MIN_IN_SYNC, count)));
        let topic = NewTopic {
            name: &self.settings.progress,
            num_partitions: 1,
            replication: TopicReplication::Fixed(replicas.unwrap_or(DEFAULT_REPLICATION)),
            config,
        };
        let options = AdminOptions::new()
            .operation_timeout(Some(RESPONSE_TIMEOUT))
            .request_timeout(Some(RESPONSE_TIMEOUT));
        let made = self.call.runtime.block_on(administrator.create_topics([&topic], &options));
        let why = match made.map(|topics| topics.into_iter().next()) {
            Ok(Some(Ok(_)) | None) => return Ok(()),
            Ok(Some(Err((_, Code::TopicAlreadyExists)))) => return Ok(()),
            Ok(Some(Err((_, code)))) => code.to_string(),
            Err(error) => error.to_string(),
        };
        let name = topic.name;
        Err(Ended::Failed(io::Error::other(format!(
            "there is no topic {name}, where bbq keeps its position, and bbq cannot create it: {why}; create it: kafka-topics --create \
             --topic {name} --partitions 1 --config cleanup.policy=compact"
        ))))
    }

    /// Waits until a topic that was made is there: one broker may know it before another.
    pub(super) fn wait(&self, topic: &str) -> Result<Option<Copies>, Ended> {
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        loop {
            let found = self.find(topic)?;
            if found.is_some() {
                return Ok(found);
            }
            if Instant::now() >= deadline {
                return Err(Ended::Failed(described_code(self.settings, Code::LeaderNotAvailable)));
            }
            self.call.pause(FIRST_WAIT);
        }
    }

    /// The settings of a topic. `None` if there is none, or if the user may not ask: then the brokers judge what is too large.
    fn configuration(
        &self,
        administrator: &AdminClient<DefaultClientContext>,
        topic: &str,
    ) -> Result<Option<ConfigResource>, Ended> {
        let options = AdminOptions::new().request_timeout(Some(RESPONSE_TIMEOUT));
        let wanted = [ResourceSpecifier::Topic(topic)];
        let found = self.call.runtime.block_on(administrator.describe_configs(&wanted, &options));
        let found = found.map_err(|error| Ended::Failed(described(self.settings, &error)))?;
        Ok(found.into_iter().next().and_then(Result::ok))
    }
}

fn inquirer(settings: &KafkaSettings, isolation: Isolation) -> Result<BaseConsumer<Context>, Ended> {
    let inquirer = client::inquirer(settings, isolation).create_with_context(Context::new());
    inquirer.map_err(|error| Ended::Failed(described(settings, &error)))
}

fn value<'a>(key: &str, of: Option<&'a ConfigResource>) -> Option<&'a str> {
    of?.get(key)?.value.as_deref()
}
