//! What a message says: records of a tag in one of four modes, a PING, or nothing.
//!
//! ```text
//! [tag, time, record, option?]                  Message
//! [tag, [[time, record], ...], option?]         Forward
//! [tag, bytes of [time, record]..., option?]    PackedForward; CompressedPackedForward with option.compressed
//! ["PING", ...]                                 of the handshake
//! nil                                           to see whether the connection is alive
//! ```

use super::chunk::Chunk;
use super::entries::{Entries, Source};
use super::error::NotForward;
use super::find::Found;
use super::handshake::Ping;
use super::msgpack::{Head, Reader};

/// The longest tag: it is a field of every record.
const TAG_BYTES_MAX: usize = bbq_wire::limits::FIELD_VALUE_BYTES_MAX;

/// A message.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// It has no records.
    Empty,
    /// The answer of a client to a HELO.
    Ping(Ping<'a>),
    /// Records.
    Records(Records<'a>),
}

/// The records of a message.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    /// What they are about.
    pub tag: &'a str,
    /// The name of the message, if the client waits for an answer.
    pub chunk: Option<Chunk<'a>>,
    payload: Payload<'a>,
}

/// Where the entries are.
#[derive(Clone, Copy, Debug)]
enum Payload<'a> {
    Entries(Source<'a>),
    Packed(&'a [u8], Option<Compression>),
}

/// How entries are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// One member or several, one after another.
    Gzip,
    /// One frame or several.
    Zstd,
}

impl<'a> Message<'a> {
    /// Reads a message that was found at the front of `held`.
    ///
    /// # Errors
    /// It is not as the protocol says.
    pub fn read(held: &'a [u8], found: Found) -> Result<Message<'a>, NotForward> {
        let bytes = held.get(..found.bytes).unwrap_or_default();
        let mut reader = Reader::new(bytes);
        let Head::Array(elements) = reader.head()? else { return Ok(Message::Empty) };
        let tag = reader.text("its first element is no tag")?;
        if elements == 6 && tag == b"PING" {
            return Ping::read(&mut reader).map(Message::Ping);
        }
        let tag = std::str::from_utf8(tag).map_err(|_| NotForward::Malformed("its tag is not UTF-8"))?;
        if tag.len() > TAG_BYTES_MAX {
            return Err(NotForward::Malformed("its tag is too long"));
        }
        let place = bytes.len() - reader.rest.len();
        let (payload, is_message) = match reader.head()? {
            Head::Array(entries) => {
                let end = if elements > 2 { found.last } else { bytes.len() };
                let from = bytes.len() - reader.rest.len();
                (Payload::Entries(Source::Listed(bytes.get(from..end).unwrap_or_default(), entries)), false)
            }
            Head::Text(length) | Head::Binary(length) => (Payload::Packed(reader.take(length)?, None), false),
            _ => (Payload::Entries(Source::One(bytes.get(place..).unwrap_or_default())), true),
        };
        if elements < 2 + u32::from(is_message) || elements > 3 + u32::from(is_message) {
            return Err(NotForward::Malformed("its number of elements"));
        }
        let mut records = Records { tag, chunk: None, payload };
        if elements == 3 + u32::from(is_message) {
            records.read_option(bytes.get(found.last..).unwrap_or_default())?;
        }
        Ok(Message::Records(records))
    }
}

impl<'a> Records<'a> {
    /// How the entries are compressed, and their bytes; `None` if they are not.
    #[must_use]
    pub fn compressed(&self) -> Option<(Compression, &'a [u8])> {
        match self.payload {
            Payload::Packed(bytes, Some(compression)) => Some((compression, bytes)),
            _ => None,
        }
    }

    /// The entries. If they are compressed, `decoded` is what they were before.
    #[must_use]
    pub fn entries<'b>(&self, decoded: &'b [u8]) -> Entries<'b>
    where
        'a: 'b,
    {
        Entries::new(match self.payload {
            Payload::Entries(source) => source,
            Payload::Packed(bytes, None) => Source::Packed(bytes),
            Payload::Packed(_, Some(_)) => Source::Packed(decoded),
        })
    }

