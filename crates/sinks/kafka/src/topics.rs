//! The topics of a template: which of them are there, and how one that is missing is made.
//!
//! A message whose topic is missing, and cannot be made, goes to the topic of all others. So a host that nobody has thought of does not hold up
//! the messages of the others.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bbq_spec::RateLimitedLog;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::RDKafkaErrorCode as Code;
use tracing::{info, warn};

use super::client;
use super::cluster::{Cluster, DEFAULT_REPLICATION, RESPONSE_TIMEOUT};
use super::link::Ended;
use super::problem::{described, described_code};
use super::settings::KafkaSettings;

/// As many partitions as the brokers are configured for.
const DEFAULT_PARTITIONS: i32 = -1;
/// A topic that was missing is looked for again after this time.
const MISSING_FOR: Duration = Duration::from_secs(60);
/// While so many are missing, no other is looked for: each look takes a connection, and a sender may choose a thousand names.
const MISSING_MAX: usize = 50;

/// What is known of the topics of a template.
#[derive(Debug, Default)]
pub(super) struct KnownTopics {
    there: HashSet<String>,
    /// Since when.
    missing: HashMap<String, Instant>,
    /// Lines about missing topics.
    log: RateLimitedLog,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Own,
    /// To the topic of all others.
    Other,
    /// The topic has to be looked for first.
    Unknown,
}

fn is_recent(missing_since: &Instant) -> bool {
    missing_since.elapsed() < MISSING_FOR
}

impl KnownTopics {
    /// Those that are there when a connection begins.
    pub(super) fn find(settings: &KafkaSettings, cluster: &Cluster<'_>) -> Result<KnownTopics, Ended> {
        let mut there = HashSet::from([settings.topic.clone()]);
        if settings.template.has_fields() {
            there.extend(cluster.topics()?.into_iter().map(|(topic, _)| topic));
        }
        Ok(KnownTopics { there, ..KnownTopics::default() })
    }

    pub(super) fn place(&self, topic: &str) -> Place {
        if self.there.contains(topic) {
            Place::Own
        } else if self.missing.get(topic).is_some_and(is_recent)
            || self.missing.values().filter(|since| is_recent(since)).count() >= MISSING_MAX
        {
            Place::Other
        } else {
            Place::Unknown
        }
    }

    /// Looks for a topic, and makes it if that is wanted.
    pub(super) fn look(
        &mut self,
        topic: &str,
        settings: &KafkaSettings,
        cluster: &Cluster<'_>,
    ) -> Result<Place, Ended> {
        let why = match cluster.ask(topic)? {
            Ok(Some(_)) => None,
            Ok(None) if settings.creates => cluster.make(topic)?,
            Ok(None) => Some("create=off".to_owned()),
            // Senders choose names: this one may be of somebody else.
            Err(code @ (Code::TopicAuthorizationFailed | Code::InvalidTopic)) => Some(code.to_string()),
            Err(code) => return Err(Ended::Failed(described_code(settings, code))),
        };
        let Some(why) = why else {
            self.missing.remove(topic);
            self.there.insert(topic.to_owned());
            return Ok(Place::Own);
        };
        if let Some(silent) = self.log.report() {
            warn!(
                sink = settings.name,
                topic,
                other = settings.topic,
                silent,
                "bbq cannot find or use the topic, and does not create it ({why}): its messages go to the topic for all others"
            );
        }
        self.missing.retain(|_, since| is_recent(since));
        self.missing.insert(topic.to_owned(), Instant::now());
        Ok(Place::Other)
    }
}

impl Cluster<'_> {
    /// The topics that may be of the template, with their partitions.
    pub(super) fn topics(&self) -> Result<Vec<(String, Vec<i32>)>, Ended> {
        let KafkaSettings { template, topic: other, progress, .. } = self.settings;
        // Of all topics, unless there is only one.
        let wanted = (!template.has_fields()).then_some(other.as_str());
        let found = self.inquirer.client().fetch_metadata(wanted, RESPONSE_TIMEOUT);
        let found = found.map_err(|error| Ended::Failed(described(self.settings, &error)))?;
        let is_own = |name: &str| name != progress && template.may_be(name);
        let topics = found.topics().iter().filter(|topic| topic.error().is_none() && is_own(topic.name()));
        let partitions = |topic: &rdkafka::metadata::MetadataTopic| {
            topic.partitions().iter().map(|partition| partition.id()).collect()
        };
        Ok(topics.map(|topic| (topic.name().to_owned(), partitions(topic))).collect())
    }

    /// Makes a topic as the brokers are configured, and waits until it is there. Returns why the brokers refuse it, if they do.
    pub(super) fn make(&self, topic: &str) -> Result<Option<String>, Ended> {
        let config = client::administrator(self.settings);
        let administrator: AdminClient<DefaultClientContext> =
            config.create().map_err(|error| Ended::Failed(described(self.settings, &error)))?;
        let new = NewTopic {
            name: topic,
            num_partitions: DEFAULT_PARTITIONS,
            replication: TopicReplication::Fixed(DEFAULT_REPLICATION),
            config: Vec::new(),
        };
        let options = AdminOptions::new()
            .operation_timeout(Some(RESPONSE_TIMEOUT))
            .request_timeout(Some(RESPONSE_TIMEOUT));
        let made = self.call.runtime.block_on(administrator.create_topics([&new], &options));
        let made = made.map_err(|error| Ended::Failed(described(self.settings, &error)))?;
        match made.into_iter().next() {
            Some(Err((_, code))) if is_passing(code) => {
                return Err(Ended::Failed(described_code(self.settings, code)));
            }
            Some(Err((_, code))) if code != Code::TopicAlreadyExists => return Ok(Some(code.to_string())),
            _ => {}
        }
        self.wait(topic)?;
        info!(sink = self.settings.name, topic, "created the topic");
        Ok(None)
    }
}

/// Whether the brokers may do later what they refuse now.
fn is_passing(code: Code) -> bool {
    matches!(
        code,
        Code::RequestTimedOut
            | Code::OperationTimedOut
            | Code::NotController
            | Code::BrokerNotAvailable
            | Code::LeaderNotAvailable
            | Code::NetworkException
            | Code::BrokerTransportFailure
            | Code::ThrottlingQuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_senders_choose_are_not_looked_for_without_end() {
        let mut known = KnownTopics { there: HashSet::from(["logs-a".to_owned()]), ..KnownTopics::default() };
        for number in 0..MISSING_MAX {
            assert_eq!(known.place("logs-new"), Place::Unknown, "{number}");
            known.missing.insert(format!("logs-{number}"), Instant::now());
        }
        assert_eq!((known.place("logs-new"), known.place("logs-a")), (Place::Other, Place::Own));
        let long_ago = Instant::now().checked_sub(MISSING_FOR).expect("the machine is up for longer");
        known.missing.insert("logs-0".to_owned(), long_ago);
        assert_eq!((known.place("logs-new"), known.place("logs-0")), (Place::Unknown, Place::Unknown));
    }
}
