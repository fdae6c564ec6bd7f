//! The name that a client gives a message to know it again: in the answer, and when it sends the message another time.

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

use super::error::NotForward;
use super::msgpack::{Head, Reader};

/// What stands in front of what is digested: the digest of a chunk is that of no other protocol. Another word would make every chunk
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

    /// What tells its records from those of other chunks. The same chunk of another tag is another one, and so is one that came `from`
    /// somebody else: some clients make the id of the content.
    #[must_use]
    pub fn digest(&self, from: &str, tag: &str) -> [u8; SHA256_OUTPUT_LEN] {
        let mut digest = Context::new(&SHA256);
        digest.update(DOMAIN);
        for part in [self.id, from.as_bytes(), tag.as_bytes()] {
            digest.update(&(part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(digest.finish().as_ref());
        bytes
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
    fn a_digest_is_that_of_a_chunk_and_its_tag() {
        let chunk = |packed: &'static [u8]| Chunk::of(packed).unwrap().unwrap();
        let (text, bytes) = (chunk(b"\xa2ab"), chunk(b"\xc4\x02ab"));
        assert_eq!(text.digest("f", "t"), bytes.digest("f", "t"));
        assert_ne!(text.digest("f", "t"), text.digest("f", "u"));
        assert_ne!(text.digest("f", "bc"), chunk(b"\xa3abb").digest("f", "c"));
        assert_ne!(text.digest("f", "t"), text.digest("g", "t"));
        // What a server has stored, its successor knows.
        assert_eq!(text.digest("f", "t")[..4], [0xe0, 0x27, 0x3c, 0x15]);
        assert_eq!(bytes.answer(), b"\x81\xa3ack\xc4\x02ab");
    }
}
