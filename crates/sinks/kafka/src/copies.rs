//! On how many brokers a topic is, and what that means when one of them is away or lost.

/// What is known of a topic's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    /// Of the partition that has the fewest.
    pub(super) replicas: usize,
    /// Brokers that must have a message before it is acknowledged; `None` if the brokers do not tell.
    pub(super) min_in_sync: Option<usize>,
    /// Brokers of the cluster that are there.
    pub(super) brokers: usize,
}

impl Copies {
    /// What an operator should know, if the cluster could do better.
    pub(super) fn weakness(&self, topic: &str) -> Option<String> {
        let Copies { replicas, min_in_sync, brokers } = *self;
        if replicas < 2 {
            return (brokers > 1).then(|| {
                format!(
                    "the topic {topic} is on one of {brokers} brokers: the sink waits while that broker is away, and messages that it \
                     loses are lost; give the topic more replicas (kafka-reassign-partitions)"
                )
            });
        }
        (min_in_sync == Some(1)).then(|| {
            format!(
                "one broker alone may acknowledge messages of the topic {topic}, which are lost if that broker is lost; set the topic's \
                 min.insync.replicas to 2: kafka-configs --alter --topic {topic} --add-config min.insync.replicas=2"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_weak_if_one_broker_is_enough_to_lose_it() {
        for (replicas, min_in_sync, brokers, words) in [
            (1, Some(1), 1, None),
            (1, Some(1), 3, Some("on one of 3 brokers")),
            (3, Some(1), 3, Some("min.insync.replicas=2")),
            // One of three is away.
            (3, Some(1), 2, Some("min.insync.replicas=2")),
            (3, Some(2), 3, None),
            (3, None, 3, None),
        ] {
            let weakness = Copies { replicas, min_in_sync, brokers }.weakness("logs");
            match words {
                None => assert_eq!(weakness, None),
                Some(words) => assert!(weakness.unwrap().contains(words)),
            }
        }
    }
}
