//! What a receiver of logs answers, read.

use prost::Message as _;
use serde::Deserialize;

use super::messages::{PartialSuccess, Response, Status};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResponseJson {
    partial_success: Option<PartialSuccessJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialSuccessJson {
    rejected_log_records: Option<NumberJson>,
    #[serde(default)]
    error_message: String,
}

/// A number that may be written as text, because of languages without 64-bit numbers.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberJson {
    Number(i64),
    Text(String),
}

impl NumberJson {
    /// 0 if it is none.
    fn value(self) -> i64 {
        match self {
            NumberJson::Number(number) => number,
            NumberJson::Text(text) => text.parse().unwrap_or(0),
        }
    }
}

/// Reads an ExportLogsServiceResponse in Protocol Buffers, or in JSON. `None` if it is something else.
#[must_use]
pub fn response(body: &[u8], is_json: bool) -> Option<Response> {
    if !is_json {
        return Response::decode(body).ok();
    }
    let json: ResponseJson = serde_json::from_slice(body).ok()?;
    let partial_success = json.partial_success.map(|partial| {
        let rejected_log_records = partial.rejected_log_records.map_or(0, NumberJson::value);
        PartialSuccess { rejected_log_records, error_message: partial.error_message }
    });
    Some(Response { partial_success })
}

/// The text in the body of an error, which should be a Status in Protocol Buffers; otherwise the body is the text.
#[must_use]
pub fn error_text(body: &[u8], is_protobuf: bool) -> String {
    let status = is_protobuf.then(|| Status::decode(body).ok()).flatten();
    status.map_or_else(|| String::from_utf8_lossy(body).into_owned(), |status| status.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_come_in_both_encodings() {
        let partial = PartialSuccess { rejected_log_records: 3, error_message: "too old".to_owned() };
        let expected = Response { partial_success: Some(partial) };
        assert_eq!(response(&expected.encode_to_vec(), false), Some(expected.clone()));
        for number in ["3", "\"3\""] {
            let json =
                format!(r#"{{"partialSuccess":{{"rejectedLogRecords":{number},"errorMessage":"too old"}}}}"#);
            assert_eq!(response(json.as_bytes(), true), Some(expected.clone()));
        }
        assert_eq!(response(b"", false), Some(Response { partial_success: None }));
        assert_eq!(response(b"{}", true), Some(Response { partial_success: None }));
        assert_eq!(response(b"<html>", true), None);
        assert_eq!(response(b"<html>", false), None);
    }

    #[test]
    fn an_error_has_a_text() {
        let status = Status { code: 3, message: "why".to_owned() }.encode_to_vec();
        assert_eq!(error_text(&status, true), "why");
        assert_eq!(error_text(b"why", false), "why");
        assert_eq!(error_text(b"<html>", true), "<html>");
    }
}