    /// Reads the option: a map, or nil.
    fn read_option(&mut self, option: &'a [u8]) -> Result<(), NotForward> {
        let mut reader = Reader::new(option);
        let pairs = match reader.head()? {
            Head::Map(pairs) => pairs,
            Head::Nil => return Ok(()),
            _ => return Err(NotForward::Malformed("its option is no map")),
        };
        for _ in 0..pairs {
            let (mut key, mut value) = (Reader::new(reader.value()?), Reader::new(reader.value()?));
            match key.text("").unwrap_or_default() {
                b"chunk" => self.chunk = Chunk::of(value.rest)?,
                b"compressed" => {
                    let compression = match value.text("option.compressed is no text")? {
                        b"gzip" => Some(Compression::Gzip),
                        b"zstd" => Some(Compression::Zstd),
                        b"text" | b"" => None,
                        _ => return Err(NotForward::Compression),
                    };
                    if let Payload::Packed(_, packed) = &mut self.payload {
                        *packed = compression;
                    }
                }
                // `size`, and what a later version adds.
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::find::Finder;
    use super::super::testing::{Value, map, packed};
    use super::*;

    fn read(bytes: &[u8]) -> Result<Message<'_>, NotForward> {
        let found = Finder::new(1 << 20).find(bytes).unwrap().unwrap();
        assert_eq!(found.bytes, bytes.len());
        Message::read(bytes, found)
    }

    fn records(bytes: &[u8]) -> Records<'_> {
        let Ok(Message::Records(records)) = read(bytes) else { panic!("no records: {bytes:02x?}") };
        records
    }

    fn record(text: &str) -> Value {
        map([("log", Value::text(text))])
    }

    /// The messages of all entries, with their times.
    fn messages(bytes: &[u8], decoded: &[u8]) -> Vec<(String, u64)> {
        let records = records(bytes);
        let part = records.entries(decoded).part("t", super::super::testing_limits()).unwrap().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        part.events.iter().map(|event| (text(event.message), event.time_ns)).collect()
    }

    #[test]
    fn the_four_modes_have_the_same_entries() {
        let entry = |number: u32| Value::Array(vec![Value::time(number, 5), record(&number.to_string())]);
        let option = map([("chunk", Value::text("c")), ("size", Value::Int(2)), ("later", Value::Nil)]);
        let expected = [("1".to_owned(), 1_000_000_005), ("2".to_owned(), 2_000_000_005)];
        let forward = vec![Value::text("t"), Value::Array(vec![entry(1), entry(2)])];
        let stream = [packed(&entry(1)), packed(&entry(2))].concat();
        let packed_forward = vec![Value::text("t"), Value::Binary(stream.clone())];
        for mode in [forward, packed_forward.clone()] {
            assert_eq!(messages(&packed(&Value::Array(mode.clone())), &[]), expected);
            let bytes = packed(&Value::Array([mode, vec![option.clone()]].concat()));
            assert_eq!(messages(&bytes, &[]), expected);
            assert_eq!(records(&bytes).chunk.unwrap().answer(), b"\x81\xa3ack\xa1c");
        }
        let message = vec![Value::text("t"), Value::time(1, 5), record("1")];
        assert_eq!(messages(&packed(&Value::Array(message.clone())), &[]), expected[..1]);
        let bytes = packed(&Value::Array([message, vec![option]].concat()));
        assert_eq!(messages(&bytes, &[]), expected[..1]);
        assert!(records(&bytes).chunk.is_some());
        for (word, compression) in
            [("gzip", Some(Compression::Gzip)), ("zstd", Some(Compression::Zstd)), ("text", None)]
        {
            let option = map([("compressed", Value::text(word))]);
            let bytes = packed(&Value::Array([packed_forward.clone(), vec![option]].concat()));
            let records = records(&bytes);
            assert_eq!(records.compressed(), compression.map(|compression| (compression, &stream[..])));
            assert_eq!(messages(&bytes, &stream), expected);
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let (tag, entries) = (Value::text("t"), Value::Array(vec![]));
        for (message, says) in [
            (vec![Value::Int(1), entries.clone()], "no tag"),
            (vec![Value::Binary(vec![0xff]), entries.clone()], "not UTF-8"),
            (vec![Value::text(&"t".repeat(TAG_BYTES_MAX + 1)), entries.clone()], "too long"),
            (vec![tag.clone(), Value::Int(1)], "number of elements"),
            (vec![tag.clone(), entries.clone(), Value::Nil, Value::Nil], "number of elements"),
            (vec![tag.clone(), Value::Int(1), Value::Nil, Value::Nil, Value::Nil], "number of elements"),
            (vec![tag.clone(), entries.clone(), Value::Int(1)], "no map"),
            (vec![tag.clone(), entries.clone(), map([("compressed", Value::text("lz4"))])], "gzip, zstd"),
            (vec![tag.clone(), entries.clone(), map([("compressed", Value::Int(1))])], "no text"),
            (vec![tag.clone(), entries, map([("chunk", Value::text(&"c".repeat(2000)))])], "chunk"),
        ] {
            let error = read(&packed(&Value::Array(message.clone()))).unwrap_err().to_string();
            assert!(error.contains(says), "{message:?}: {error}");
        }
        assert!(matches!(read(&[0xc0]), Ok(Message::Empty)));
    }
}
