//! Topics of a template that the user may describe, but not write to. Senders choose names, and this one may be somebody else's: its messages
//! go to the topic of all others, as if it were missing.
//!
//! Brokers refuse a transaction as a whole, and librdkafka does not say for which topic. So after that, each transaction has at most one topic
//! that has taken nothing yet.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use bbq_spec::RateLimitedLog;
use rdkafka::error::RDKafkaErrorCode as Code;
use tracing::warn;

use super::context::Failure;
use super::sent::Sent;
use super::settings::KafkaSettings;

/// A topic is left out for so long; then it is tried again, which costs a transaction if nothing has changed. A template has at most 1,000
/// topics in a day.
const DENIED_FOR: Duration = Duration::from_secs(60);

/// What is known. It outlives a connection, which ends with a transaction that is refused before it has a partition.
#[derive(Debug, Default)]
pub(super) struct Rights {
    /// Topics that are left out, and since when.
    denied: HashMap<String, Instant>,
    /// Topics that have taken something.
    proven: HashSet<String>,
    /// Whether a transaction has at most one topic that is not proven.
    is_careful: bool,
    log: RateLimitedLog,
}

impl Rights {
    /// Whether the messages of a topic go to that of all others.
    pub(super) fn is_denied(&self, topic: &str) -> bool {
        // Nearly always there is none, and this is asked for every message.
        !self.denied.is_empty() && self.denied.get(topic).is_some_and(|since| since.elapsed() < DENIED_FOR)
    }

    /// Topics have taken something.
    pub(super) fn prove(&mut self, topics: &[String]) {
        for topic in topics {
            if !self.proven.contains(topic) {
                self.proven.insert(topic.clone());
            }
        }
    }

    /// Whether a topic may be in a transaction with others. One that is not proven begins a transaction: what was sent to others before it is
    /// committed, however many topics are refused.
    pub(super) fn may_join(&self, topic: &str, others: &[String]) -> bool {
        !self.is_careful || self.proven.contains(topic) || others.iter().all(|other| other == topic)
    }

    /// Leaves out the topics of messages that failed for the user's rights. Returns `false` if none did, or only those to the topic of all
    /// others.
    pub(super) fn leave_out(&mut self, failures: &[Failure], sent: &Sent, settings: &KafkaSettings) -> bool {
        let mut has_denied = false;
        for Failure { number, .. } in failures.iter().filter(|it| it.code == Code::TopicAuthorizationFailed) {
            if let Some(message) = sent.get(*number) {
                has_denied |= self.deny(sent.topic_of(&message), settings);
            }
        }
        has_denied
    }

    /// The same, for a transaction with these topics that the brokers refuse.
    pub(super) fn leave_out_one(&mut self, topics: &[String], settings: &KafkaSettings) -> bool {
        let other = &settings.topic;
        if topics.iter().all(|topic| topic == other) {
            return false;
        }
        let has_proven_other = topics.contains(other) && self.proven.contains(other);
        let mut unproven = topics.iter().filter(|topic| !self.proven.contains(*topic));
        let is_left_out = match (unproven.next(), unproven.next()) {
            // The rights on one of the others may have been taken away meanwhile: each is tried alone.
            (Some(topic), None) if topic == other => {
                self.proven.clear();
                false
            }
            // It may be the topic of all others that the user lost: then its messages must not go there.
            (Some(_), None) if has_proven_other => self.proven.remove(other),
            (Some(topic), None) => return self.deny(topic, settings),
            // The rights on one of them were taken away.
            (None, _) => {
                self.proven.clear();
                true
            }
            (Some(_), Some(_)) => true,
        };
        self.is_careful = true;
        is_left_out
    }

    fn deny(&mut self, topic: &str, settings: &KafkaSettings) -> bool {
        let KafkaSettings { name: sink, topic: other, .. } = settings;
        if topic == other {
            return false;
        }
        self.proven.remove(topic);
        self.denied.retain(|_, since| since.elapsed() < DENIED_FOR);
        if self.denied.insert(topic.to_owned(), Instant::now()).is_none()
            && let Some(silent) = self.log.report()
        {
            warn!(
                sink,
                topic,
                other,
                silent,
                "the user may not write to the topic: its messages go to the topic for all others"
            );
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use bbq_format::Format;

    use super::super::security::Security;
    use super::super::settings::Key;
    use super::*;
    use crate::topic;

    fn settings() -> KafkaSettings {
        let template = topic::parse("logs-{host}").unwrap();
        KafkaSettings {
            name: "test".to_owned(),
            shown: "kafka://test".to_owned(),
            servers: String::new(),
            topic: template.fallback().to_owned(),
            template,
            creates: false,
            progress: "progress".to_owned(),
            is_exactly_once: true,
            transaction_timeout: Duration::ZERO,
            keep: Duration::ZERO,
            key: Key::None,
            format: Format::Raw,
            has_origin: false,
            compression: "none",
            security: Security::default(),
        }
    }

    #[test]
    fn a_transaction_that_is_refused_has_one_topic_that_may_be_at_fault() {
        let topics = ["a", "b", "c"].map(str::to_owned);
        let [_, b, c] = &topics;
        let mut rights = Rights::default();
        assert!(rights.may_join("a", &topics));
        rights.is_careful = true;
        assert!(rights.may_join("a", &[]) && rights.may_join("b", std::slice::from_ref(b)));
        assert!(!rights.may_join("a", std::slice::from_ref(b)));
        rights.prove(std::slice::from_ref(b));
        // What is sent to b is committed before a is tried.
        assert!(!rights.may_join("a", std::slice::from_ref(b)) && !rights.may_join("a", &topics[..2]));
        assert!(rights.may_join("b", std::slice::from_ref(c)) && rights.may_join("b", &topics[..2]));
    }

    #[test]
    fn the_topic_of_all_others_is_at_fault_like_another() {
        let settings = settings();
        let [a, other] = ["logs-a", "logs-other"].map(str::to_owned);
        let both = [a.clone(), other.clone()];
        let mut rights = Rights::default();
        assert!(rights.leave_out_one(&both, &settings) && rights.is_careful && !rights.is_denied(&a));
        assert!(!rights.leave_out_one(std::slice::from_ref(&other), &settings), "nothing else is at fault");
        // It took messages, and the right to write to it is gone.
        rights.prove(std::slice::from_ref(&other));
        assert!(rights.leave_out_one(&both, &settings) && !rights.is_denied(&a));
        assert!(!rights.may_join(&other, std::slice::from_ref(&a)), "each is tried alone");
        rights.prove(std::slice::from_ref(&a));
        assert!(!rights.leave_out_one(&both, &settings) && !rights.is_denied(&a));
        // The other topic is at fault.
        assert!(rights.leave_out_one(std::slice::from_ref(&a), &settings) && rights.is_denied(&a));
        assert!(!rights.is_denied(&other));
    }
}
