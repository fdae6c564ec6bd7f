//! Ends a transaction of this sink that the brokers have left open: its coordinator says that it is over, and the topics have no mark of
//! that. Readers of committed records, also of the progress, wait for it without an end.
//!
//! A coordinator that starts again writes the marks of what it was about to end. Apache Kafka takes a partition without a leader for one
//! that was deleted (KAFKA-20734, seen with 4.4.0), and leaves its mark out: so it loses them when all brokers of a partition start
//! again, as they do where there is one. Other partitions may have theirs.
//!
//! A partition knows one open transaction of a producer, and a later epoch of the producer goes on with it. So the next mark ends it, and
//! what the mark says counts for all of it. Nobody tells this sink whether the coordinator had committed it; but the progress says where
//! the messages are, and those that readers see tell it.
//!
//! ```text
//! a message is seen                               committed: what is not seen is aborted in its partition, and copied behind it
//! none is, and they are not kept                  committed, if it was acknowledged, in the same way
//! none is                                         aborted in all partitions in which a transaction is open; they are sent again
//! ```
//!
//! Before messages are copied, the progress is committed with the places that are to be copied: whoever is killed meanwhile goes on there.
//! Copies are as old, and in the same partition and order.
//!
//! The progress of earlier releases, and one with too many places, says nothing of them. Nor does it help a user who may not read the
//! topics. Then it is committed where it was acknowledged and a mark is missing in the topic of the progress alone, else aborted; where
//! some of the brokers had written the marks of a commit, its messages come twice.

use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::message::OwnedMessage;
use rdkafka::producer::{BaseRecord, Producer as _};
use tracing::warn;

use super::client::Isolation;
use super::cluster::Cluster;
use super::connection::{CALL_TIMEOUT, Connection};
use super::link::{Ended, KafkaLink};
use super::places::{Place, Places};
use super::problem::described;
use super::progress::{Found, Progress, Reader};
use super::records::Records;
use super::sent::{FIRST, PROGRESS};
use super::settings::PROGRESS_PARTITION;
use super::thread::Call;
use super::transaction::{Unsent, send};

