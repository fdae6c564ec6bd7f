//! What the head of a request says about its messages.
//!
//! ```text
//! Content-Encoding   identity, gzip, deflate or zstd
//! BBQ-Stream         32 hex digits: the stream in which the client numbers its messages
//! BBQ-Sequence       the number of the first message, from 1
//! ```

use bbq_wire::StreamId;
use data_encoding::HEXLOWER_PERMISSIVE;
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, HeaderValue};

use super::coding::Coding;
use super::refused::Refused;
use crate::worker::numbered::Numbers;

/// The coding of the body. More than one is not supported.
pub(super) fn coding(headers: &HeaderMap) -> Result<Coding, Refused> {
    match single(headers, CONTENT_ENCODING.as_str()) {
        Ok(None) => Ok(Coding::Identity),
        Ok(Some(value)) => Coding::of(value.as_bytes()).ok_or(Refused::Encoding),
        Err(Repeated) => Err(Refused::Encoding),
    }
}

/// The numbers of the messages; `None` if the client does not number them.
pub(super) fn numbers(headers: &HeaderMap) -> Result<Option<Numbers>, Refused> {
    let repeated = |Repeated| Refused::Numbers;
    let stream = single(headers, "bbq-stream").map_err(repeated)?;
    let sequence = single(headers, "bbq-sequence").map_err(repeated)?;
    let (stream, sequence) = match (stream, sequence) {
        (None, None) => return Ok(None),
        (Some(stream), Some(sequence)) => (stream, sequence),
        _ => return Err(Refused::Numbers),
    };
    let id = HEXLOWER_PERMISSIVE.decode(stream.as_bytes()).map_err(|_| Refused::Numbers)?;
    let id = <[u8; 16]>::try_from(id).map_err(|_| Refused::Numbers)?;
    let digits = sequence.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let first = digits.and_then(|text| text.parse().ok()).filter(|first| *first > 0);
    Ok(Some(Numbers { stream: StreamId(id), first: first.ok_or(Refused::Numbers)? }))
}

/// A header occurs more than once.
struct Repeated;

fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, Repeated> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(Repeated),
    }
}

/// Reads a request with these two headers.
#[cfg(fuzzing)]
pub(crate) fn fuzzed_numbers(stream: &[u8], sequence: &[u8]) -> Option<(String, u64)> {
    let mut headers = HeaderMap::new();
    headers.insert("bbq-stream", HeaderValue::from_bytes(stream).ok()?);
    headers.insert("bbq-sequence", HeaderValue::from_bytes(sequence).ok()?);
    let Numbers { stream, first } = numbers(&headers).ok()??;
    Some((stream.to_string(), first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn both_headers_or_none_number_the_messages() {
        let id = "00112233445566778899aabbccddeeFF";
        let numbers = |pairs: &[(&'static str, &'static str)]| numbers(&of(pairs));
        assert_eq!(numbers(&[]).unwrap(), None);
        let found = numbers(&[("bbq-stream", id), ("bbq-sequence", "18446744073709551614")]).unwrap();
        let found = found.unwrap();
        assert_eq!((found.stream.to_string(), found.first), (id.to_lowercase(), u64::MAX - 1));
        for wrong in [
            &[("bbq-stream", id)][..],
            &[("bbq-sequence", "1")],
            &[("bbq-stream", "0011"), ("bbq-sequence", "1")],
            &[("bbq-stream", "x0112233445566778899aabbccddeeff"), ("bbq-sequence", "1")],
            &[("bbq-stream", id), ("bbq-sequence", "0")],
            &[("bbq-stream", id), ("bbq-sequence", "+1")],
            &[("bbq-stream", id), ("bbq-sequence", "18446744073709551616")],
            &[("bbq-stream", id), ("bbq-stream", id), ("bbq-sequence", "1")],
        ] {
            assert!(matches!(numbers(wrong), Err(Refused::Numbers)), "{wrong:?}");
        }
    }

    #[test]
    fn a_body_has_one_coding() {
        assert_eq!(coding(&of(&[])).unwrap(), Coding::Identity);
        assert_eq!(coding(&of(&[("content-encoding", "gzip")])).unwrap(), Coding::Gzip);
        let twice = of(&[("content-encoding", "gzip"), ("content-encoding", "gzip")]);
        assert!(matches!(coding(&twice), Err(Refused::Encoding)));
    }
}
