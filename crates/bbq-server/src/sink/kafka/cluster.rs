//! Asks the brokers about topics, and makes the topic of the progress.

use std::io;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode as Code;

use super::client;
use super::context::Context;
use super::link::Ended;
use super::problem::{described, described_code, needs_operator, remedy};
use super::settings::KafkaSettings;
use super::thread::Call;

/// Brokers that do not respond to a question within this time are away.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first wait for a response. Between two, the errors of the client are looked at.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Errors of the client are read for so long after the last, and so many of them.
const SERVE_FOR: Duration = Duration::from_millis(10);
const EVENTS_MAX: usize = 100;
/// If the brokers do not tell what the topic takes: more than any message of bbq has, so that they judge.
const MESSAGE_BYTES_UNKNOWN: usize = 128 * 1024 * 1024;
/// What the topic of the progress is made with. Old records are deleted soon, so that it stays short: a start reads it.
const PROGRESS_CONFIG: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "16777216"), ("min.cleanable.dirty.ratio", "0.1")];
/// As many copies as the brokers are configured for.
const DEFAULT_REPLICATION: i32 = -1;

/// Who asks.
pub(super) struct Cluster<'a> {
    settings: &'a KafkaSettings,
    call: &'a Call<'a>,
    inquirer: BaseConsumer<Context>,
}

/// What is known of the topics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Topics {
    /// Bytes of the largest batch that the topic takes.
    pub(super) message_bytes_max: usize,
    /// Whether the topic of the progress keeps the last record of each key; `None` if the brokers do not tell.
    pub(super) is_compacted: Option<bool>,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(settings: &'a KafkaSettings, call: &'a Call<'a>) -> Result<Cluster<'a>, Ended> {
        let config = client::inquirer(settings);
        let inquirer = config.create_with_context(Context::new());
        let inquirer = inquirer.map_err(|error| Ended::Failed(described(settings, &error)))?;
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

    /// Waits until the brokers respond, and returns whether they have the topic.
    pub(super) fn has_topic(&self, topic: &str) -> Result<bool, Ended> {
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
                    return match code {
                        None => Ok(topic.is_some_and(|topic| !topic.partitions().is_empty())),
                        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => Ok(false),
                        // It is being made, or its leader changes.
                        Some(Code::LeaderNotAvailable) => Ok(false),
                        Some(code) => Err(Ended::Failed(described_code(self.settings, code))),
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
    pub(super) fn end_of_progress(&self) -> Result<(i64, i64), Ended> {
        let ends = self.inquirer.client().fetch_watermarks(&self.settings.progress, 0, RESPONSE_TIMEOUT);
        ends.map_err(|error| Ended::Failed(described(self.settings, &error)))
    }

    /// Makes the topic of the progress if it is not there, and returns what is known of both topics.
    pub(super) fn prepare(&self) -> Result<Topics, Ended> {
        let settings = self.settings;
        let has_progress = !settings.is_exactly_once || self.has_topic(&settings.progress)?;
        let config = client::administrator(settings);
        let administrator: AdminClient<DefaultClientContext> =
            config.create().map_err(|error| Ended::Failed(described(settings, &error)))?;
        if !has_progress {
            self.make_progress(&administrator)?;
            let deadline = Instant::now() + RESPONSE_TIMEOUT;
            while !self.has_topic(&settings.progress)? {
                if Instant::now() >= deadline {
                    return Err(Ended::Failed(described_code(settings, Code::LeaderNotAvailable)));
                }
            }
        }
        self.describe(&administrator)
    }

    fn make_progress(&self, administrator: &AdminClient<DefaultClientContext>) -> Result<(), Ended> {
        let topic = NewTopic {
            name: &self.settings.progress,
            num_partitions: 1,
            replication: TopicReplication::Fixed(DEFAULT_REPLICATION),
            config: PROGRESS_CONFIG.to_vec(),
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
            "there is no topic {name}, where bbq keeps how far it is, and bbq cannot make it: {why}; make it: kafka-topics --create \
             --topic {name} --partitions 1 --config cleanup.policy=compact"
        ))))
    }

    /// The brokers need not tell: then they judge what is too large.
    fn describe(&self, administrator: &AdminClient<DefaultClientContext>) -> Result<Topics, Ended> {
        let KafkaSettings { topic, progress, is_exactly_once, .. } = self.settings;
        let mut wanted = vec![ResourceSpecifier::Topic(topic)];
        if *is_exactly_once {
            wanted.push(ResourceSpecifier::Topic(progress));
        }
        let options = AdminOptions::new().request_timeout(Some(RESPONSE_TIMEOUT));
        let found = self.call.runtime.block_on(administrator.describe_configs(&wanted, &options));
        let found = found.map_err(|error| Ended::Failed(described(self.settings, &error)))?;
        // An error of a single topic means that the user may not ask.
        let mut found = found.into_iter().map(Result::ok);
        let (of_topic, of_progress) = (found.next().flatten(), found.next().flatten());
        let value = |key: &str, of: Option<rdkafka::admin::ConfigResource>| {
            of.and_then(|of| of.get(key).and_then(|entry| entry.value.clone()))
        };
        let largest = value("max.message.bytes", of_topic).and_then(|bytes| bytes.parse().ok());
        let is_compacted = value("cleanup.policy", of_progress).map(|policy| policy.contains("compact"));
        let message_bytes_max = largest.unwrap_or(MESSAGE_BYTES_UNKNOWN).min(MESSAGE_BYTES_UNKNOWN);
        Ok(Topics { message_bytes_max, is_compacted })
    }
}
