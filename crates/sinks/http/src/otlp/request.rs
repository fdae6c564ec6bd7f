//! What requests by HTTP and by gRPC have in common.

use std::io;

use bbq_format::otlp::PartialSuccess;
use bbq_sink::Verdict;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Uri};

use crate::http::coding::Coding;
use crate::http::headers::Headers;
use crate::http::response;

/// What a SPEC says of its requests.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// One for each receiver.
    pub(super) uris: Vec<Uri>,
    pub(super) coding: Coding,
    pub(super) headers: Headers,
}

impl Settings {
    /// A request with a body, to which the headers of its way are added.
    pub(super) fn request<B>(&self, uri: &Uri, body: B, content_type: &'static str) -> Request<B> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.headers.add_to(request.headers_mut());
        request
    }

    /// A text of the server, for people.
    pub(super) fn shown(&self, text: &str) -> String {
        response::shown(text, &self.headers)
    }

    /// What a response of `uri` says that has taken the request.
    pub(super) fn taken(&self, uri: &Uri, partial_success: Option<PartialSuccess>) -> Verdict {
        match partial_success {
            Some(partial) if partial != PartialSuccess::default() => {
                let rejected = u64::try_from(partial.rejected_log_records).unwrap_or(0);
                let why = format!("{uri} rejects {rejected}: {:?}", self.shown(&partial.error_message));
                Verdict::Partly { rejected, why }
            }
            _ => Verdict::Taken,
        }
    }
}

/// An error of a receiver.
pub(super) fn error(uri: &Uri, why: &str) -> io::Error {
    io::Error::other(format!("{uri} {why}"))
}
