//! What a request is, by its path and content type, and the format of its response.

use bbq_senders::WrongMethod;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Version};

use super::grpc;
use super::refused::Refused;
use crate::listen::protocol::{HTTP, Protocol};

/// What a request brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// One message.
    Message,
    /// Lines, each of them a message.
    Lines,
    /// OTLP logs over HTTP.
    Logs(LogsEncoding),
    /// OTLP logs over gRPC.
    Grpc,
    /// What another program's sender asks for, by a path of its own.
    Sender,
}

/// The encoding of OTLP over HTTP, in the request and in the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogsEncoding {
    Protobuf,
    Json,
}

impl LogsEncoding {
    pub(super) fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            LogsEncoding::Protobuf => "application/x-protobuf",
            LogsEncoding::Json => "application/json",
        })
    }
}

impl Route {
    /// The route of a request to a listener of this protocol. Listeners of `otlp` take nothing but OTLP.
    pub(super) fn of(
        protocol: &Protocol,
        (version, method): (Version, &Method),
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Route, Refused> {
        let is_post = method == Method::POST;
        match path {
            grpc::EXPORT if is_grpc(version, headers) => Ok(Route::Grpc),
            "/v1/logs" if is_post => {
                let kind = content_type(headers).split(';').next().unwrap_or_default().trim();
                let is = |known: &str| kind.eq_ignore_ascii_case(known);
                if is("application/x-protobuf") {
                    Ok(Route::Logs(LogsEncoding::Protobuf))
                } else if is("application/json") {
                    Ok(Route::Logs(LogsEncoding::Json))
                } else {
                    Err(Refused::ContentType)
                }
            }
            "/" if *protocol == HTTP && is_post => Ok(Route::Message),
            "/ndjson" if *protocol == HTTP && is_post => Ok(Route::Lines),
            "/v1/logs" => Err(Refused::Method),
            "/ndjson" if *protocol == HTTP => Err(Refused::Method),
            path if *protocol == HTTP => match bbq_senders::request(method.as_str(), path) {
                Ok(Some(_)) => Ok(Route::Sender),
                Ok(None) if path != "/" => Err(Refused::Path),
                Ok(None) | Err(WrongMethod) => Err(Refused::Method),
            },
            _ => Err(Refused::LogsPath),
        }
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whether a request is a gRPC call, and must be answered as one.
pub(super) fn is_grpc(version: Version, headers: &HeaderMap) -> bool {
    version == Version::HTTP_2 && grpc::is_grpc(content_type(headers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::protocol::OTLP;

    #[test]
    fn a_path_and_a_type_make_a_route() {
        let of = |protocol, path, kind: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            Route::of(protocol, (Version::HTTP_11, &Method::POST), path, &headers)
        };
        let json = of(&HTTP, "/v1/logs", "Application/JSON; charset=utf-8");
        assert!(matches!(json, Ok(Route::Logs(LogsEncoding::Json))));
        let protobuf = of(&OTLP, "/v1/logs", "application/x-protobuf");
        assert!(matches!(protobuf, Ok(Route::Logs(LogsEncoding::Protobuf))));
        assert!(matches!(of(&HTTP, "/v1/logs", "text/plain"), Err(Refused::ContentType)));
        assert!(matches!(of(&HTTP, "/ndjson", ""), Ok(Route::Lines)));
        assert!(matches!(of(&OTLP, "/ndjson", ""), Err(Refused::LogsPath)));
        assert!(matches!(of(&OTLP, "/v1/traces", ""), Err(Refused::LogsPath)));
        assert!(matches!(of(&HTTP, "/_bulk", ""), Ok(Route::Sender)));
        assert!(matches!(of(&OTLP, "/_bulk", ""), Err(Refused::LogsPath)));
        for path in ["/ndjson", "/v1/logs", "/_bulk", "/gelf", "/upload"] {
            let got = Route::of(&HTTP, (Version::HTTP_11, &Method::GET), path, &HeaderMap::new());
            assert!(matches!(got, Err(Refused::Method)), "{path}");
        }
        let deleted = Route::of(&HTTP, (Version::HTTP_11, &Method::DELETE), "/", &HeaderMap::new());
        assert!(matches!(deleted, Err(Refused::Method)));
    }
}
