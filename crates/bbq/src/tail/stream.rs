//! The answer of the admin to `GET /tail`, line by line.

use std::error::Error;
use std::time::Duration;

use anyhow::anyhow;
use bbq_server::config::Secret;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::arguments::TailArguments;
use crate::outcome::misuse;
use crate::question::nobody_at;

/// A server that does not answer within this time is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The server sends something every five seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// A line holds a message of at most 16 KiB, whose characters may be escaped, and its fields.
const LINE_BYTES_MAX: usize = 1 << 20;
/// The option, and the word of the query, for where a tail begins.
const FROM: &str = "from";
/// Of an error.
const TEXT_BYTES_MAX: usize = 4096;

pub(super) struct Stream {
    body: Incoming,
    /// What came and is not printed: the beginning of a line, perhaps behind whole lines.
    buffer: Vec<u8>,
    /// The beginning of the next line in the buffer.
    at: usize,
    connection: JoinHandle<Result<(), hyper::Error>>,
}

/// Why there is no stream.
pub(super) enum Ended {
    /// Another try may help.
    Away(anyhow::Error),
    Refused(anyhow::Error),
}

impl Stream {
    pub(super) async fn open(
        arguments: &TailArguments,
        from: &str,
        token: Option<&Secret>,
    ) -> Result<Stream, Ended> {
        let admin = arguments.server.admin;
        let away = |what: &str| Ended::Away(anyhow!("no bbq server answers at {admin}: {what}"));
        let nobody = |error: &dyn Error| Ended::Away(anyhow!("{}", nobody_at(admin, &error.to_string())));
        let connected = timeout(ANSWER_TIMEOUT, TcpStream::connect(admin)).await;
        let stream = connected.map_err(|_| away("no answer"))?.map_err(|error| nobody(&error))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| away(&error.to_string()))?;
        let connection = tokio::spawn(connection);
        let request = request(arguments, from, token).map_err(Ended::Refused)?;
        let answer = timeout(ANSWER_TIMEOUT, sender.send_request(request)).await;
        let response = answer.map_err(|_| away("no answer"))?.map_err(|error| away(&error.to_string()))?;
        if response.status().is_success() {
            return Ok(Stream { body: response.into_body(), buffer: Vec::new(), at: 0, connection });
        }
        Err(Ended::Refused(refusal(arguments, token, response).await))
    }

    /// `None` when the server ended it, or is silent for too long.
    pub(super) async fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[self.at..]) {
                let line = self.buffer[self.at..self.at + length].to_vec();
                self.at += length + 1;
                return Some(line);
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            if self.buffer.len() > LINE_BYTES_MAX {
                return None;
            }
            let frame = timeout(SILENCE_MAX, self.body.frame()).await.ok()??.ok()?;
            if let Ok(bytes) = frame.into_data() {
                self.buffer.extend_from_slice(&bytes);
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// The options that choose messages. In the query of the URL they have the same names.
fn filters(arguments: &TailArguments) -> [(&'static str, Option<&String>); 9] {
    [
        ("listener", arguments.listener.as_ref()),
        ("peer", arguments.peer.as_ref()),
        ("stream", arguments.stream.as_ref()),
        ("facility", arguments.facility.as_ref()),
        ("severity", arguments.severity.as_ref()),
        ("text", arguments.text.as_ref()),
        ("grep", arguments.grep.as_ref()),
        ("where", arguments.condition.as_ref()),
        ("parse", arguments.parse.as_ref()),
    ]
}

fn request(
    arguments: &TailArguments,
    from: &str,
    token: Option<&Secret>,
) -> anyhow::Result<Request<Empty<Bytes>>> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair(FROM, from);
    for (key, value) in filters(arguments) {
        if let Some(value) = value {
            query.append_pair(key, value);
        }
    }
    let path = format!("/tail?{}", query.finish());
    let mut request = Request::get(path).header("host", arguments.server.admin.to_string());
    if let Some(token) = token {
        // The error of a token that fits no header does not show it.
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    Ok(request.body(Empty::new())?)
}

async fn refusal(
    arguments: &TailArguments,
    token: Option<&Secret>,
    response: Response<Incoming>,
) -> anyhow::Error {
    let (admin, code) = (arguments.server.admin, response.status());
    if code == StatusCode::UNAUTHORIZED {
        let which = if token.is_some() { "another token" } else { "a token" };
        return anyhow!(
            "{admin} asks for {which}: use --token-file FILE or BBQ_TOKEN with one of the server's admin_token_file"
        );
    }
    let text = Limited::new(response.into_body(), TEXT_BYTES_MAX).collect().await;
    let text =
        text.map(|text| String::from_utf8_lossy(&text.to_bytes()).trim().to_owned()).unwrap_or_default();
    match code {
        StatusCode::BAD_REQUEST => {
            let known = filters(arguments).map(|(key, _)| key);
            misuse(anyhow!("{}", of_option(&text, &known)))
        }
        StatusCode::NOT_FOUND => {
            anyhow!("the server at {admin} has no tail: its version is older, or it is not bbq")
        }
        _ => anyhow!("{admin} refuses: {text} ({code})"),
    }
}

/// The server names a word of the query, as in `grep=[: ...` or `where: ...`; the user wrote an option.
fn of_option(text: &str, known: &[&str]) -> String {
    let word = text.split(['=', ':']).next().unwrap_or_default();
    let is_option = word.len() < text.len() && (word == FROM || known.contains(&word));
    if is_option { format!("--{text}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::of_option;

    #[test]
    fn a_mistake_is_told_by_the_option() {
        for (text, shown) in [
            ("grep=[: it is not a regular expression", "--grep=[: it is not a regular expression"),
            ("where: column 1: no", "--where: column 1: no"),
            ("from=soon: use now", "--from=soon: use now"),
            ("where", "where"),
            ("another word: no", "another word: no"),
        ] {
            assert_eq!(of_option(text, &["grep", "where"]), shown);
        }
    }
}
