//! The framing of gRPC around the one call that is served: a request and a response of one message each.
//!
//! ```text
//! message: 1 if it is compressed, else 0 (1 byte), length (4 bytes, big-endian), bytes
//! ```

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use super::body::HeldBody;
use super::coding::Coding;
use super::refused::Refused;

/// The path of the call.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
/// The content type of requests and responses.
pub(super) const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
/// Bytes in front of a message.
pub(super) const PREFIX_BYTES: usize = 5;

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Whether a content type is that of gRPC with Protocol Buffers.
pub(super) fn is_grpc(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/grpc") || kind.eq_ignore_ascii_case("application/grpc+proto")
}

/// The coding of compressed messages.
pub(super) fn coding(headers: &HeaderMap) -> Result<Coding, Refused> {
    let coding = headers.get(ENCODING).map(|value| Coding::of(value.as_bytes()).ok_or(Refused::Encoding));
    coding.unwrap_or(Ok(Coding::Identity))
}

/// Takes the message out of a body.
pub(super) async fn message(
    mut body: HeldBody,
    coding: Coding,
    bytes_max: usize,
) -> Result<HeldBody, Refused> {
    let framed = || Refused::Logs("a request of this gRPC call has exactly one message".to_owned());
    if is_compressed(&body.bytes).ok_or_else(framed)? {
        return body.decoded(PREFIX_BYTES, coding, bytes_max).await;
    }
    body.bytes.drain(..PREFIX_BYTES);
    Ok(body)
}

/// Reads the prefix of a body, which is one message: whether that is compressed. `None` if the body is anything else.
pub(super) fn is_compressed(body: &[u8]) -> Option<bool> {
    let ([is_compressed @ (0 | 1), length @ ..], message) = body.split_first_chunk::<PREFIX_BYTES>()? else {
        return None;
    };
    (u64::from(u32::from_be_bytes(*length)) == message.len() as u64).then_some(*is_compressed == 1)
}

/// Reads the prefix of a body. One that it accepts is that of its message.
#[cfg(fuzzing)]
pub(crate) fn fuzzed_prefix(body: &[u8]) {
    if is_compressed(body) == Some(false) {
        assert_eq!(framed(&body[PREFIX_BYTES..]), body);
    }
}

/// A message with its prefix.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// The headers of each response, besides its content type.
pub(super) fn headers() -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    std::iter::once((ACCEPT_ENCODING, HeaderValue::from_static("identity, gzip, deflate, zstd")))
}

/// The status that follows the message of a response.
pub(super) fn ok() -> HeaderMap {
    [(STATUS, HeaderValue::from_static("0"))].into_iter().collect()
}

/// The status of a call that is refused.
pub(super) fn refused(refused: &Refused) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let message = HeaderValue::try_from(percent_encoded(&refused.to_string())).ok();
    let message = message.map(|message| (MESSAGE, message));
    std::iter::once((STATUS, HeaderValue::from(refused.code()))).chain(message)
}

/// Encodes the percent sign, and everything that is not printable ASCII.
fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_status_is_printable() {
        assert_eq!(percent_encoded("100 % \u{e4}\n"), "100 %25 %C3%A4%0A");
    }

    #[test]
    fn a_type_of_grpc_may_name_its_encoding() {
        assert!(is_grpc("application/grpc") && is_grpc("application/grpc+proto"));
        assert!(!is_grpc("application/grpc+json") && !is_grpc("application/grpc-web"));
    }
}
