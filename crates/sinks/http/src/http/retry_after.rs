//! When a server wants to be asked again (`Retry-After`, RFC 9110, 10.2.3).

use std::io;
use std::time::{Duration, SystemTime};

use bbq_sink::Receiver;
use hyper::Response;
use hyper::header::{HeaderMap, RETRY_AFTER};

/// Leaves a receiver alone for as long as its response asks for. Returns how long, if it does.
pub fn note<S, B>(receiver: &Receiver<S>, response: &Response<B>) -> Option<Duration> {
    let wait = wanted(response.headers(), SystemTime::now())?;
    Some(receiver.leave_alone(wait))
}

/// Says in an error how long the server wants to be left alone.
pub fn shown(error: io::Error, wait: Option<Duration>) -> io::Error {
    match wait {
        None => error,
        Some(wait) => io::Error::other(format!("{error}; it asks for another try in {} s", wait.as_secs())),
    }
}

/// Seconds, or a date.
fn wanted(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    Some(match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Wed, 25 Nov 2026 18:00:00 GMT").unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("86400", Some(86_400)),
            ("Wed, 25 Nov 2026 18:00:09 GMT", Some(9)),
            ("Wed, 25 Nov 2026 17:00:00 GMT", Some(0)),
            ("Thu, 26 Nov 2026 18:00:00 GMT", Some(86_400)),
            ("-1", None),
            ("soon", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            assert_eq!(wanted(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(wanted(&HeaderMap::new(), now), None);
    }
}