/// For so long messages may be behind open transactions of others before this sink ends its own there.
const OTHERS_PATIENCE: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

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
            match reader.last(cluster)? {
                Found::Last(progress, range) => {
                    let is_whole = match &progress {
                        Some(progress) => self.make_whole(link, call, cluster, progress)?,
                        None => true,
                    };
                    if is_whole {
                        return Ok((progress, range));
                    }
                }
                Found::LeftOpen(value) => {
                    self.end_left_open(link, call, cluster, &value)?;
                    may_end = false;
                }
            }
        }
    }

    /// Has readers see all messages of the last transaction, which is committed. Returns `false` if something was written for that.
    fn make_whole(
        &self,
        link: &mut KafkaLink,
        call: &Call<'_>,
        cluster: &Cluster<'_>,
        progress: &Progress,
    ) -> Result<bool, Ended> {
        if !progress.to_copy.is_empty() {
            self.copy(link, call, progress, &progress.to_copy)?;
            return Ok(false);
        }
        let id = link.shared.id.clone();
        let records = Records { settings: &self.settings, id: &id, call };
        let since = Instant::now();
        loop {
            let unseen = match records.sees(&progress.places.0, Isolation::Committed) {
                Ok(Some(seen)) => without(&progress.places.0, &seen),
                Ok(None) => return Ok(true),
                Err(Ended::Failed(why)) => {
                    let (sink, topic) = (&self.settings.name, &self.settings.topic);
                    warn!(sink, topic, %why, "not known whether readers see the last transaction");
                    return Ok(true);
                }
                Err(ended) => return Err(ended),
            };
            if unseen.is_empty() {
                return Ok(true);
            }
            if since.elapsed() < OTHERS_PATIENCE {
                call.pause(LOOK_INTERVAL);
                continue;
            }
            // Others are deleted, as they were old.
            let there = records.sees(&unseen, Isolation::Uncommitted)?;
            let suspects = there.map(|there| with(&unseen, &there)).unwrap_or_default();
            return Ok(
                suspects.is_empty() || !self.commit_again(link, call, cluster, progress, &suspects, false)?
            );
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
        let found = std::str::from_utf8(open).ok().and_then(|value| Progress::parse(0, value));
        // Times may be missing in what is remembered.
        let is_acknowledged =
            found.as_ref().is_some_and(|found| found.positions.to_string() == link.shared.seen().to_string());
        // What is not kept cannot be sent again.
        let is_final = is_acknowledged && settings.keep.is_zero();
        let id = link.shared.id.clone();
        let records = Records { settings, id: &id, call };
        let places = found.as_ref().map(|found| &found.places.0[..]).unwrap_or_default();
        let seen = if places.is_empty() { None } else { records.sees(places, Isolation::Committed)? };
        if let (Some(found), Some(seen)) = (&found, &seen)
            && (is_final || seen.contains(&true))
        {
            let unseen = without(places, seen);
            let there = records.sees(&unseen, Isolation::Uncommitted)?.unwrap_or_default();
            // What the brokers have lost is sent again with the others.
            if there.iter().all(|is_there| *is_there)
                && self.commit_again(link, call, cluster, found, &unseen, true)?
            {
                return Ok(());
            }
        }
        let partitions = cluster.open_partitions()?;
        let is_committed = is_final || (is_acknowledged && seen.is_none() && partitions.is_empty());
        warn!(
            sink = settings.name,
            topic = settings.progress,
            partitions = ?partitions,
            is_committed,
            "the brokers left a transaction open that they had ended; ending it. Unless it is committed, its messages are sent again, and \
             come twice where the brokers had committed a part"
        );
        self.begin()?;
        self.send_to(link, &settings.progress, PROGRESS_PARTITION, Some(open))?;
        if !is_committed {
            // No reader of committed records sees them.
            partitions
                .iter()
                .try_for_each(|(topic, partition)| self.send_to(link, topic, *partition, None))?;
        }
        self.wait_delivered(link, call)?;
        self.check_delivered()?;
        if is_committed {
            self.call(call, |producer| producer.commit_transaction(CALL_TIMEOUT))
        } else {
            self.abort(call).map(|_taken_back| ())
        }
    }

    /// Ends a committed transaction in partitions in which readers do not see it. Returns `false` if the brokers do not give its messages,
    /// and has done nothing then.
    fn commit_again(
        &self,
        link: &mut KafkaLink,
        call: &Call<'_>,
        cluster: &Cluster<'_>,
        progress: &Progress,
        unseen: &[Place],
        is_open: bool,
    ) -> Result<bool, Ended> {
        let settings = &self.settings;
        let id = link.shared.id.clone();
        let records = Records { settings, id: &id, call };
        if records.all(unseen)?.is_none() {
            return Ok(false);
        }
        let partitions: Vec<_> = unseen.iter().map(|place| (&place.topic, place.partition)).collect();
        warn!(
            sink = settings.name,
            topic = settings.progress,
            ?partitions,
            is_committed = true,
            "the brokers left a transaction open that they had committed; ending it. Its messages are copied in partitions that have no \
             mark of it"
        );
        if !unseen.is_empty() {
            self.begin()?;
            unseen.iter().try_for_each(|place| self.send_to(link, &place.topic, place.partition, None))?;
            self.wait_delivered(link, call)?;
            self.check_delivered()?;
            let _taken_back = self.abort(call)?;
            cluster.wait_ended(unseen)?;
        }
        // Others may have been in front of them.
        let seen = records.sees(unseen, Isolation::Committed)?.unwrap_or_default();
        let to_copy = Places(without(unseen, &seen));
        if is_open || !to_copy.is_empty() {
            let begun = Progress { to_copy: to_copy.clone(), ..progress.clone() };
            self.begin()?;
            self.send_to(link, &settings.progress, PROGRESS_PARTITION, Some(begun.value().as_bytes()))?;
            self.wait_delivered(link, call)?;
            self.check_delivered()?;
            self.call(call, |producer| producer.commit_transaction(CALL_TIMEOUT))?;
        }
        if !to_copy.is_empty() {
            self.copy(link, call, progress, &to_copy)?;
        }
        Ok(true)
    }

    /// Writes messages again that are in the topics and aborted there.
    fn copy(
        &self,
        link: &mut KafkaLink,
        call: &Call<'_>,
        progress: &Progress,
        of: &Places,
    ) -> Result<(), Ended> {
        let settings = &self.settings;
        let id = link.shared.id.clone();
        let records = Records { settings, id: &id, call }.all(&of.0)?;
        let Some(records) = records else {
            return Err(Ended::Failed(io::Error::other(gone(&settings.topic, of))));
        };
        self.producer.context().forget_delivered();
        self.begin()?;
        for (index, record) in records.iter().enumerate() {
            let copied = send(&self.producer, call, copy_of(record, FIRST + index));
            copied.map_err(|unsent| match unsent {
                Unsent::Failed(error) => Ended::InDoubt(described(settings, &error)),
                Unsent::Ended(ended) => ended,
            })?;
        }
        self.wait_delivered(link, call)?;
        self.check_delivered()?;
        let topic_of = |number: usize| {
            number.checked_sub(FIRST).and_then(|index| records.get(index)).map(OwnedMessage::topic)
        };
        let copies = self.producer.context().with_delivered(|delivered| Places::of(delivered, topic_of));
        let is_copied = |place: &&Place| {
            of.0.iter().any(|of| (&of.topic, of.partition) == (&place.topic, place.partition))
        };
        let mut places = copies.0;
        if !places.is_empty() {
            places.extend(progress.places.0.iter().filter(|place| !is_copied(place)).cloned());
        }
        let whole = Progress { places: Places(places), to_copy: Places::default(), ..progress.clone() };
        self.send_to(link, &settings.progress, PROGRESS_PARTITION, Some(whole.value().as_bytes()))?;
        self.wait_delivered(link, call)?;
        self.check_delivered()?;
        self.call(call, |producer| producer.commit_transaction(CALL_TIMEOUT))?;
        warn!(sink = settings.name, messages = records.len(), "copied messages that had no mark of a commit");
        Ok(())
    }

    /// Sends a record of the sink's own.
    fn send_to(
        &self,
        link: &KafkaLink,
        topic: &str,
        partition: i32,
        value: Option<&[u8]>,
    ) -> Result<(), Ended> {
        let mut record = BaseRecord::<str, [u8], usize>::with_opaque_to(topic, PROGRESS)
            .partition(partition)
            .key(link.shared.id.as_str());
        record.payload = value;
        let sent = self.producer.send(record);
        sent.map_err(|(error, _)| Ended::InDoubt(described(&self.settings, &error)))
    }
}

