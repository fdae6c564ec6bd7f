//! Messages as a NATS server gets them: subject, headers and payload.

use std::io;

use async_nats::{HeaderMap, Subject};
use bbq_format::Format;
use bbq_format::names::{NameTemplate, Names};
use bbq_sink::{Encode, FORMAT_WORDS, Texts};
use bbq_spool::Entry;
use bbq_wire::Peer;
use chrono::{DateTime, SecondsFormat};
use hyper::body::Bytes;

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
    pub(super) template: NameTemplate,
    pub(super) format: Format,
    /// Whether a message has headers about its origin.
    pub(super) has_origin: bool,
}

impl Encoding {
    /// The largest payload of a server that takes `largest` bytes with headers. It must have room for `least` bytes.
    pub(super) fn payload_max(&self, largest: usize, least: usize) -> io::Result<usize> {
        let headers = if self.has_origin { HEADERS_BYTES_MAX + ORIGIN_BYTES_MAX } else { HEADERS_BYTES_MAX };
        let payload = largest.saturating_sub(headers);
        if payload < least {
            // Otherwise every message would be rejected.
            return Err(io::Error::other(format!(
                "the server takes messages of {largest} bytes with headers, and bbq needs {}; raise its max_payload, or the stream's \
                 max_msg_size",
                headers + least
            )));
        }
        Ok(payload)
    }

    /// The word of the format in a SPEC.
    pub(super) fn format_word(&self) -> &'static str {
        FORMAT_WORDS.iter().find(|(_, format)| *format == self.format).map_or("", |(word, _)| *word)
    }
}

/// Makes messages; has the memory for their subjects.
#[derive(Debug)]
pub(super) struct Encoder {
    encoding: Encoding,
    names: Names,
    /// The last subject: messages with the same one share its memory.
    subject: Subject,
}

impl Encoder {
    /// For the sink of this name.
    pub(super) fn new(encoding: Encoding, sink: &str) -> Encoder {
        let names = Names::new(encoding.template.clone(), sink);
        Encoder { subject: encoding.template.fallback().into(), names, encoding }
    }
}

impl Encode for Encoder {
    type Message<'a> = Message;

    fn each<E>(
        &mut self,
        entry: &Entry<'_>,
        skip: usize,
        number: u64,
        mut each: impl FnMut(Message) -> Result<(), E>,
    ) -> Result<(), E> {
        let Encoder { encoding: Encoding { format, has_origin, .. }, names, subject } = self;
        let mut texts = Texts::new(*format);
        texts.make(entry);
        names.begin(entry);
        let origin = entry.origin();
        let time = has_origin.then(|| {
            let time = i64::try_from(origin.received_ns).unwrap_or(i64::MAX);
            DateTime::from_timestamp_nanos(time).to_rfc3339_opts(SecondsFormat::Nanos, true)
        });
        let stream = if *has_origin { entry.batch.header.stream.to_string() } else { String::new() };
        let mut own_fields = entry.batch.record_fields();
        for (index, (sequence, record, peer)) in entry.numbered().enumerate() {
            let own = own_fields.next();
            if index < skip {
                continue;
            }
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
            let name = names.name(record, own.as_ref());
            if subject.as_str() != name {
                *subject = name.into();
            }
            let payload = Bytes::copy_from_slice(texts.get(index, record));
            each(Message {
                subject: subject.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject;

    #[test]
    fn a_server_without_room_for_a_message_is_told() {
        let template = subject::parse("logs").unwrap();
        let mut encoding = Encoding { template, format: Format::Json, has_origin: false };
        assert_eq!(encoding.payload_max(1000, 1).unwrap(), 744);
        assert_eq!(encoding.payload_max(257, 1).unwrap(), 1);
        let error = encoding.payload_max(256, 1).unwrap_err().to_string();
        assert!(error.contains("256 bytes") && error.contains("needs 257; raise its max_payload"), "{error}");
        encoding.has_origin = true;
        encoding.payload_max(1000, 1).unwrap_err();
        assert_eq!(encoding.format_word(), "json");
    }
}
