//! A message without its compression.

use std::borrow::Cow;

use bbq_senders::gelf::Compression;

use crate::worker::http::{Coding, Decoder};

/// Why it cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotDecoded {
    #[error("the message is not compressed as its first bytes say, or is cut short")]
    Corrupt,
    #[error("the message is longer than message_bytes_max when it is decompressed")]
    TooLong,
}

/// Decompresses a message of at most so many bytes. It holds little more than these, however far the message expands.
pub(super) fn decoded(message: &[u8], bytes_max: usize) -> Result<Cow<'_, [u8]>, NotDecoded> {
    let coding = match Compression::of(message) {
        None if message.len() > bytes_max => return Err(NotDecoded::TooLong),
        None => return Ok(Cow::Borrowed(message)),
        Some(Compression::Gzip) => Coding::Gzip,
        Some(Compression::Zlib) => Coding::Deflate,
    };
    let corrupt = |_| NotDecoded::Corrupt;
    let mut decoder = Decoder::new(coding).map_err(corrupt)?;
    let (mut rest, mut text) = (message, Vec::new());
    while decoder.step(&mut rest, &mut text).map_err(corrupt)? {
        if text.len() > bytes_max {
            return Err(NotDecoded::TooLong);
        }
    }
    decoder.finish(&mut text).map_err(corrupt)?;
    if text.len() > bytes_max { Err(NotDecoded::TooLong) } else { Ok(Cow::Owned(text)) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression as Level;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    fn compressed(text: &[u8]) -> [Vec<u8>; 2] {
        let mut gzip = GzEncoder::new(Vec::new(), Level::best());
        let mut zlib = ZlibEncoder::new(Vec::new(), Level::best());
        gzip.write_all(text).unwrap();
        zlib.write_all(text).unwrap();
        [gzip.finish().unwrap(), zlib.finish().unwrap()]
    }

    #[test]
    fn a_message_comes_out_up_to_the_limit() {
        let text = vec![b' '; 100_000];
        for compressed in compressed(&text) {
            assert_eq!(decoded(&compressed, text.len()).as_deref(), Ok(&*text));
            assert_eq!(decoded(&compressed, text.len() - 1), Err(NotDecoded::TooLong));
            assert_eq!(decoded(&compressed[..compressed.len() - 1], text.len()), Err(NotDecoded::Corrupt));
            assert_eq!(decoded(&compressed[..2], text.len()), Err(NotDecoded::Corrupt));
        }
        assert_eq!(decoded(b"{}", 2).as_deref(), Ok(&b"{}"[..]));
        assert_eq!(decoded(b"{}", 1), Err(NotDecoded::TooLong));
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        for bomb in compressed(&vec![0; 64 << 20]) {
            assert_eq!(decoded(&bomb, 1 << 20), Err(NotDecoded::TooLong));
        }
    }
}
