//! The fields of a message in the encoding of Protocol Buffers, without knowledge of what they mean.

/// Bytes of the longest encoding of a `u64`.
const VARINT_BYTES_MAX: usize = 10;
/// The wire type at the end of a group.
const END_OF_GROUP: u32 = 4;
/// Those of a tag and of a length.
const SHORT_VARINT_BYTES_MAX: usize = 5;
/// How deep messages and groups nest in the outermost one: what decoders take by default (C++, Java, Rust and Python; Go more).
pub const NESTING_MAX: u32 = 100;

/// Why the bytes are no message of Protocol Buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They are cut short, or something else.
    #[error("malformed Protocol Buffers")]
    Bytes,
    /// A decoder would not follow.
    #[error("its values are nested more than {NESTING_MAX} messages deep")]
    TooDeep,
    /// Some decoders cut it to 64 bits, and others refuse it.
    #[error("it has a number of more than 64 bits")]
    NumberTooLong,
}

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number; >= 1.
    pub number: u32,
    /// Its value.
    pub value: FieldValue<'a>,
    /// Number and value as they came.
    pub bytes: &'a [u8],
}

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// 0.
    Varint(u64),
    /// 1.
    Fixed64(u64),
    /// 2: a text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
    /// 5.
    Fixed32(u32),
    /// 3: fields up to an end (4). No message of proto3 has one, so decoders skip them.
    Group,
}

/// The fields of a message. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    /// How deep the message is.
    depth: u32,
}

/// Reads the fields of a message.
#[must_use]
pub fn fields(message: &[u8]) -> Fields<'_> {
    fields_within(message, 0)
}

/// The same of a message that is so many messages deep in another one.
pub(super) fn fields_within(message: &[u8], depth: u32) -> Fields<'_> {
    Fields { rest: message, depth }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    #[expect(
        clippy::inline_always,
        reason = "fields that are returned in memory are much of what a log record costs"
    )]
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = take(&mut self.rest, self.depth);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[expect(clippy::inline_always, reason = "as Fields::next")]
#[inline(always)]
fn take<'a>(input: &mut &'a [u8], depth: u32) -> Result<Field<'a>, Malformed> {
    let from = *input;
    let (number, wire_type) = tag(input)?;
    let value = match wire_type {
        0 => FieldValue::Varint(varint(input)?),
        1 => {
            let (value, rest) = input.split_first_chunk().ok_or(Malformed::Bytes)?;
            *input = rest;
            FieldValue::Fixed64(u64::from_le_bytes(*value))
        }
        2 => {
            let length = short_varint(input)? as usize;
            let (value, rest) = input.split_at_checked(length).ok_or(Malformed::Bytes)?;
            *input = rest;
            FieldValue::Bytes(value)
        }
        3 => {
            skip_group(input, number, depth)?;
            FieldValue::Group
        }
        5 => {
            let (value, rest) = input.split_first_chunk().ok_or(Malformed::Bytes)?;
            *input = rest;
            FieldValue::Fixed32(u32::from_le_bytes(*value))
        }
        _ => return Err(Malformed::Bytes),
    };
    Ok(Field { number, value, bytes: &from[..from.len() - input.len()] })
}

/// Reads the number of a field and its wire type.
#[inline]
fn tag(input: &mut &[u8]) -> Result<(u32, u32), Malformed> {
    let tag = short_varint(input)?;
    if tag < 8 { Err(Malformed::Bytes) } else { Ok((tag >> 3, tag & 7)) }
}

/// Skips the fields of a group, and its end. The group is in a message of this depth.
#[cold]
fn skip_group(input: &mut &[u8], number: u32, depth: u32) -> Result<(), Malformed> {
    if depth == NESTING_MAX {
        return Err(Malformed::TooDeep);
    }
    loop {
        let mut behind = *input;
        let (inner, wire_type) = tag(&mut behind)?;
        if wire_type == END_OF_GROUP {
            *input = behind;
            return if inner == number { Ok(()) } else { Err(Malformed::Bytes) };
        }
        take(input, depth + 1)?;
    }
}

