//! The responses of the server of an `http:` sink.
//!
//! The status alone decides what happens to the messages, but for servers that say it of each message (`preset`). The body
//! is read for a short time: the beginning of an error is shown, and a connection is used again after its body was read to
//! the end. A longer body costs the connection.
//!
//! The shown text of a response does not contain the secrets of the request, which some servers repeat (`headers`).

use std::io;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Response, StatusCode, Uri};

use super::headers::Headers;

/// A server sends a body with its head or right after it. This time is a few round trips to a distant server.
const BODY_TIME_MAX: Duration = Duration::from_millis(500);
/// Bytes of a body that are read; the beginning is shown when it is an error.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a response that has something to say of each message: some hundred for each of those that fit into a body.
const VERDICTS_BYTES_MAX: usize = 64 * 1024 * 1024;
const SHOWN_CHARACTERS_MAX: usize = 200;

/// Reads what is left of a response, so that its connection can be used again.
pub async fn finish(response: Response<Incoming>) {
    read(response.into_body()).await;
}

/// Returns what has arrived of the body of a response after a short time.
pub async fn beginning(response: Response<Incoming>) -> Vec<u8> {
    read(response.into_body()).await
}

/// Returns why the server refuses a body for good, as a text for people. `text` is the body of the response, and `headers`
/// were in the request.
///
/// # Errors
/// The server may take the same body later.
pub fn refusal(uri: &Uri, status: StatusCode, text: &str, headers: &Headers) -> io::Result<String> {
    let shown = shown(text, headers);
    let message = format!("{uri} responds {status} {shown:?}");
    let remedy = match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            return Ok(message);
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "; check format and compress",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; check the options authorization and headers",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => "; make the values of headers shorter",
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => "; check the path",
        _ if status.is_redirection() => "; write the URL that it redirects to",
        _ => "",
    };
    Err(io::Error::other(message + remedy))
}

/// The beginning of a text of the server, as it is shown.
pub(crate) fn shown(text: &str, headers: &Headers) -> String {
    let text = headers.hide_in(text);
    text.lines().next().unwrap_or_default().chars().take(SHOWN_CHARACTERS_MAX).collect()
}

/// Returns the whole body of a response that says for each message what became of it.
///
/// # Errors
/// It does not arrive, or is longer than it may be.
pub(crate) async fn whole(uri: &Uri, response: Response<Incoming>) -> io::Result<Vec<u8>> {
    let unfinished = |why: String| io::Error::other(format!("{uri} responds incompletely: {why}"));
    let mut body = response.into_body();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unfinished(error.to_string()))?;
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if text.len() > VERDICTS_BYTES_MAX {
            return Err(unfinished(format!("a response has more than {VERDICTS_BYTES_MAX} bytes")));
        }
    }
    Ok(text)
}

/// Returns a body, or as much of it as arrives in time.
async fn read(mut body: Incoming) -> Vec<u8> {
    let mut text = Vec::new();
    let frames = async {
        while text.len() < BODY_BYTES_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            text.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        }
    };
    let _cut_off = tokio::time::timeout(BODY_TIME_MAX, frames).await;
    text
}
