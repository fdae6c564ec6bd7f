//! The name that a client gives a message to know it again: in the answer, and when it sends the message another time.

use bbq_wire::StreamId;
use ring::digest::{Context, SHA256};

use super::error::NotForward;
use super::msgpack::{Head, Reader};

/// What stands in front of what is digested: the stream of a chunk is that of no other protocol. Another word would make every chunk
/// that is sent again a new one.
const DOMAIN: &[u8] = b"bbq fluent chunk 1\n";
/// The longest chunk id: those of Fluentd have 24 bytes, those of Fluent Bit 32.
const CHUNK_BYTES_MAX: usize = 1024;

/// A chunk id.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The value as it came: text or bytes.
    packed: &'a [u8],
    id: &'a [u8],
}

impl<'a> Chunk<'a> {
    /// Of a value; `None` for nil.
    pub(super) fn of(packed: &'a [u8]) -> Result<Option<Chunk<'a>>, NotForward> {
        let mut reader = Reader::new(packed);
        let id = match reader.head()? {
            Head::Text(bytes) | Head::Binary(bytes) => reader.take(bytes)?,
            Head::Nil => return Ok(None),
            _ => return Err(NotForward::Malformed("its chunk is no text")),
        };
        if id.len() > CHUNK_BYTES_MAX {
            return Err(NotForward::Malformed("its chunk is too long"));
        }
        Ok(Some(Chunk { packed, id }))
    }

    /// The stream of its records, which are numbered from 1. The same chunk of another tag is another stream.
    #[must_use]
    pub fn stream(&self, tag: &str) -> StreamId {
        let mut digest = Context::new(&SHA256);
        digest.update(DOMAIN);
        digest.update(&(self.id.len() as u64).to_le_bytes());
        digest.update(self.id);
        digest.update(tag.as_bytes());
        let mut stream = [0; 16];
        stream.copy_from_slice(&digest.finish().as_ref()[..16]);
        StreamId(stream)
    }

    /// The answer that acknowledges the message: `{"ack": chunk}`.
    #[must_use]
    pub fn answer(&self) -> Vec<u8> {
        [b"\x81\xa3ack", self.packed].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_that_of_a_chunk_and_its_tag() {
        let chunk = |packed: &'static [u8]| Chunk::of(packed).unwrap().unwrap();
        let (text, bytes) = (chunk(b"\xa2ab"), chunk(b"\xc4\x02ab"));
        assert_eq!(text.stream("t"), bytes.stream("t"));
        assert_ne!(text.stream("t"), text.stream("u"));
        assert_ne!(text.stream("bc"), chunk(b"\xa3abb").stream("c"));
        // What a server has stored, its successor knows.
        assert_eq!(text.stream("t").to_string(), "34d1dc2ac0299ce097f9c84ef4f83e52");
        assert_eq!(bytes.answer(), b"\x81\xa3ack\xc4\x02ab");
    }
}
