//! The content codings of a body: identity, gzip, deflate and zstd. A decoder takes the body in the pieces in which it arrives, so
//! the compressed body is never held.
//!
//! Invariant: a step of a compressed coding adds at most a few times [`STEP_BYTES`] to its output, however much the input
//! expands. The caller checks the limit of the body between two steps.

use std::io::Write as _;

use flate2::write::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use hyper::header::HeaderValue;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Output of one step: as much as the window of inflate.
const STEP_BYTES: usize = 32 * 1024;
/// The largest window of a zstd frame, as a power of 2: 8 MiB, which RFC 8878 recommends supporting. Every level up to 19 needs
/// no more.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Members of gzip, or frames of zstd, in a body. Senders that put parts together make some; an empty one is 20 bytes and costs some 3 us.
const PARTS_MAX: usize = 1024;
/// There may be one more for each of so many bytes of output.
const PART_BYTES_MIN: usize = 1024;
/// What an inflate decoder holds: its window, its tables, and the output of a step.
const INFLATE_BYTES: usize = 96 * 1024;

/// The codings that a body may have, for the response that refuses any other coding.
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip, deflate, zstd");

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Deflate,
    Zstd,
}

impl Coding {
    /// Reads the value of `Content-Encoding` or `grpc-encoding`; `None` if it names another coding, or several.
    pub(super) fn of(value: &[u8]) -> Option<Coding> {
        let known = [
            (&b"identity"[..], Coding::Identity),
            (b"gzip", Coding::Gzip),
            (b"x-gzip", Coding::Gzip),
            (b"deflate", Coding::Deflate),
            (b"zstd", Coding::Zstd),
        ];
        let value = value.trim_ascii();
        known.into_iter().find_map(|(word, coding)| value.eq_ignore_ascii_case(word).then_some(coding))
    }
}

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotDecoded {
    #[error("the body does not match its Content-Encoding, or is cut short")]
    Corrupt,
    #[error(
        "a zstd frame needs a window of more than {} MiB, and as much memory here; compress with level 19 at most, and without --ultra or \
         a --long over 23",
        1 << (ZSTD_WINDOW_LOG_MAX - 20)
    )]
    Window,
    #[error(
        "the body has more than {PARTS_MAX} members of gzip or frames of zstd that are nearly empty; compress it as a whole"
    )]
    Parts,
}

use NotDecoded::Corrupt;

/// The members of gzip, or frames of zstd, that have ended.
#[derive(Default)]
pub(crate) struct Parts(usize);

impl Parts {
    /// Counts one that has ended, with which the body has so many bytes.
    fn add(&mut self, body_bytes: usize) -> Result<(), NotDecoded> {
        self.0 += 1;
        if self.0 > PARTS_MAX + body_bytes / PART_BYTES_MIN { Err(NotDecoded::Parts) } else { Ok(()) }
    }
}

/// The state of a body that is being decoded.
pub(crate) enum Decoder {
    Identity,
    Gzip {
        member: Box<GzDecoder<Vec<u8>>>,
        ended: Parts,
    },
    /// The zlib format, as RFC 9110 specifies.
    Deflate {
        inflate: Box<Decompress>,
        output: Box<[u8]>,
        has_ended: bool,
    },
    Zstd {
        context: DCtx<'static>,
        output: Box<[u8]>,
        has_ended: bool,
        ended: Parts,
    },
}

