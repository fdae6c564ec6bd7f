//! When a server wants to be asked again (`Retry-After`, RFC 9110, 10.2.3).

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hyper::Response;
use hyper::header::{HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

/// A server that wants more time is asked again after this time: it may be well sooner, or its clock may be wrong.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Until when nothing is sent.
#[derive(Debug, Default)]
pub(crate) struct RetryAfter(Mutex<Option<Instant>>);

impl RetryAfter {
    /// Remembers what a response asks for, and returns it.
    pub(crate) fn note<B>(&self, response: &Response<B>) -> Option<Duration> {
        let wait = wanted(response.headers(), SystemTime::now())?;
        Some(self.remember(wait))
    }

    /// Sends nothing for this long, or the longest time, which it returns.
    pub(crate) fn remember(&self, wait: Duration) -> Duration {
        let wait = wait.min(WAIT_MAX);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + wait);
        wait
    }

    /// Until when nothing is to be sent; `None` if something may be sent now.
    pub(crate) fn until(&self) -> Option<Instant> {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.filter(|until| *until > Instant::now())
    }
}

/// Says in an error how long the server wants to be left alone.
pub(crate) fn shown(error: io::Error, wait: Option<Duration>) -> io::Error {
    match wait {
        None => error,
        Some(wait) => {
            io::Error::other(format!("{error}; it wants to be asked again in {} s", wait.as_secs()))
        }
    }
}

/// Seconds, or a date.
fn wanted(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_seconds_or_a_date_and_never_longer_than_a_minute() {
        let now = httpdate::parse_http_date("Wed, 25 Nov 2026 18:00:00 GMT").unwrap();
        for (text, seconds) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("86400", Some(60)),
            ("Wed, 25 Nov 2026 18:00:09 GMT", Some(9)),
            ("Wed, 25 Nov 2026 17:00:00 GMT", Some(0)),
            ("Thu, 26 Nov 2026 18:00:00 GMT", Some(60)),
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
