//! The messages that librdkafka was given for a transaction, or for what is delivered together without one.

use std::collections::HashSet;
use std::collections::hash_map::{DefaultHasher, Entry, HashMap};
use std::hash::{Hash as _, Hasher as _};

/// Stands for the record about the progress.
pub(super) const PROGRESS: usize = 0;
/// Messages are numbered from this one on.
pub(super) const FIRST: usize = PROGRESS + 1;

/// A message.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentMessage {
    /// Its lane, and its number there.
    pub(super) record: (u32, u64),
    pub(super) bytes: usize,
    /// Among [`Sent::topics`].
    topic: usize,
    /// A digest of the key, if the order of messages with one key is to be kept here.
    key: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sent {
    messages: Vec<SentMessage>,
    /// Each once; at most as many as a template has names.
    topics: Vec<String>,
    places: HashMap<String, usize>,
}

impl Sent {
    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.topics.clear();
        self.places.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.messages.iter().map(|message| message.bytes).sum()
    }

    /// The topics that they were sent to.
    pub(super) fn topics(&self) -> &[String] {
        &self.topics
    }

    pub(super) fn topic_of(&self, message: &SentMessage) -> &str {
        &self.topics[message.topic]
    }

    /// The topic of the message with this number.
    pub(super) fn topic_of_number(&self, number: usize) -> Option<&str> {
        let message = number.checked_sub(FIRST).and_then(|index| self.messages.get(index))?;
        Some(&self.topics[message.topic])
    }

    /// The message with this number, which is counted from 1.
    pub(super) fn get(&self, number: usize) -> Option<SentMessage> {
        number.checked_sub(FIRST).and_then(|index| self.messages.get(index).copied())
    }

    /// Adds a message. A `key` is needed for [`Sent::delivered`].
    pub(super) fn add(&mut self, record: (u32, u64), bytes: usize, topic: &str, key: Option<&[u8]>) {
        let topic = self.place(topic);
        let key = key.map(|key| {
            let mut hasher = DefaultHasher::new();
            key.hash(&mut hasher);
            hasher.finish()
        });
        self.messages.push(SentMessage { record, bytes, topic, key });
    }

    fn place(&mut self, topic: &str) -> usize {
        // In most cases it is that of the message before.
        if let Some(last) = self.messages.last()
            && self.topics[last.topic] == topic
        {
            return last.topic;
        }
        match self.places.entry(topic.to_owned()) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                self.topics.push(topic.to_owned());
                *entry.insert(self.topics.len() - 1)
            }
        }
    }

    /// Whether a message that failed is no larger than one that was delivered to its topic with it: the topic takes more meanwhile.
    pub(super) fn fits_now<'a>(&'a self, failed: &HashSet<usize>) -> impl Fn(usize) -> bool + 'a {
        let mut largest = vec![0; self.topics.len()];
        for (index, message) in self.messages.iter().enumerate() {
            if !failed.contains(&(index + 1)) {
                largest[message.topic] = message.bytes.max(largest[message.topic]);
            }
        }
        move |number| self.get(number).is_some_and(|message| message.bytes <= largest[message.topic])
    }

    /// What need not be sent again when everything that did not fail is delivered: neither the messages that failed, nor those behind them
    /// with the same key in the same topic, which would then come before them. Those that `are_given_up` hold up no others.
    pub(super) fn delivered(
        &self,
        failed: &HashSet<usize>,
        are_given_up: impl Fn((u32, u64)) -> bool,
    ) -> Vec<(u32, u64)> {
        let (mut delivered, mut behind) = (Vec::new(), HashSet::new());
        for (index, message) in self.messages.iter().enumerate() {
            let SentMessage { record, topic, key, .. } = *message;
            if !failed.contains(&(index + 1)) {
                if key.is_none_or(|key| !behind.contains(&(topic, key))) {
                    delivered.push(record);
                }
            } else if let Some(key) = key
                && !are_given_up(record)
            {
                behind.insert((topic, key));
            }
        }
        delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_behind_a_message_that_failed_is_sent_again_with_it() {
        let mut sent = Sent::default();
        for (number, (topic, key)) in
            [("a", "x"), ("a", "y"), ("b", "x"), ("a", "x"), ("a", "y"), ("a", "z")].into_iter().enumerate()
        {
            sent.add((0, number as u64), 100, topic, Some(key.as_bytes()));
        }
        sent.add((0, 6), 100, "b", None);
        sent.add((0, 7), 100, "b", None);
        assert_eq!(
            (sent.topics(), sent.bytes(), sent.len()),
            (&["a".to_owned(), "b".to_owned()][..], 800, 8)
        );
        let delivered = |failed: &[usize], given_up: &[u64]| -> Vec<u64> {
            let failed = failed.iter().copied().collect();
            let records = sent.delivered(&failed, |(_, number)| given_up.contains(&number));
            records.into_iter().map(|(_, number)| number).collect()
        };
        assert_eq!(delivered(&[], &[]), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(delivered(&[1], &[]), [1, 2, 4, 5, 6, 7]);
        assert_eq!(delivered(&[1], &[0]), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(delivered(&[7, 2], &[6]), [0, 2, 3, 5, 7]);
        // Without a key there is no order.
        assert_eq!(delivered(&[7], &[]), [0, 1, 2, 3, 4, 5, 7]);
        assert_eq!(sent.topic_of(&sent.get(3).unwrap()), "b");
        sent.add((0, 8), 101, "a", None);
        let fits_now = |failed: &[usize], number| sent.fits_now(&failed.iter().copied().collect())(number);
        assert!(fits_now(&[1], 1) && fits_now(&[9], 1) && !fits_now(&[9], 9));
        // Of another topic nothing is known.
        assert!(!fits_now(&[3, 7, 8], 3));
        assert!(sent.get(0).is_none() && sent.get(10).is_none());
    }
}
