//! Reads records of topics whose offsets are known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, OwnedMessage};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::client::Isolation;
use super::context::Context;
use super::link::Ended;
use super::places::Place;
use super::problem::{MAJORITY, described};
use super::progress::Consuming;
use super::settings::KafkaSettings;
use super::thread::Call;

/// Brokers that send nothing for so long are away.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether the sink is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Who reads.
pub(super) struct Records<'a> {
    pub(super) settings: &'a KafkaSettings,
    pub(super) id: &'a str,
    pub(super) call: &'a Call<'a>,
}

impl Records<'_> {
    /// Whether a reader sees the last record of each place. `None` if the user may not read one of the topics, or one is gone.
    pub(super) fn sees(&self, places: &[Place], isolation: Isolation) -> Result<Option<Vec<bool>>, Ended> {
        let mut seen: HashSet<(String, i32)> = HashSet::new();
        let key = |place: &Place| (place.topic.clone(), place.partition);
        // All at once, as in most cases all are seen.
        let all: Vec<&Place> = places.iter().collect();
        let mut rounds = vec![all];
        rounds.extend(by_topic(places));
        for round in rounds {
            let unseen: Vec<&Place> = round.into_iter().filter(|place| !seen.contains(&key(place))).collect();
            let found = self.scan(&unseen, Place::last, isolation, |place, message| {
                if message.offset() == place.last() {
                    seen.insert(key(place));
                }
            })?;
            if found.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(places.iter().map(|place| seen.contains(&key(place))).collect()))
    }

    /// The records of the places, committed or not. `None` if not all can be read.
    pub(super) fn all(&self, places: &[Place]) -> Result<Option<Vec<OwnedMessage>>, Ended> {
        let mut records = Vec::new();
        for round in by_topic(places) {
            let found = self.scan(&round, Place::first, Isolation::Uncommitted, |place, message| {
                if place.has(message.offset()) {
                    records.push(message.detach());
                }
            })?;
            if found.is_none() {
                return Ok(None);
            }
        }
        let wanted: usize = places.iter().map(Place::count).sum();
        Ok((records.len() == wanted).then_some(records))
    }

    /// Where a reader sees a partition end. Its leader may not be known at once.
    fn end_of(&self, consumer: &BaseConsumer<Context>, topic: &str, partition: i32) -> KafkaResult<i64> {
        let since = Instant::now();
        loop {
            let error = match consumer.client().fetch_watermarks(topic, partition, SILENCE_MAX) {
                Ok((_, end)) => return Ok(end),
                Err(error) => error,
            };
            let is_final = error.rdkafka_error_code().is_some_and(is_closed);
            if is_final || self.call.is_stopped() || since.elapsed() >= SILENCE_MAX {
                return Err(error);
            }
            self.call.pause(LOOK_INTERVAL);
        }
    }

    /// Reads each place from an offset to its last record, unless the partition ends before. With places of several topics it may end
    /// earlier.
    fn scan(
        &self,
        places: &[&Place],
        from: impl Fn(&Place) -> i64,
        isolation: Isolation,
        mut take: impl FnMut(&Place, &BorrowedMessage<'_>),
    ) -> Result<Option<()>, Ended> {
        if places.is_empty() {
            return Ok(Some(()));
        }
        let failed = |error: &KafkaError| Ended::Failed(described(self.settings, error));
        let consuming = Consuming::new(self.settings, self.id, isolation)?;
        let consumer = consuming.get()?;
        let mut assignment = TopicPartitionList::with_capacity(places.len());
        let mut unread = Vec::new();
        for place in places {
            let Place { topic, partition, .. } = place;
            let end = match self.end_of(consumer, topic, *partition) {
                Ok(end) => end,
                Err(error) if error.rdkafka_error_code().is_some_and(is_closed) => return Ok(None),
                Err(error) => return Err(failed(&error)),
            };
            // Nothing is told of an end in front of the offset.
            if end <= place.last() {
                continue;
            }
            unread.push(*place);
            let offset = Offset::Offset(from(place));
            let added = assignment.add_partition_offset(&place.topic, place.partition, offset);
            added.map_err(|error| failed(&error))?;
        }
        consumer.assign(&assignment).map_err(|error| failed(&error))?;
        // How many ends are not told yet, for each number of a partition: it is not told of which topic.
        let mut ends: HashMap<i32, usize> = HashMap::new();
        unread.iter().for_each(|place| *ends.entry(place.partition).or_default() += 1);
        let mut silent_since = Instant::now();
        let mut why = format!("the brokers do not respond{MAJORITY}");
        while !unread.is_empty() {
            if self.call.is_stopped() {
                return Err(Ended::Stopped);
            }
            if silent_since.elapsed() >= SILENCE_MAX {
                let text = format!("cannot read where the last transaction is: {why}");
                return Err(Ended::Failed(io::Error::new(io::ErrorKind::TimedOut, text)));
            }
            match consumer.poll(LOOK_INTERVAL) {
                None => {}
                Some(Ok(message)) => {
                    silent_since = Instant::now();
                    let (topic, partition) = (message.topic(), message.partition());
                    let is_of = |place: &&Place| place.partition == partition && place.topic == topic;
                    let Some(index) = unread.iter().position(is_of) else { continue };
                    take(unread[index], &message);
                    if message.offset() >= unread[index].last() {
                        unread.swap_remove(index);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    silent_since = Instant::now();
                    let left = ends.entry(partition).or_default();
                    *left = left.saturating_sub(1);
                    if *left == 0 {
                        unread.retain(|place| place.partition != partition);
                    }
                }
                Some(Err(error)) => match error.rdkafka_error_code() {
                    Some(code) if is_closed(code) => return Ok(None),
                    // The consumer is in no group; it only has the name of one.
                    Some(Code::GroupAuthorizationFailed) => {}
                    _ => why = error.to_string(),
                },
            }
        }
        Ok(Some(()))
    }
}

/// Whether the user may not read a topic, or it is gone.
fn is_closed(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::UnknownTopicOrPartition
            | Code::UnknownTopic
            | Code::UnknownPartition
    )
}

fn by_topic(places: &[Place]) -> Vec<Vec<&Place>> {
    let mut topics: BTreeMap<&str, Vec<&Place>> = BTreeMap::new();
    places.iter().for_each(|place| topics.entry(&place.topic).or_default().push(place));
    topics.into_values().collect()
}
