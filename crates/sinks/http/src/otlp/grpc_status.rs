//! The status of a call of gRPC, and what it means for the messages of an OTLP request (opentelemetry.io/docs/specs/otlp, "Failures").

use std::time::Duration;

use bbq_sink::Verdict;
use data_encoding::{BASE64, BASE64_NOPAD};
use hyper::header::HeaderMap;
use prost::Message as _;

const OK: i32 = 0;
const CANCELLED: i32 = 1;
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const NOT_FOUND: i32 = 5;
const PERMISSION_DENIED: i32 = 7;
const RESOURCE_EXHAUSTED: i32 = 8;
const ABORTED: i32 = 10;
const OUT_OF_RANGE: i32 = 11;
const UNIMPLEMENTED: i32 = 12;
const UNAVAILABLE: i32 = 14;
const DATA_LOSS: i32 = 15;
const UNAUTHENTICATED: i32 = 16;

/// Their names, by number (google.rpc.Code).
const NAMES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];
/// The type of [`RetryInfo`] behind the last slash.
const RETRY_INFO: &str = "google.rpc.RetryInfo";

/// A status.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GrpcStatus {
    code: i32,
    message: String,
    /// When the server wants to be asked again.
    pub(super) retry_delay: Option<Duration>,
}

/// google.rpc.Status.
#[derive(Clone, PartialEq, prost::Message)]
struct StatusDetails {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// google.protobuf.Any.
#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// google.rpc.RetryInfo.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<DurationMessage>,
}

/// google.protobuf.Duration.
#[derive(Clone, PartialEq, prost::Message)]
struct DurationMessage {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

impl GrpcStatus {
    /// Reads headers or trailers; `None` if they have no status.
    pub(super) fn of(headers: &HeaderMap) -> Option<GrpcStatus> {
        let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
        let message = headers.get("grpc-message").map(|value| percent_decoded(value.as_bytes()));
        let details = headers.get("grpc-status-details-bin");
        let retry_delay = details.and_then(|value| retry_delay(value.as_bytes()));
        Some(GrpcStatus { code, message: message.unwrap_or_default(), retry_delay })
    }

    pub(super) fn is_ok(&self) -> bool {
        self.code == OK
    }

    /// What an error says of the messages. `who` responds, `shown` makes a text of the server fit for people, and the request
    /// `may_be_too_large`.
    pub(super) fn verdict(
        &self,
        who: &impl std::fmt::Display,
        shown: impl Fn(&str) -> String,
        may_be_too_large: bool,
    ) -> Verdict {
        let name = usize::try_from(self.code).ok().and_then(|code| NAMES.get(code));
        let name = name.map_or_else(|| format!("grpc-status {}", self.code), |name| (*name).to_owned());
        let why = format!("{who} responds {name} {:?}", shown(&self.message));
        match self.code {
            CANCELLED | DEADLINE_EXCEEDED | ABORTED | UNAVAILABLE | DATA_LOSS => Verdict::Later(why),
            RESOURCE_EXHAUSTED | OUT_OF_RANGE if self.retry_delay.is_some() || !may_be_too_large => {
                Verdict::Later(why)
            }
            INVALID_ARGUMENT => Verdict::Refused(why),
            // These are not about the messages.
            UNAUTHENTICATED | PERMISSION_DENIED => {
                Verdict::Later(format!("{why}; check the options authorization and headers"))
            }
            UNIMPLEMENTED | NOT_FOUND => Verdict::Later(format!(
                "{why}; it does not accept OpenTelemetry logs at this address, or not with this compression"
            )),
            // RESOURCE_EXHAUSTED and OUT_OF_RANGE without a time, too: servers say so of a request that is too large, and when they have too
            // much to do.
            _ => Verdict::Failed(why),
        }
    }
}

fn retry_delay(details: &[u8]) -> Option<Duration> {
    let details = BASE64.decode(details).or_else(|_| BASE64_NOPAD.decode(details)).ok()?;
    let details = StatusDetails::decode(&*details).ok()?.details;
    let is_retry_info = |any: &&Any| any.type_url.rsplit('/').next() == Some(RETRY_INFO);
    let info = RetryInfo::decode(&*details.iter().find(is_retry_info)?.value).ok()?;
    let delay = info.retry_delay.unwrap_or_default();
    let seconds = Duration::from_secs(u64::try_from(delay.seconds).unwrap_or(0));
    Some(seconds.saturating_add(Duration::from_nanos(u64::try_from(delay.nanos).unwrap_or(0))))
}

/// Decodes `%41` to `A`; what cannot be decoded stays.
fn percent_decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let decoded = behind.get(..2).filter(|_| *first == b'%');
        let decoded = decoded.and_then(|digits| std::str::from_utf8(digits).ok());
        match decoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: i32, details: Option<&[u8]>) -> GrpcStatus {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", code.into());
        headers.insert("grpc-message", "100%25 \u{20}%C3%A4%zz%".parse().unwrap());
        if let Some(details) = details {
            headers.insert("grpc-status-details-bin", BASE64_NOPAD.encode(details).parse().unwrap());
        }
        GrpcStatus::of(&headers).unwrap()
    }

    #[test]
    fn a_message_is_decoded_and_no_status_is_none() {
        assert_eq!(status(3, None).message, "100%  \u{e4}%zz%");
        assert_eq!(GrpcStatus::of(&HeaderMap::new()), None);
    }

    #[test]
    fn a_secret_in_the_text_is_hidden_before_the_text_is_quoted() {
        let hide = |text: &str| text.replace(r#"se"same"#, "...");
        let status = GrpcStatus { code: 2, message: r#"not se"same"#.to_owned(), retry_delay: None };
        let Verdict::Failed(why) = status.verdict(&"http://host", hide, true) else { panic!("{status:?}") };
        assert_eq!(why, "http://host responds UNKNOWN \"not ...\"");
    }

    #[test]
    fn each_code_is_understood_as_otlp_specifies() {
        let info = RetryInfo { retry_delay: Some(DurationMessage { seconds: 2, nanos: 500_000_000 }) };
        let any = Any {
            type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
            value: info.encode_to_vec(),
        };
        let details = StatusDetails { details: vec![Any::default(), any] }.encode_to_vec();
        let exhausted = status(RESOURCE_EXHAUSTED, Some(&details));
        assert_eq!(exhausted.retry_delay, Some(Duration::from_millis(2500)));
        let verdict = |status: &GrpcStatus, is_large| status.verdict(&"http://host", str::to_owned, is_large);
        assert!(matches!(verdict(&exhausted, true), Verdict::Later(_)));
        // A small request was not too large.
        for code in [RESOURCE_EXHAUSTED, OUT_OF_RANGE] {
            assert!(matches!(verdict(&status(code, None), false), Verdict::Later(_)));
        }
        assert_eq!(status(RESOURCE_EXHAUSTED, Some(b"junk")).retry_delay, None);
        for (codes, expected) in [
            (&[1, 4, 5, 7, 10, 12, 14, 15, 16][..], "later"),
            (&[3], "refused"),
            (&[2, 6, 8, 9, 11, 13, 99, -1], "failed"),
        ] {
            for code in codes {
                let found = match verdict(&status(*code, None), true) {
                    Verdict::Later(_) => "later",
                    Verdict::Refused(_) => "refused",
                    Verdict::Failed(_) => "failed",
                    other => panic!("{other:?}"),
                };
                assert_eq!(found, expected, "{code}");
            }
        }
    }
}
