//! Configures librdkafka.

use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;

use super::settings::KafkaSettings;
use super::size::{TRANSACTION_BYTES_MAX, TRANSACTION_MESSAGES_MAX};

/// The longest pause before a broker that is away is tried again, in milliseconds.
const RECONNECT_MAX_MS: &str = "1000";
/// How long a batch that is not full waits for more, in milliseconds.
const LINGER_MS: &str = "5";
/// Messages of a batch, unless the bytes are enough.
const BATCH_MESSAGES_MAX: &str = "100000";
/// Bytes of a batch, unless a message is larger or the topic takes less. librdkafka sends the next batch of a partition when this one is
/// acknowledged, so far from the brokers this is what a partition gets in a round trip; and topics take little more by default.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// What librdkafka sends in any case: the record about the progress may be larger than the largest message.
const MESSAGE_BYTES_MIN: usize = 1024 * 1024;
/// The largest message that librdkafka can be told to send.
const MESSAGE_BYTES_MAX: usize = 1_000_000_000;
/// What librdkafka may hold beyond a transaction: the progress.
const QUEUE_MESSAGES_EXTRA: usize = 16;

/// What a consumer sees of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isolation {
    /// What is in front of the first open transaction, without those that were aborted.
    Committed,
    Uncommitted,
}

impl Isolation {
    fn name(self) -> &'static str {
        match self {
            Isolation::Committed => "read_committed",
            Isolation::Uncommitted => "read_uncommitted",
        }
    }
}

/// What every client has.
fn client(settings: &KafkaSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &settings.servers)
        .set("client.id", "bbq")
        .set("reconnect.backoff.max.ms", RECONNECT_MAX_MS)
        .set("socket.keepalive.enable", "true")
        .set_log_level(RDKafkaLogLevel::Info);
    settings.security.apply(&mut config);
    config
}

/// Of the sink with this id.
pub(super) fn transactional_id(id: &str) -> String {
    format!("bbq-{id}")
}

/// Bytes of a batch that the topic takes.
pub(super) fn batch_bytes(message_bytes_max: usize, known: Option<usize>) -> usize {
    BATCH_BYTES_MAX.min(message_bytes_max).min(known.unwrap_or(usize::MAX))
}

/// A producer for the sink with this id.
pub(super) fn producer(
    settings: &KafkaSettings,
    id: &str,
    batch_bytes: usize,
    message_bytes_max: usize,
) -> ClientConfig {
    let mut config = client(settings);
    let queue_kib = (2 * TRANSACTION_BYTES_MAX + message_bytes_max) / 1024;
    config
        .set("enable.idempotence", "true")
        // The progress of a transaction says where its messages are. Without one, nobody asks.
        .set("delivery.report.only.error", if settings.is_exactly_once { "false" } else { "true" })
        .set("linger.ms", LINGER_MS)
        .set("batch.num.messages", BATCH_MESSAGES_MAX)
        .set("batch.size", batch_bytes.to_string())
        .set("message.max.bytes", message_bytes_max.clamp(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX).to_string())
        .set("queue.buffering.max.messages", (TRANSACTION_MESSAGES_MAX + QUEUE_MESSAGES_EXTRA).to_string())
        .set("queue.buffering.max.kbytes", queue_kib.to_string())
        // As the clients in Java do it: a key has one partition, whoever sends it.
        .set("partitioner", "murmur2_random")
        .set("compression.type", settings.compression);
    if settings.is_exactly_once {
        let timeout = settings.transaction_timeout.as_millis();
        config
            .set("transactional.id", transactional_id(id))
            .set("transaction.timeout.ms", timeout.to_string());
    }
    config
}

/// A consumer that belongs to no group: it asks, and reads nothing. The end of a partition is what it would see of it.
pub(super) fn inquirer(settings: &KafkaSettings, isolation: Isolation) -> ClientConfig {
    let mut config = client(settings);
    config.set("isolation.level", isolation.name());
    config
}

/// A consumer that reads the progress of the sink with this id: what is committed, or everything.
pub(super) fn reader(settings: &KafkaSettings, id: &str, isolation: Isolation) -> ClientConfig {
    let mut config = client(settings);
    config
        // It joins no group, and librdkafka wants a name of one.
        .set("group.id", transactional_id(id))
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", isolation.name())
        .set("enable.partition.eof", "true");
    config
}

/// A client that asks for the settings of topics, and makes one.
pub(super) fn administrator(settings: &KafkaSettings) -> ClientConfig {
    client(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_no_larger_than_the_topic_takes() {
        assert_eq!(batch_bytes(1_048_588, None), BATCH_BYTES_MAX);
        assert_eq!(batch_bytes(1000, None), 1000);
        assert_eq!(batch_bytes(1_048_588, Some(2048)), 2048);
    }
}
