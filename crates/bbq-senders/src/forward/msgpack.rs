//! MessagePack in a buffer (<https://github.com/msgpack/msgpack/blob/master/spec.md>): heads of values, and where values end.
//!
//! Not here: what values mean (`message`, `record`).
//!
//! Invariant: nothing is allocated, and no length is believed before its bytes are there.
//! Invariant: values are walked without recursion, so nesting costs no stack.

use super::error::NotForward;

/// The first bytes of a value: its type, and its content or length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Head {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    F32(f32),
    F64(f64),
    /// How many bytes follow.
    Text(u32),
    /// How many bytes follow.
    Binary(u32),
    /// How many values follow.
    Array(u32),
    /// How many pairs of values follow.
    Map(u32),
    /// Its type, and how many bytes follow.
    Ext(i8, u32),
}

impl Head {
    /// Reads the head at the front of `bytes`, and how many bytes it takes; `None` if bytes are missing.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<(Head, usize)>, NotForward> {
        let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
        let head = match first {
            0x00..=0x7f => Some((Head::Unsigned(first.into()), 1)),
            0x80..=0x8f => Some((Head::Map((first & 0x0f).into()), 1)),
            0x90..=0x9f => Some((Head::Array((first & 0x0f).into()), 1)),
            0xa0..=0xbf => Some((Head::Text((first & 0x1f).into()), 1)),
            0xc0 => Some((Head::Nil, 1)),
            0xc1 => return Err(NotForward::Malformed("a byte that MessagePack does not use")),
            0xc2 | 0xc3 => Some((Head::Bool(first == 0xc3), 1)),
            0xc4 => u8_of(rest).map(|bytes| (Head::Binary(bytes), 2)),
            0xc5 => u16_of(rest).map(|bytes| (Head::Binary(bytes), 3)),
            0xc6 => u32_of(rest).map(|bytes| (Head::Binary(bytes), 5)),
            0xc7 => u8_of(rest).zip(kind_of(rest, 1)).map(|(bytes, kind)| (Head::Ext(kind, bytes), 3)),
            0xc8 => u16_of(rest).zip(kind_of(rest, 2)).map(|(bytes, kind)| (Head::Ext(kind, bytes), 4)),
            0xc9 => u32_of(rest).zip(kind_of(rest, 4)).map(|(bytes, kind)| (Head::Ext(kind, bytes), 6)),
            0xca..=0xd3 => return Ok(number(first, rest)),
            0xd4..=0xd8 => kind_of(rest, 0).map(|kind| (Head::Ext(kind, 1 << (first - 0xd4)), 2)),
            0xd9 => u8_of(rest).map(|bytes| (Head::Text(bytes), 2)),
            0xda => u16_of(rest).map(|bytes| (Head::Text(bytes), 3)),
            0xdb => u32_of(rest).map(|bytes| (Head::Text(bytes), 5)),
            0xdc => u16_of(rest).map(|values| (Head::Array(values), 3)),
            0xdd => u32_of(rest).map(|values| (Head::Array(values), 5)),
            0xde => u16_of(rest).map(|pairs| (Head::Map(pairs), 3)),
            0xdf => u32_of(rest).map(|pairs| (Head::Map(pairs), 5)),
            0xe0..=0xff => Some((Head::Negative(i64::from(first as i8)), 1)),
        };
        Ok(head)
    }

    /// How many bytes of content follow, and how many values.
    fn content(self) -> (u32, u64) {
        match self {
            Head::Text(bytes) | Head::Binary(bytes) | Head::Ext(_, bytes) => (bytes, 0),
            Head::Array(values) => (0, values.into()),
            Head::Map(pairs) => (0, 2 * u64::from(pairs)),
            _ => (0, 0),
        }
    }
}

/// A number of several bytes.
fn number(first: u8, rest: &[u8]) -> Option<(Head, usize)> {
    let signed = |value: i64| u64::try_from(value).map_or(Head::Negative(value), Head::Unsigned);
    Some(match first {
        0xca => (Head::F32(f32::from_be_bytes(*rest.first_chunk()?)), 5),
        0xcb => (Head::F64(f64::from_be_bytes(*rest.first_chunk()?)), 9),
        0xcc => (Head::Unsigned(u8_of(rest)?.into()), 2),
        0xcd => (Head::Unsigned(u16_of(rest)?.into()), 3),
        0xce => (Head::Unsigned(u32_of(rest)?.into()), 5),
        0xcf => (Head::Unsigned(u64::from_be_bytes(*rest.first_chunk()?)), 9),
        0xd0 => (signed(i8::from_be_bytes(*rest.first_chunk()?).into()), 2),
        0xd1 => (signed(i16::from_be_bytes(*rest.first_chunk()?).into()), 3),
        0xd2 => (signed(i32::from_be_bytes(*rest.first_chunk()?).into()), 5),
        _ => (signed(i64::from_be_bytes(*rest.first_chunk()?)), 9),
    })
}

fn u8_of(rest: &[u8]) -> Option<u32> {
    rest.first().map(|byte| (*byte).into())
}

fn u16_of(rest: &[u8]) -> Option<u32> {
    rest.first_chunk().map(|bytes| u16::from_be_bytes(*bytes).into())
}

fn u32_of(rest: &[u8]) -> Option<u32> {
    rest.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn kind_of(rest: &[u8], at: usize) -> Option<i8> {
    rest.get(at).map(|byte| *byte as i8)
}

/// Finds where a value ends while its bytes come in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// The place of the next head, also if its bytes are not there yet.
    pub(super) at: usize,
    /// How many values are still to come: the heads of containers add what is in them.
    pub(super) pending: u64,
}

