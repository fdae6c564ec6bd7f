//! What the SPEC of the sink says.

use std::time::Duration;

use bbq_format::Format;
use bbq_format::names::NameTemplate;

use super::security::Security;

/// The topic of the progress has all of its records in this partition.
pub(super) const PROGRESS_PARTITION: i32 = 0;

/// A checked SPEC.
#[derive(Debug)]
pub(super) struct KafkaSettings {
    /// Of the sink, for the log.
    pub(super) name: String,
    /// The SPEC without its options, for people.
    pub(super) shown: String,
    /// `HOST:PORT,..`, as librdkafka wants it.
    pub(super) servers: String,
    /// The template of topics.
    pub(super) template: NameTemplate,
    /// The topic, or of a template with fields that of all other messages: of those whose own topic is missing, or one too many.
    pub(super) topic: String,
    /// Whether topics of a template with fields are made if they are missing.
    pub(super) creates: bool,
    /// The topic of the progress.
    pub(super) progress: String,
    pub(super) is_exactly_once: bool,
    /// After so long the coordinator ends a transaction of which it hears nothing.
    pub(super) transaction_timeout: Duration,
    /// How long messages are kept after they were acknowledged.
    pub(super) keep: Duration,
    pub(super) key: Key,
    pub(super) format: Format,
    /// Whether a message has headers about its origin.
    pub(super) has_origin: bool,
    /// librdkafka's name of it.
    pub(super) compression: &'static str,
    pub(super) security: Security,
}

/// What the key of a message is. Messages with the same key are in one partition, so in order.
#[derive(Clone, Debug)]
pub(super) enum Key {
    Stream,
    Listener,
    Peer,
    Template(NameTemplate),
    None,
}
