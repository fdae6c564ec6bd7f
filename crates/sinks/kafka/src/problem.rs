//! What the errors of librdkafka and of the brokers mean, and what an operator can do.

use std::io;

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::settings::KafkaSettings;

/// What a cluster needs to go on.
pub(super) const MAJORITY: &str = "; check that most of the brokers are running";

/// What the error of a message says about the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The message itself is refused, and always will be.
    Refused,
    /// The batch of the message is too large.
    TooLarge,
    /// Another message is to blame.
    Innocent,
    /// Nothing about the message.
    Trouble,
}

pub(super) fn verdict(code: Code) -> Verdict {
    match code {
        Code::InvalidRecord | Code::InvalidTimestamp => Verdict::Refused,
        Code::MessageSizeTooLarge | Code::MessageBatchTooLarge => Verdict::TooLarge,
        Code::InvalidDifferentRecord | Code::PurgeQueue | Code::PurgeInflight => Verdict::Innocent,
        _ => Verdict::Trouble,
    }
}

/// Whether a client that reports this will not get a connection before somebody does something.
pub(super) fn needs_operator(code: Code) -> bool {
    matches!(
        code,
        Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL | Code::UnsupportedSASLMechanism
    )
}

/// Whether another producer with the same `transactional.id` came later, or the coordinator ended a transaction.
pub(super) fn is_fenced(code: Code) -> bool {
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
}

/// The error as a text, with what to do.
pub(super) fn described(settings: &KafkaSettings, error: &KafkaError) -> io::Error {
    let remedy = code_of(error).map(|code| remedy(settings, code)).unwrap_or_default();
    io::Error::other(format!("{error}{remedy}"))
}

/// `rdkafka_error_code` leaves out those of the operations of an administrator.
fn code_of(error: &KafkaError) -> Option<Code> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        error => error.rdkafka_error_code(),
    }
}

pub(super) fn described_code(settings: &KafkaSettings, code: Code) -> io::Error {
    io::Error::other(format!("{code}{}", remedy(settings, code)))
}

pub(super) fn remedy(settings: &KafkaSettings, code: Code) -> String {
    let KafkaSettings { topic, progress, is_exactly_once, .. } = settings;
    match code {
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            format!(
                "; check that the topic {topic} exists, or create it with kafka-topics --create --topic {topic}"
            )
        }
        Code::NotEnoughReplicas | Code::NotEnoughReplicasAfterAppend => {
            format!("{MAJORITY}: {topic} and {progress} take nothing without their min.insync.replicas")
        }
        Code::OperationTimedOut
        | Code::RequestTimedOut
        | Code::MessageTimedOut
        | Code::LeaderNotAvailable
        | Code::CoordinatorNotAvailable
        | Code::CoordinatorLoadInProgress => MAJORITY.to_owned(),
        Code::TopicAuthorizationFailed if *is_exactly_once => format!(
            "; the user needs the operations Describe and Write on the topic {topic}, and Describe, Read and Write on {progress} (and \
             Create, unless it exists)"
        ),
        Code::TopicAuthorizationFailed => {
            format!("; the user needs the operations Describe and Write on the topic {topic}")
        }
        Code::TransactionalIdAuthorizationFailed => {
            "; the user needs the operations Describe and Write on transactional ids with the prefix bbq-"
                .to_owned()
        }
        Code::ClusterAuthorizationFailed => {
            "; the user needs the operation IdempotentWrite on the cluster".to_owned()
        }
        Code::GroupAuthorizationFailed => {
            "; the user needs the operation Read on groups with the prefix bbq-".to_owned()
        }
        Code::InvalidTransactionTimeout => {
            "; set transaction_timeout_seconds to the brokers' transaction.max.timeout.ms, or less".to_owned()
        }
        Code::Authentication | Code::SaslAuthenticationFailed | Code::UnsupportedSASLMechanism => {
            "; check sasl, user and password_file".to_owned()
        }
        Code::SSL => "; check tls_ca and tls_cert".to_owned(),
        Code::UnsupportedVersion | Code::UnsupportedFeature => {
            "; bbq needs Apache Kafka 2.5 or newer, or exactly_once=off and 0.11".to_owned()
        }
        Code::BrokerTransportFailure | Code::AllBrokersDown if settings.security.is_plain() => {
            "; check that the brokers are running; if they require TLS, set tls=on".to_owned()
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_administrator_waits_for_in_vain_has_a_code() {
        let timed_out = Code::OperationTimedOut;
        for error in [KafkaError::AdminOp(timed_out), KafkaError::MetadataFetch(timed_out)] {
            assert_eq!(code_of(&error), Some(timed_out));
        }
    }
}
