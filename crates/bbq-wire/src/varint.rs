//! Unsigned LEB128, at most five bytes, as in Protocol Buffers: lengths of records and runs.

/// Bytes of the longest encoding of a `u32`.
pub(crate) const BYTES_MAX: usize = 5;

pub(crate) fn put(value: u32, out: &mut Vec<u8>) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reads one value from the front of `input` and moves `input` behind it; `None` when it is cut short, longer than five
/// bytes or over `u32::MAX`.
// Always: it is most of the work of a record, and more callers must not make a call of it.
#[inline(always)]
pub(crate) fn take(input: &mut &[u8]) -> Option<u32> {
    // Most lengths are below 128 or below 16,384; the loop reads all others.
    let bytes = *input;
    let first = *bytes.first()?;
    if first < 0x80 {
        *input = &bytes[1..];
        return Some(u32::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for (index, byte) in bytes.iter().enumerate().take(BYTES_MAX).skip(1) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            *input = &bytes[index + 1..];
            return u32::try_from(value).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edge_comes_back() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, u32::MAX - 1, u32::MAX] {
            let mut bytes = Vec::new();
            put(value, &mut bytes);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(value));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn cut_or_too_long_is_refused() {
        for bytes in
            [&[][..], &[0x80], &[0x80, 0x80, 0x80, 0x80], &[0xff, 0xff, 0xff, 0xff, 0x1f], &[0x80; 9]]
        {
            assert_eq!(take(&mut &*bytes), None, "{bytes:x?}");
        }
    }
}