impl Decoder {
    pub(crate) fn new(coding: Coding) -> Result<Decoder, NotDecoded> {
        let output = || vec![0; STEP_BYTES].into_boxed_slice();
        Ok(match coding {
            Coding::Identity => Decoder::Identity,
            Coding::Gzip => {
                Decoder::Gzip { member: Box::new(GzDecoder::new(Vec::new())), ended: Parts::default() }
            }
            Coding::Deflate => Decoder::Deflate {
                inflate: Box::new(Decompress::new(true)),
                output: output(),
                has_ended: false,
            },
            Coding::Zstd => {
                let mut context = DCtx::try_create().ok_or(Corrupt)?;
                context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX)).map_err(|_| Corrupt)?;
                Decoder::Zstd { context, output: output(), has_ended: false, ended: Parts::default() }
            }
        })
    }

    /// The memory that the decoder holds.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Decoder::Identity => 0,
            Decoder::Gzip { .. } | Decoder::Deflate { .. } => INFLATE_BYTES,
            Decoder::Zstd { context, output, .. } => context.sizeof() + output.len(),
        }
    }

    /// Decodes the front of `input`, removes that part from `input`, and appends the result to `body`. Returns whether another
    /// step can do more.
    pub(crate) fn step(&mut self, input: &mut &[u8], body: &mut Vec<u8>) -> Result<bool, NotDecoded> {
        match self {
            Decoder::Identity => {
                body.extend_from_slice(std::mem::take(input));
                Ok(false)
            }
            Decoder::Gzip { member, ended } => {
                if input.is_empty() {
                    return Ok(false);
                }
                let taken = member.write(input).map_err(|_| Corrupt)?;
                if taken == 0 {
                    // The member has ended, and another one follows.
                    member.try_finish().map_err(|_| Corrupt)?;
                    body.append(member.get_mut());
                    ended.add(body.len())?;
                    **member = GzDecoder::new(Vec::new());
                    return Ok(true);
                }
                *input = &input[taken..];
                body.append(member.get_mut());
                Ok(!input.is_empty())
            }
            Decoder::Deflate { inflate, output, has_ended } => {
                if *has_ended {
                    return if input.is_empty() { Ok(false) } else { Err(Corrupt) };
                }
                let (taken, made) = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(input, output, FlushDecompress::None).map_err(|_| Corrupt)?;
                *has_ended = status == Status::StreamEnd;
                let taken = usize::try_from(inflate.total_in() - taken).map_err(|_| Corrupt)?;
                let made = usize::try_from(inflate.total_out() - made).map_err(|_| Corrupt)?;
                *input = &input[taken..];
                body.extend_from_slice(&output[..made]);
                made_progress(input, taken, made)
            }
            Decoder::Zstd { context, output, has_ended, ended } => {
                if input.is_empty() && *has_ended {
                    return Ok(false);
                }
                let mut from = InBuffer::around(input);
                let mut to = OutBuffer::around(&mut **output);
                let hint = context.decompress_stream(&mut to, &mut from).map_err(zstd_error)?;
                let (taken, made) = (from.pos(), to.pos());
                *has_ended = hint == 0;
                *input = &input[taken..];
                body.extend_from_slice(&output[..made]);
                if *has_ended && taken > 0 {
                    ended.add(body.len())?;
                }
                made_progress(input, taken, made)
            }
        }
    }

    /// Ends the body.
    pub(crate) fn finish(&mut self, body: &mut Vec<u8>) -> Result<(), NotDecoded> {
        match self {
            Decoder::Identity => Ok(()),
            Decoder::Gzip { member, .. } => {
                member.try_finish().map_err(|_| Corrupt)?;
                body.append(member.get_mut());
                Ok(())
            }
            Decoder::Deflate { has_ended, .. } | Decoder::Zstd { has_ended, .. } => {
                if *has_ended {
                    Ok(())
                } else {
                    Err(Corrupt)
                }
            }
        }
    }
}

/// Of ZSTD_decompressStream. The library has no numbers for its errors, but names that stay.
fn zstd_error(code: usize) -> NotDecoded {
    let is_window = zstd_safe::get_error_name(code) == "Frame requires too much memory for decoding";
    if is_window { NotDecoded::Window } else { Corrupt }
}

/// Whether another step can do something: there is input, or output that did not fit into this step.
fn made_progress(input: &[u8], taken: usize, made: usize) -> Result<bool, NotDecoded> {
    if taken == 0 && made == 0 {
        return if input.is_empty() { Ok(false) } else { Err(Corrupt) };
    }
    Ok(!input.is_empty() || made == STEP_BYTES)
}

