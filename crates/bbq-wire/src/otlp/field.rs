//! The fields of a message in the encoding of Protocol Buffers, without knowledge of what they mean.

/// Bytes of the longest encoding of a `u64`.
const VARINT_BYTES_MAX: usize = 10;

/// The bytes are no message of Protocol Buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed Protocol Buffers")]
pub struct Malformed;

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
}

/// The fields of a message. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Fields<'a>(&'a [u8]);

/// Reads the fields of a message.
#[must_use]
pub fn fields(message: &[u8]) -> Fields<'_> {
    Fields(message)
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = take(&mut self.0);
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Malformed))
    }
}

#[inline]
fn take<'a>(input: &mut &'a [u8]) -> Option<Field<'a>> {
    let from = *input;
    let tag = u32::try_from(varint(input)?).ok()?;
    let number = tag >> 3;
    let value = match tag & 7 {
        0 => FieldValue::Varint(varint(input)?),
        1 => {
            let (value, rest) = input.split_first_chunk()?;
            *input = rest;
            FieldValue::Fixed64(u64::from_le_bytes(*value))
        }
        2 => {
            let length = usize::try_from(varint(input)?).ok()?;
            let (value, rest) = input.split_at_checked(length)?;
            *input = rest;
            FieldValue::Bytes(value)
        }
        5 => {
            let (value, rest) = input.split_first_chunk()?;
            *input = rest;
            FieldValue::Fixed32(u32::from_le_bytes(*value))
        }
        // Groups, which proto3 has not.
        _ => return None,
    };
    let bytes = &from[..from.len() - input.len()];
    (number > 0).then_some(Field { number, value, bytes })
}

#[inline]
fn varint(input: &mut &[u8]) -> Option<u64> {
    let bytes = *input;
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(VARINT_BYTES_MAX) {
        // The tenth byte has one bit of the value.
        if index == VARINT_BYTES_MAX - 1 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            *input = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
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
            &[0x0c],
            &[0x00, 0x00],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x1a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ] {
            let all: Vec<_> = fields(wrong).collect();
            assert_eq!(all, [Err(Malformed)], "{wrong:?}");
        }
    }
}
