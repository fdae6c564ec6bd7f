//! A connection for each message: connect, send, close at once, from several threads.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Load;
use super::source::Sources;
use super::threads::{self, Done};

/// What to send to whom.
#[derive(Debug)]
pub(crate) struct Messages<'a> {
    pub(crate) server: SocketAddrV4,
    pub(crate) threads: usize,
    pub(crate) duration: Duration,
    /// Fits into an empty socket buffer.
    pub(crate) message: &'a [u8],
}

/// Runs it. Latency is from before the socket is made to after it is closed.
///
/// `sent` says how many were sent so far, to somebody who watches.
pub(crate) fn run(messages: &Messages<'_>, sent: &AtomicU64) -> anyhow::Result<Load> {
    let sources = Sources::new()?;
    let end = Instant::now() + messages.duration;
    let body = || {
        let mut done = Done::nothing()?;
        loop {
            let began = Instant::now();
            if began >= end {
                return Ok(done);
            }
            let stream = OwnedFd::from(sources.connect(messages.server)?);
            super::http::ask(&stream, messages.message)?;
            drop(stream);
            done.count(began.elapsed());
            done.bytes += messages.message.len() as u64;
            sent.fetch_add(1, Ordering::Relaxed);
        }
    };
    threads::run(std::iter::repeat_n(body, messages.threads))
}