/// Why a copy cannot be made, and what an operator can do. It is tried again: the brokers of a partition may only be away.
fn gone(topic: &str, of: &Places) -> String {
    let messages: usize = of.0.iter().map(Place::count).sum();
    format!(
        "the brokers do not give {messages} messages of {topic} that they have acknowledged and aborted, so bbq cannot commit them again; \
         retention or compaction may have deleted them. If the brokers will not have them again: stop bbq, delete the file of this sink in \
         DATA/cursors, and start bbq. It then sends everything in the spool: messages that readers have seen come twice, and of the \
         {messages} messages those that are no longer in the spool are lost. They were in {}",
        of.summary()
    )
}

fn copy_of(record: &OwnedMessage, number: usize) -> BaseRecord<'_, [u8], [u8], usize> {
    let mut copy = BaseRecord::with_opaque_to(record.topic(), number).partition(record.partition());
    copy.key = record.key();
    copy.payload = record.payload();
    copy.headers = record.headers().cloned();
    copy.timestamp = record.timestamp().to_millis();
    copy
}

fn with(places: &[Place], are: &[bool]) -> Vec<Place> {
    places.iter().zip(are).filter(|(_, is)| **is).map(|(place, _)| place.clone()).collect()
}

fn without(places: &[Place], are: &[bool]) -> Vec<Place> {
    places.iter().zip(are).filter(|(_, is)| !**is).map(|(place, _)| place.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_gone_have_a_remedy() {
        let places = Places::parse("logs:0:7+3,12+1 logs:1:9+1").unwrap();
        let said = gone("logs", &places);
        for part in [
            "do not give 5 messages of logs",
            "delete the file of this sink in DATA/cursors",
            "come twice",
            "are lost",
            "logs:0 from 7 to 12",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