/// Decodes a body of at most 1 MiB in pieces.
#[cfg(fuzzing)]
pub(crate) fn fuzzed_body(coding: u8, bytes: &[u8], piece: usize) -> Option<Vec<u8>> {
    let codings = [Coding::Gzip, Coding::Deflate, Coding::Zstd];
    let mut decoder = Decoder::new(codings[usize::from(coding) % codings.len()]).ok()?;
    let mut body = Vec::new();
    for mut input in bytes.chunks(piece) {
        loop {
            let before = body.len();
            let goes_on = decoder.step(&mut input, &mut body).ok()?;
            assert!(body.len() - before <= 4 * STEP_BYTES);
            if body.len() > 1024 * 1024 {
                return None;
            }
            if !goes_on {
                break;
            }
        }
    }
    decoder.finish(&mut body).ok()?;
    Some(body)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};

    use super::*;

    const CODINGS: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Deflate, Coding::Zstd];

    fn coded(coding: Coding, plain: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Identity => plain.to_vec(),
            Coding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Coding::Zstd => {
                let mut out = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
                zstd_safe::compress(&mut out, plain, 3).unwrap();
                out
            }
        }
    }

    /// Decodes `bytes` in pieces. Returns the body, and the most that a step has added.
    fn decoded(coding: Coding, bytes: &[u8], piece: usize) -> Result<(Vec<u8>, usize), NotDecoded> {
        let mut decoder = Decoder::new(coding)?;
        let (mut body, mut most) = (Vec::new(), 0);
        for mut input in bytes.chunks(piece) {
            loop {
                let before = body.len();
                let goes_on = decoder.step(&mut input, &mut body)?;
                most = most.max(body.len() - before);
                if !goes_on {
                    break;
                }
            }
        }
        decoder.finish(&mut body)?;
        Ok((body, most))
    }

    #[test]
    fn a_body_is_the_same_in_every_coding_and_every_cut() {
        let plain: Vec<u8> = (0..200_000u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
        for coding in CODINGS {
            let bytes = coded(coding, &plain);
            for piece in [1, 7, 1000, bytes.len()] {
                let (body, _) = decoded(coding, &bytes, piece).unwrap();
                assert!(body == plain, "{coding:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn several_members_and_frames_are_one_body() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            let bytes = [coded(coding, b"one "), coded(coding, b""), coded(coding, b"two")].concat();
            for piece in [1, bytes.len()] {
                assert_eq!(decoded(coding, &bytes, piece).unwrap().0, b"one two", "{coding:?}");
            }
        }
    }

    #[test]
    fn many_empty_parts_are_refused_and_many_small_ones_are_not() {
        for coding in [Coding::Gzip, Coding::Zstd] {
            let empty = coded(coding, b"").repeat(PARTS_MAX + 2);
            for piece in [100, empty.len()] {
                assert_eq!(decoded(coding, &empty, piece), Err(NotDecoded::Parts), "{coding:?}");
            }
            let small = coded(coding, &[b'x'; PART_BYTES_MIN]).repeat(3 * PARTS_MAX);
            assert_eq!(decoded(coding, &small, small.len()).unwrap().0.len(), 3 * PARTS_MAX * PART_BYTES_MIN);
        }
    }

    #[test]
    fn a_step_is_small_however_much_the_body_expands() {
        let plain = vec![0; 8 * 1024 * 1024];
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Zstd] {
            let bytes = coded(coding, &plain);
            assert!(bytes.len() < 100_000);
            let (body, most) = decoded(coding, &bytes, bytes.len()).unwrap();
            assert_eq!(body.len(), plain.len());
            assert!(most <= 4 * STEP_BYTES, "{coding:?}: {most}");
        }
    }

    #[test]
    fn a_body_that_is_cut_short_or_changed_is_corrupt() {
        let plain: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Zstd] {
            let bytes = coded(coding, &plain);
            assert!(decoded(coding, &bytes[..bytes.len() - 1], 100).is_err(), "{coding:?}");
            assert!(decoded(coding, &bytes[..bytes.len() / 2], 100).is_err(), "{coding:?}");
            assert!(decoded(coding, b"", 1).is_err(), "{coding:?}");
            assert!(decoded(coding, b"plain text", 4).is_err(), "{coding:?}");
            assert!(decoded(coding, &[&bytes, &b"more"[..]].concat(), 100).is_err(), "{coding:?}");
        }
    }

    #[test]
    fn a_zstd_frame_with_a_large_window_is_refused() {
        // Magic, a descriptor without a content size, a window of 2^(10+17) bytes, and a raw block.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0x09, 0, 0, b'x'];
        assert_eq!(decoded(Coding::Zstd, &frame, 100), Err(NotDecoded::Window));
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3, 0x09, 0, 0, b'x'];
        assert_eq!(decoded(Coding::Zstd, &frame, 100).unwrap().0, b"x");
    }

    #[test]
    fn codings_are_told_by_their_names() {
        assert_eq!(Coding::of(b" GZip "), Some(Coding::Gzip));
        assert_eq!(Coding::of(b"br"), None);
        assert_eq!(Coding::of(b"gzip, zstd"), None);
    }
}
