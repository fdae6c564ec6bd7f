//! The last bytes of each object: what the object covers.
//!
//! ```text
//! 5b 2a 4d 18   length (u32, little-endian)   "bbq object 1 <lane> <from> <until> <record> <received>", with spaces
//! ```
//!
//! It is a skippable frame of zstd (RFC 8878, section 3.1.2): programs that unpack the object pass over it. It is at the end because
//! some programs look only at the first frame.

/// The first of the magic numbers of skippable frames is 0x184D2A50; this one leaves room for those that other programs use.
const MAGIC: [u8; 4] = 0x184D_2A5B_u32.to_le_bytes();
/// Room for a lane and four numbers of 20 digits.
const TEXT_BYTES: u32 = 120;
const HEAD_BYTES: usize = 8;
/// Bytes of the whole frame.
pub(super) const FOOTER_BYTES: usize = HEAD_BYTES + TEXT_BYTES as usize;

/// What an object covers: the groups of a lane that end behind `from`, up to the one that ends at `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) lane: u32,
    pub(super) from: u64,
    pub(super) until: u64,
    /// Messages of the lane up to `until`.
    pub(super) record: u64,
    /// When the last of them was received, Unix nanoseconds. Two servers with copies of a data directory have other times here.
    pub(super) received_ns: u64,
}

impl Footer {
    pub(super) fn bytes(self) -> Vec<u8> {
        let Footer { lane, from, until, record, received_ns } = self;
        frame(&format!("bbq object 1 {lane} {from} {until} {record} {received_ns}"))
    }

    /// `None` if the bytes are not those of a footer.
    pub(super) fn parse(bytes: &[u8]) -> Option<Footer> {
        let text = text(bytes)?.strip_prefix("bbq object 1 ")?;
        let mut words = text.split_ascii_whitespace();
        let lane = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse().ok();
        let (from, until, record, received_ns) = (number()?, number()?, number()?, number()?);
        let footer = Footer { lane, from, until, record, received_ns };
        (from < until).then_some(footer)
    }
}

/// A frame with a text of at most [`TEXT_BYTES`].
pub(super) fn frame(text: &str) -> Vec<u8> {
    let mut bytes = [MAGIC, TEXT_BYTES.to_le_bytes()].concat();
    bytes.extend_from_slice(format!("{text:<0$}", TEXT_BYTES as usize).as_bytes());
    bytes
}

/// The text of a frame; `None` if the bytes are not those of one.
pub(super) fn text(bytes: &[u8]) -> Option<&str> {
    let text = bytes.strip_prefix(&MAGIC)?.strip_prefix(&TEXT_BYTES.to_le_bytes())?;
    std::str::from_utf8(text).ok().filter(|_| bytes.len() == FOOTER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_is_read_as_it_was_written_and_zstd_passes_over_it() {
        for footer in [
            Footer { lane: 0, from: 0, until: 4096, record: 1, received_ns: 2 },
            Footer {
                lane: u32::MAX,
                from: u64::MAX - 1,
                until: u64::MAX,
                record: u64::MAX,
                received_ns: u64::MAX,
            },
        ] {
            let bytes = footer.bytes();
            assert_eq!(Footer::parse(&bytes), Some(footer));
            assert_eq!(Footer::parse(&bytes[1..]), None);
            let mut object = zstd_bytes(b"message\n");
            object.extend_from_slice(&bytes);
            let mut text = Vec::with_capacity(100);
            assert_eq!(zstd_safe::decompress(&mut text, &object), Ok(8));
            assert_eq!(text, b"message\n");
        }
    }

    fn zstd_bytes(text: &[u8]) -> Vec<u8> {
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(text.len()));
        zstd_safe::compress(&mut packed, text, 3).unwrap();
        packed
    }
}