/// Reads a tag or a length.
#[inline]
fn short_varint(input: &mut &[u8]) -> Result<u32, Malformed> {
    match **input {
        // Nearly all tags, and the lengths of what is short.
        [byte, ref rest @ ..] if byte < 0x80 => {
            *input = rest;
            Ok(u32::from(byte))
        }
        // The lengths of log records.
        [low, high, ref rest @ ..] if high < 0x80 => {
            *input = rest;
            Ok(u32::from(low & 0x7f) | u32::from(high) << 7)
        }
        _ => longer_short_varint(input),
    }
}

#[cold]
fn longer_short_varint(input: &mut &[u8]) -> Result<u32, Malformed> {
    let bytes = *input;
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(SHORT_VARINT_BYTES_MAX) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            *input = &bytes[index + 1..];
            return u32::try_from(value).map_err(|_| Malformed::Bytes);
        }
    }
    Err(Malformed::Bytes)
}

#[inline]
fn varint(input: &mut &[u8]) -> Result<u64, Malformed> {
    if let [byte, ref rest @ ..] = **input
        && byte < 0x80
    {
        *input = rest;
        return Ok(u64::from(byte));
    }
    longer_varint(input)
}

fn longer_varint(input: &mut &[u8]) -> Result<u64, Malformed> {
    let bytes = *input;
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(VARINT_BYTES_MAX) {
        // The tenth byte has one bit of the value.
        if index == VARINT_BYTES_MAX - 1 && *byte > 1 {
            return Err(Malformed::NumberTooLong);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            *input = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err(Malformed::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wire_type_is_read() {
        let message = [
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
            &[0x11, 1, 0, 0, 0, 0, 0, 0, 0],
            &[0x1a, 2, b'h', b'i'],
            &[0x25, 2, 0, 0, 0],
        ];
        let all = message.concat();
        let found: Vec<Field<'_>> = fields(&all).map(Result::unwrap).collect();
        let values = [
            FieldValue::Varint(u64::MAX),
            FieldValue::Fixed64(1),
            FieldValue::Bytes(b"hi"),
            FieldValue::Fixed32(2),
        ];
        for (index, (value, bytes)) in values.into_iter().zip(message).enumerate() {
            assert_eq!(found[index], Field { number: index as u32 + 1, value, bytes });
        }
    }

    #[test]
    fn what_is_cut_short_or_no_field_is_malformed_and_ends_the_fields() {
        for wrong in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x11, 1, 2, 3],
            &[0x1a, 3, b'h', b'i'],
            &[0x25, 1],
            &[0x0b],
            &[0x0b, 0x14],
            &[0x0b, 0x08],
            &[0x0c],
            &[0x0e],
            &[0x00, 0x00],
            // A tag of six bytes, and one of more than 32 bits.
            &[0x88, 0x80, 0x80, 0x80, 0x80, 0x00, 0x01],
            &[0x88, 0x80, 0x80, 0x80, 0x10, 0x01],
            &[0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ] {
            let all: Vec<_> = fields(wrong).collect();
            assert_eq!(all, [Err(Malformed::Bytes)], "{wrong:?}");
        }
        let long = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(fields(&long).collect::<Vec<_>>(), [Err(Malformed::NumberTooLong)]);
    }

    #[test]
    fn a_group_is_skipped_unless_it_is_too_deep() {
        let message = [&[0x0b, 0x13, 0x08, 0x01, 0x14, 0x0c][..], &[0x10, 7]].concat();
        let values: Vec<_> = fields(&message).map(|field| field.unwrap().value).collect();
        assert_eq!(values, [FieldValue::Group, FieldValue::Varint(7)]);
        let nested = |depth: usize| [vec![0x0b; depth], vec![0x0c; depth]].concat();
        let max = NESTING_MAX as usize;
        assert!(fields(&nested(max)).all(|field| field.is_ok()));
        assert_eq!(fields(&nested(max + 1)).collect::<Vec<_>>(), [Err(Malformed::TooDeep)]);
        assert!(fields_within(&nested(10), NESTING_MAX - 9).any(|field| field.is_err()));
        assert!(fields(&nested(1 << 20)).any(|field| field.is_err()));
    }
}