impl Walk {
    /// From the front of a buffer on.
    pub(super) fn new() -> Walk {
        Walk { at: 0, pending: 1 }
    }

    pub(super) fn is_done(self) -> bool {
        self.pending == 0
    }

    /// Goes behind the next head and its content. `None` if the bytes of the head are missing; those of the content may be, too.
    pub(super) fn step(&mut self, bytes: &[u8]) -> Result<Option<Head>, NotForward> {
        let Some((head, head_bytes)) = Head::read(bytes.get(self.at..).unwrap_or_default())? else {
            return Ok(None);
        };
        let (content, values) = head.content();
        // A u32 more, and at most 2^33 values for each byte that has come: neither overflows.
        self.at += head_bytes + content as usize;
        self.pending = self.pending - 1 + values;
        Ok(Some(head))
    }
}

/// Reads values that are there as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Reader<'a> {
        Reader { rest }
    }

    /// Takes the head of the next value.
    pub(super) fn head(&mut self) -> Result<Head, NotForward> {
        let (head, bytes) = Head::read(self.rest)?.ok_or(ENDS)?;
        self.rest = &self.rest[bytes..];
        Ok(head)
    }

    /// Takes the content of a text, of bytes or of an extension.
    pub(super) fn take(&mut self, bytes: u32) -> Result<&'a [u8], NotForward> {
        let (taken, rest) = self.rest.split_at_checked(bytes as usize).ok_or(ENDS)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Takes a text or bytes.
    pub(super) fn text(&mut self, what: &'static str) -> Result<&'a [u8], NotForward> {
        match self.head()? {
            Head::Text(bytes) | Head::Binary(bytes) => self.take(bytes),
            _ => Err(NotForward::Malformed(what)),
        }
    }

    /// Takes the next value as a whole.
    pub(super) fn value(&mut self) -> Result<&'a [u8], NotForward> {
        let mut walk = Walk::new();
        while !walk.is_done() {
            walk.step(self.rest)?.ok_or(ENDS)?;
        }
        let (value, rest) = self.rest.split_at_checked(walk.at).ok_or(ENDS)?;
        self.rest = rest;
        Ok(value)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Less is there than a length says.
const ENDS: NotForward = NotForward::Malformed("a value that ends too early");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_head() {
        for (bytes, head, taken) in [
            (&[0x7f][..], Head::Unsigned(127), 1),
            (&[0x82], Head::Map(2), 1),
            (&[0x93], Head::Array(3), 1),
            (&[0xa5], Head::Text(5), 1),
            (&[0xc0], Head::Nil, 1),
            (&[0xc2], Head::Bool(false), 1),
            (&[0xc3], Head::Bool(true), 1),
            (&[0xc4, 9], Head::Binary(9), 2),
            (&[0xc5, 1, 0], Head::Binary(256), 3),
            (&[0xc6, 0, 1, 0, 0], Head::Binary(65_536), 5),
            (&[0xc7, 8, 0], Head::Ext(0, 8), 3),
            (&[0xc8, 1, 0, 0xff], Head::Ext(-1, 256), 4),
            (&[0xc9, 0, 1, 0, 0, 5], Head::Ext(5, 65_536), 6),
            (&[0xca, 0x3f, 0x80, 0, 0], Head::F32(1.0), 5),
            (&[0xcb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0], Head::F64(1.0), 9),
            (&[0xcc, 200], Head::Unsigned(200), 2),
            (&[0xcd, 1, 0], Head::Unsigned(256), 3),
            (&[0xce, 0, 1, 0, 0], Head::Unsigned(65_536), 5),
            (&[0xcf, 255, 255, 255, 255, 255, 255, 255, 255], Head::Unsigned(u64::MAX), 9),
            (&[0xd0, 0x80], Head::Negative(-128), 2),
            (&[0xd1, 0x80, 0], Head::Negative(-32_768), 3),
            (&[0xd2, 0, 0, 0, 7], Head::Unsigned(7), 5),
            (&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0], Head::Negative(i64::MIN), 9),
            (&[0xd4, 1], Head::Ext(1, 1), 2),
            (&[0xd7, 0], Head::Ext(0, 8), 2),
            (&[0xd8, 0], Head::Ext(0, 16), 2),
            (&[0xd9, 32], Head::Text(32), 2),
            (&[0xda, 1, 0], Head::Text(256), 3),
            (&[0xdb, 0, 1, 0, 0], Head::Text(65_536), 5),
            (&[0xdc, 1, 0], Head::Array(256), 3),
            (&[0xdd, 0, 1, 0, 0], Head::Array(65_536), 5),
            (&[0xde, 1, 0], Head::Map(256), 3),
            (&[0xdf, 0, 1, 0, 0], Head::Map(65_536), 5),
            (&[0xe0], Head::Negative(-32), 1),
            (&[0xff], Head::Negative(-1), 1),
        ] {
            assert_eq!(Head::read(bytes).unwrap(), Some((head, taken)), "{bytes:02x?}");
            for cut in 0..bytes.len() {
                assert_eq!(Head::read(&bytes[..cut]).unwrap(), None, "{bytes:02x?} cut at {cut}");
            }
        }
        assert!(Head::read(&[0xc1]).is_err());
    }

    #[test]
    fn a_value_is_taken_as_a_whole_or_not_at_all() {
        // {"a": [1, {}], "b": "xy"}, and more behind it.
        let bytes = [0x82, 0xa1, b'a', 0x92, 1, 0x80, 0xa1, b'b', 0xa2, b'x', b'y', 0xc0];
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.value().unwrap(), &bytes[..11]);
        assert_eq!(reader.rest, [0xc0]);
        for cut in 0..11 {
            assert!(Reader::new(&bytes[..cut]).value().is_err(), "{cut}");
        }
    }
}
