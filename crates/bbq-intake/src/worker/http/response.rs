//! The response to a request, in the form that the request asks for.

use bbq_format::otlp::{PartialSuccess, Response as LogsResponse, Status};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use prost::Message as _;
use serde_json::{Value, json};

use super::grpc;
use super::refused::Refused;
use super::response_body::ResponseBody;
use super::route::LogsEncoding;
use super::source::Ack;
use super::store::Stored;

/// What became of the messages of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) ack: Ack,
    pub(super) stored: Stored,
    /// Log records that were left out because they are too long.
    pub(super) rejected: u32,
}

/// The format of the response that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseFormat {
    /// As JSON in bbq's own form.
    Plain,
    /// As OTLP specifies for HTTP.
    Logs(LogsEncoding),
    /// As OTLP specifies for gRPC.
    Grpc,
}

impl ResponseFormat {
    /// The response to a request whose messages are taken.
    pub(super) fn taken(self, taken: Taken, message_bytes_max: usize) -> Response<ResponseBody> {
        match self {
            ResponseFormat::Plain => {
                let is_durable = taken.ack == Ack::Durable;
                let status = if is_durable { StatusCode::OK } else { StatusCode::ACCEPTED };
                response(status, HeaderValue::from_static("application/json"), line(&plain(taken)))
            }
            // OTLP has no other status for success.
            ResponseFormat::Logs(encoding) => {
                let body = logs(encoding, taken.rejected, message_bytes_max);
                response(StatusCode::OK, encoding.content_type(), body)
            }
            ResponseFormat::Grpc => {
                let message = logs(LogsEncoding::Protobuf, taken.rejected, message_bytes_max);
                let body = ResponseBody::with_trailers(grpc::framed(&message), grpc::ok());
                let mut response = Response::new(body);
                response.headers_mut().insert(CONTENT_TYPE, grpc::CONTENT_TYPE);
                response.headers_mut().extend(grpc::headers());
                response
            }
        }
    }

    /// The response to a request that is refused.
    pub(super) fn refused(self, refused: &Refused) -> Response<ResponseBody> {
        let mut response = match self {
            ResponseFormat::Plain => {
                let mut text = json!({ "error": refused.to_string() });
                if let Refused::Gap { expected } = refused {
                    text["expected"] = (*expected).into();
                }
                response(refused.status(), HeaderValue::from_static("application/json"), line(&text))
            }
            ResponseFormat::Logs(encoding) => {
                let status = Status { code: refused.code(), message: refused.to_string() };
                let body = match encoding {
                    LogsEncoding::Protobuf => status.encode_to_vec(),
                    LogsEncoding::Json => line(&json!({ "code": status.code, "message": status.message })),
                };
                response(status_of_logs(refused), encoding.content_type(), body)
            }
            ResponseFormat::Grpc => {
                // The HTTP status is about HTTP alone; `grpc-status` carries the result of the call.
                let mut response = response(StatusCode::OK, grpc::CONTENT_TYPE, Vec::new());
                response.headers_mut().extend(grpc::headers().chain(grpc::refused(refused)));
                return response;
            }
        };
        response.headers_mut().extend(refused.header());
        response
    }
}

/// Exporters send again what is answered with 429, 502, 503 or 504, as OTLP specifies, and drop what is answered with 408.
fn status_of_logs(refused: &Refused) -> StatusCode {
    match refused.status() {
        StatusCode::REQUEST_TIMEOUT => StatusCode::SERVICE_UNAVAILABLE,
        status => status,
    }
}

fn response(status: StatusCode, content_type: HeaderValue, body: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn line(text: &Value) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

fn plain(Taken { ack, stored, .. }: Taken) -> Value {
    let ack = match ack {
        Ack::Durable => "durable",
        Ack::Received => "received",
        Ack::None => "none",
    };
    let mut text = json!({ "taken": stored.taken, "ack": ack });
    if let Some(duplicates) = stored.duplicates {
        text["duplicates"] = duplicates.into();
    }
    text
}

/// An ExportLogsServiceResponse, with a partial success if log records were left out.
fn logs(encoding: LogsEncoding, rejected: u32, message_bytes_max: usize) -> Vec<u8> {
    let partial_success = (rejected > 0).then(|| PartialSuccess {
        rejected_log_records: rejected.into(),
        error_message: format!(
            "{rejected} log records are longer than {message_bytes_max} bytes with their resource and scope (message_bytes_max)"
        ),
    });
    match (encoding, partial_success) {
        (LogsEncoding::Protobuf, partial_success) => LogsResponse { partial_success }.encode_to_vec(),
        (LogsEncoding::Json, None) => line(&json!({})),
        (LogsEncoding::Json, Some(PartialSuccess { rejected_log_records, error_message })) => line(&json!({
            // 64-bit numbers are text in the JSON mapping.
            "partialSuccess": { "rejectedLogRecords": rejected_log_records.to_string(), "errorMessage": error_message }
        })),
    }
}
