//! The name that a client gives a message to know it again: in the answer, and when it sends the message another time.

use super::error::NotForward;
use super::msgpack::{Head, Reader};

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

    /// The id as its client made it, whether it came as text or as bytes.
    #[must_use]
    pub fn id(&self) -> &'a [u8] {
        self.id
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
    fn an_id_is_the_same_as_text_and_as_bytes() {
        let chunk = |packed: &'static [u8]| Chunk::of(packed).unwrap().unwrap();
        let (text, bytes) = (chunk(b"\xa2ab"), chunk(b"\xc4\x02ab"));
        assert_eq!((text.id(), bytes.id()), (&b"ab"[..], &b"ab"[..]));
        assert_eq!(bytes.answer(), b"\x81\xa3ack\xc4\x02ab");
    }
}
