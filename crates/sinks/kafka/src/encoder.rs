//! Makes messages of Kafka out of records: key, headers and value.

use std::fmt::Write as _;

use bbq_format::names::Names;
use bbq_sink::{Encode, Texts};
use bbq_spool::Entry;
use bbq_wire::Peer;
use chrono::{DateTime, SecondsFormat};
use rdkafka::message::{Header, OwnedHeaders};

use super::settings::{KafkaSettings, Key};

/// What a message takes in a batch beside key, value and headers: the header of a batch of its own (61 bytes), and the lengths and
/// differences of a record (at most 40).
const RECORD_BYTES: usize = 101;
/// The bytes of the headers about the origin of a message, but for the name of the listener.
const ORIGIN_BYTES: usize = 300;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// A message that is to be sent.
pub(super) struct Message<'a> {
    /// The lane of the record, and its number there.
    pub(super) record: (u32, u64),
    /// The topic of its name, unless that is missing.
    pub(super) topic: &'a str,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: &'a [u8],
    pub(super) headers: Option<OwnedHeaders>,
    /// When it was received, Unix milliseconds.
    pub(super) time_ms: i64,
    /// The bytes of a batch of which it is the only message, not compressed; a few more in most cases.
    pub(super) bytes: usize,
}

/// Makes messages; has the memory for it.
pub(super) struct Encoder {
    key: KeyOf,
    has_origin: bool,
    texts: Texts,
    topics: Names,
}

/// What the key of a message is.
enum KeyOf {
    Stream,
    Listener,
    Peer,
    Fields(Box<Names>),
    None,
}

/// What all messages of a batch share.
struct OfBatch<'a> {
    stream: String,
    listener: &'a str,
    time: String,
    time_ms: i64,
}

impl Encoder {
    pub(super) fn new(settings: &KafkaSettings) -> Encoder {
        let KafkaSettings { name, template, key, format, has_origin, .. } = settings;
        let key = match key {
            Key::Stream => KeyOf::Stream,
            Key::Listener => KeyOf::Listener,
            Key::Peer => KeyOf::Peer,
            Key::Template(template) => KeyOf::Fields(Box::new(Names::new(template.clone(), name))),
            Key::None => KeyOf::None,
        };
        let topics = Names::new(template.clone(), name);
        Encoder { key, has_origin: *has_origin, texts: Texts::new(*format), topics }
    }
}

impl Encode for Encoder {
    type Message<'a> = Message<'a>;

    fn each<E>(
        &mut self,
        entry: &Entry<'_>,
        skip: usize,
        number: u64,
        mut each: impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.texts.make(entry);
        let Encoder { key, has_origin, texts, topics } = self;
        let has_origin = *has_origin;
        topics.begin(entry);
        if let KeyOf::Fields(keys) = key {
            keys.begin(entry);
        }
        let of_batch = OfBatch::of(entry, has_origin || matches!(key, KeyOf::Stream), has_origin);
        let mut peers = (has_origin || matches!(key, KeyOf::Peer)).then(|| entry.peers());
        let mut own_fields = entry.batch.record_fields();
        let mut peer_text = String::new();
        let sequences = entry.batch.header.first_sequence..;
        for (index, (record, sequence)) in entry.batch.records().zip(sequences).enumerate() {
            let peer = peers.as_mut().and_then(Iterator::next);
            let own = own_fields.next();
            if index < skip {
                continue;
            }
            peer_text.clear();
            if let Some(Peer::Inet(address)) = peer {
                // Writing to a String cannot fail.
                let _infallible = write!(peer_text, "{address}");
            }
            let value = texts.get(index, record);
            let key = match key {
                KeyOf::Stream => Some(of_batch.stream.as_bytes()),
                KeyOf::Listener => Some(of_batch.listener.as_bytes()),
                KeyOf::Peer => Some(peer_text.as_bytes()).filter(|key| !key.is_empty()),
                KeyOf::Fields(keys) => Some(keys.name(record, own.as_ref()).as_bytes()),
                KeyOf::None => None,
            };
            let headers = has_origin.then(|| of_batch.headers(&peer_text, sequence));
            let headers_bytes = if has_origin { ORIGIN_BYTES + of_batch.listener.len() } else { 0 };
            each(Message {
                record: (entry.lane, number + (index - skip) as u64),
                topic: topics.name(record, own.as_ref()),
                key,
                value,
                headers,
                time_ms: of_batch.time_ms,
                bytes: RECORD_BYTES + key.map_or(0, <[u8]>::len) + value.len() + headers_bytes,
            })?;
        }
        Ok(())
    }
}

impl OfBatch<'_> {
    fn of<'a>(entry: &'a Entry<'_>, has_stream: bool, has_time: bool) -> OfBatch<'a> {
        let origin = entry.origin();
        let nanos = i64::try_from(origin.received_ns).unwrap_or(i64::MAX);
        let time = has_time
            .then(|| DateTime::from_timestamp_nanos(nanos).to_rfc3339_opts(SecondsFormat::Nanos, true));
        OfBatch {
            stream: if has_stream { entry.batch.header.stream.to_string() } else { String::new() },
            listener: origin.listener,
            time: time.unwrap_or_default(),
            time_ms: i64::try_from(origin.received_ns / NANOS_PER_MILLI).unwrap_or(i64::MAX),
        }
    }

    fn headers(&self, peer: &str, sequence: u64) -> OwnedHeaders {
        let sequence = sequence.to_string();
        let mut headers = OwnedHeaders::new_with_capacity(5);
        let fields = [
            ("Bbq-Listener", self.listener),
            ("Bbq-Peer", peer),
            ("Bbq-Time", &self.time),
            ("Bbq-Stream", &self.stream),
            ("Bbq-Sequence", &sequence),
        ];
        for (key, value) in fields {
            if !value.is_empty() {
                headers = headers.insert(Header { key, value: Some(value) });
            }
        }
        headers
    }
}
