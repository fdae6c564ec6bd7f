//! The page of the HTTP examples.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::block::block;
use crate::conversation::{Next, OUTPUT_BYTES_ENOUGH, Protocol};
use crate::http::{self, Refusal, Request};

/// One worker's site.
pub(crate) struct Site {
    answer: Mutex<Answer>,
    allow_block: bool,
    requests: AtomicU64,
}

/// The encoded response. It is made again each second, for its Date.
struct Answer {
    second: u64,
    bytes: Vec<u8>,
    /// Where the page begins in `bytes`.
    page_at: usize,
}

impl Site {
    pub(crate) fn new(page: &[u8], allow_block: bool) -> Self {
        let mut answer = Answer { second: 0, bytes: page.to_vec(), page_at: 0 };
        answer.date(second_now());
        Self { answer: Mutex::new(answer), allow_block, requests: AtomicU64::new(0) }
    }

    /// Requests answered.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// As [`Protocol::answer`], at a time that is given: the same input has the same answers.
    pub(crate) fn answer_at(&self, second: u64, input: &[u8], output: &mut Vec<u8>) -> (usize, Next) {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        answer.date(second);
        let (mut used, mut requests) = (0, 0);
        let next = loop {
            match http::parse(&input[used..]) {
                Ok(request) => {
                    self.block(request.target);
                    answer.write(request, output);
                    used += request.length;
                    requests += 1;
                    if request.close {
                        break Next::Close;
                    }
                }
                Err(Refusal::Incomplete) => break Next::Read,
                Err(refusal) => {
                    output.extend_from_slice(refusal.answer());
                    break Next::Refuse;
                }
            }
            if used == input.len() {
                break Next::Read;
            }
            if output.len() >= OUTPUT_BYTES_ENOUGH {
                break Next::Write;
            }
        };
        self.requests.fetch_add(requests, Relaxed);
        (used, next)
    }

    fn block(&self, target: &[u8]) {
        if let Some(milliseconds) = target.strip_prefix(b"/block/").filter(|_| self.allow_block) {
            block(milliseconds);
        }
    }
}

impl Answer {
    fn date(&mut self, second: u64) {
        if second == self.second {
            return;
        }
        self.second = second;
        let page = self.bytes.split_off(self.page_at);
        self.bytes = format!(
            "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
            httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second)),
            page.len()
        )
        .into_bytes();
        self.page_at = self.bytes.len();
        self.bytes.extend(page);
    }

    fn write(&self, request: Request<'_>, output: &mut Vec<u8>) {
        let (head, page) = self.bytes.split_at(self.page_at);
        if request.close {
            output.extend_from_slice(head.strip_suffix(b"\r\n").unwrap_or(head));
            output.extend_from_slice(b"Connection: close\r\n\r\n");
        } else {
            output.extend_from_slice(head);
        }
        if !request.head_only {
            output.extend_from_slice(page);
        }
    }
}

impl Protocol for Arc<Site> {
    fn answer(&self, input: &[u8], output: &mut Vec<u8>) -> (usize, Next) {
        self.answer_at(second_now(), input, output)
    }
}

/// Seconds since 1970.
pub(crate) fn second_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
