//! Ends a transaction of this sink that the brokers have left open: its coordinator says that it is over, and the topics have no mark of
//! that. Readers of committed records, also of the progress, wait for it without an end.
//!
//! A coordinator that starts again writes the marks of what it was about to end. Apache Kafka takes a partition without a leader for one
//! that was deleted (KAFKA-20734, seen with 4.4.0), and leaves its mark out: so it loses them when all brokers of a partition start
//! again, as they do where there is one.
//!
//! A partition knows one open transaction of a producer, and a later epoch of the producer goes on with it. So the next mark ends it, and
//! what the mark says counts for all of it. Nobody tells this sink whether the coordinator had committed it.
//!
//! ```text
//! acknowledged, and a mark is missing in the topic of the progress alone     committed
//! acknowledged, and its messages are not kept                                committed, in the other topic by the next messages
//! everything else                                                            aborted in all partitions in which a transaction is
//!                                                                            open; its messages are sent again
//! ```
//!
//! Where some of the brokers had written the marks of a commit, its messages come twice.

use std::ops::Range;

use rdkafka::producer::{BaseRecord, Producer as _};
use tracing::warn;

use super::cluster::Cluster;
use super::connection::{CALL_TIMEOUT, Connection};
use super::link::{Ended, KafkaLink};
use super::problem::described;
use super::progress::{Found, Progress, Reader};
use super::thread::Call;
use super::transaction::PROGRESS;

impl Connection {
    /// Reads how far the topic is, and where the topic of the progress begins and ends.
    pub(super) fn last_progress(
        &self,
        link: &mut KafkaLink,
        call: &Call<'_>,
        cluster: &Cluster<'_>,
    ) -> Result<(Option<Progress>, Range<i64>), Ended> {
        // What one mark does not end is not of this producer: its coordinator gave it another number meanwhile. It is waited for.
        let mut may_end = true;
        loop {
            let reader = Reader::new(&self.settings, &link.shared.id, call, may_end)?;
            let open = match reader.last(cluster)? {
                Found::Last(progress, range) => return Ok((progress, range)),
                Found::LeftOpen(value) => value,
            };
            self.end_left_open(link, call, cluster, &open)?;
            may_end = false;
        }
    }

    /// `open` is the progress in the transaction.
    fn end_left_open(
        &self,
        link: &mut KafkaLink,
        call: &Call<'_>,
        cluster: &Cluster<'_>,
        open: &[u8],
    ) -> Result<(), Ended> {
        let settings = &self.settings;
        let partitions = cluster.open_partitions()?;
        let found = std::str::from_utf8(open).ok().and_then(|value| Progress::parse(0, value));
        // Times may be missing in what is remembered.
        let is_acknowledged =
            found.is_some_and(|found| found.positions.to_string() == link.shared.seen().to_string());
        // What is not kept cannot be sent again.
        let is_committed = is_acknowledged && (partitions.is_empty() || settings.keep.is_zero());
        warn!(
            sink = settings.name,
            topic = settings.progress,
            partitions = ?partitions,
            is_committed,
            "the brokers left a transaction open that they had ended; ending it. Unless it is committed, its messages are sent again, and \
             come twice where the brokers had committed a part"
        );
        self.begin()?;
        let send = |topic: &str, partition: i32, value: Option<&[u8]>| {
            let mut record = BaseRecord::<str, [u8], usize>::with_opaque_to(topic, PROGRESS)
                .partition(partition)
                .key(link.shared.id.as_str());
            record.payload = value;
            let sent = self.producer.send(record);
            sent.map_err(|(error, _)| Ended::InDoubt(described(settings, &error)))
        };
        send(&settings.progress, 0, Some(open))?;
        if !is_committed {
            // No reader of committed records sees them.
            partitions.iter().try_for_each(|(topic, partition)| send(topic, *partition, None))?;
        }
        self.wait_delivered(link, call)?;
        self.check_delivered()?;
        if is_committed {
            self.call(call, |producer| producer.commit_transaction(CALL_TIMEOUT))
        } else {
            self.abort(call).map(|_taken_back| ())
        }
    }
}
