//! Messages as a NATS server gets them: subject, headers and payload.

use async_nats::{HeaderMap, Subject};
use bbq_format::Format;
use bbq_sink::{Encode, Texts};
use bbq_spool::Entry;
use bbq_wire::Peer;
use chrono::{DateTime, SecondsFormat};
use hyper::body::Bytes;

use super::subject::Template;

/// Bytes of headers that count towards the server's `max_payload` beside the message. It is more than the headers take, so that
/// whether a message is too large does not depend on the length of a number in them.
const HEADERS_BYTES_MAX: usize = 256;
/// The same with the headers about the origin of the message: the name of a listener has at most 512 bytes.
const ORIGIN_BYTES_MAX: usize = 1024;

/// A message that is to be published.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) subject: Subject,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
    /// The lane of the record, and its number there.
    pub(super) record: (u32, u64),
    /// When it was received, Unix nanoseconds.
    pub(super) received_ns: u64,
}

/// How messages are made.
#[derive(Clone, Debug)]
pub(super) struct Encoding {
    pub(super) template: Template,
    pub(super) format: Format,
    /// Whether a message has headers about its origin.
    pub(super) has_origin: bool,
}

impl Encoding {
    /// The largest payload of a server that takes `max_payload` bytes with headers.
    pub(super) fn payload_max(&self, max_payload: usize) -> usize {
        let headers = if self.has_origin { HEADERS_BYTES_MAX + ORIGIN_BYTES_MAX } else { HEADERS_BYTES_MAX };
        max_payload.saturating_sub(headers)
    }
}

impl Encode for &Encoding {
    type Message<'a> = Message;

    fn each<E>(
        &mut self,
        entry: &Entry<'_>,
        skip: usize,
        number: u64,
        mut each: impl FnMut(Message) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut texts = Texts::new(self.format);
        texts.make(entry);
        let origin = entry.origin();
        let time = self.has_origin.then(|| {
            let time = i64::try_from(origin.received_ns).unwrap_or(i64::MAX);
            DateTime::from_timestamp_nanos(time).to_rfc3339_opts(SecondsFormat::Nanos, true)
        });
        let stream = if self.has_origin { entry.batch.header.stream.to_string() } else { String::new() };
        let of_batch = (!self.template.is_per_message()).then(|| self.template.subject(entry, &[]));
        for (index, (sequence, record, peer)) in entry.numbered().enumerate().skip(skip) {
            let mut headers = HeaderMap::new();
            if let Some(time) = &time {
                headers.insert("Bbq-Listener", header_text(origin.listener));
                if let Peer::Inet(address) = peer {
                    headers.insert("Bbq-Peer", address.to_string());
                }
                headers.insert("Bbq-Time", time.as_str());
                headers.insert("Bbq-Stream", stream.as_str());
                headers.insert("Bbq-Sequence", sequence.to_string());
            }
            let subject = of_batch.clone().unwrap_or_else(|| self.template.subject(entry, record));
            let payload = Bytes::copy_from_slice(texts.get(index, record));
            each(Message {
                subject,
                headers,
                payload,
                record: (entry.lane, number + (index - skip) as u64),
                received_ns: origin.received_ns,
            })?;
        }
        Ok(())
    }
}

/// A text that may stand in a header.
fn header_text(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).collect()
}
