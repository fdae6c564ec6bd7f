//! As much of HTTP as answers `OK`: a request is what ends in an empty line, and its connection stays open unless it says
//! `Connection: close`.
//!
//! Not a web server: that is the example `http_ok` of bbq-listen, which checks what it reads.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bbq_listen::{Accepted, AsyncConnection, OpenCount};
use memchr::memmem;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::work::spend;

/// Requests are shorter: one that does not fit ends its connection.
const READ_BYTES: usize = 8 * 1024;
/// A worker is blocked for no longer, whatever the request says.
const BLOCK_MAX: Duration = Duration::from_secs(5);
const OPEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nOK";
const CLOSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK";

thread_local! {
    /// For all connections of a worker: one that waits keeps only the beginning of its request.
    static BUFFER: RefCell<[u8; READ_BYTES]> = const { RefCell::new([0; READ_BYTES]) };
}

/// Serves a connection just accepted: at once as far as it goes, the rest in a task.
pub(super) fn begin(accepted: Accepted, work: Duration, count: &Arc<AtomicU64>) {
    let mut partial = Vec::new();
    if !advance(accepted.stream.as_fd(), &mut partial, work, count) {
        return;
    }
    let _ = rustix::net::sockopt::set_tcp_nodelay(&accepted.stream, true);
    tokio::spawn(go_on(accepted.stream, accepted.open, partial, work, Arc::clone(count)));
}

async fn go_on(
    stream: OwnedFd,
    open: Option<OpenCount>,
    mut partial: Vec<u8>,
    work: Duration,
    count: Arc<AtomicU64>,
) {
    let _open = open;
    let Ok(connection) = AsyncConnection::for_reading(stream) else { return };
    while let Ok(mut ready) = connection.readable().await {
        if !advance(connection.as_fd(), &mut partial, work, &count) {
            return;
        }
        ready.clear_ready();
    }
}

/// Reads and answers until nothing is left for now; whether the connection goes on.
fn advance(stream: BorrowedFd<'_>, partial: &mut Vec<u8>, work: Duration, count: &AtomicU64) -> bool {
    BUFFER.with_borrow_mut(|buffer| {
        loop {
            let kept = partial.len();
            buffer[..kept].copy_from_slice(partial);
            let received = match recv(stream, &mut buffer[kept..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((received, _)) => received,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            };
            let filled = kept + received;
            let Some(used) = answer_all(stream, &buffer[..filled], work, count) else { return false };
            partial.clear();
            partial.extend_from_slice(&buffer[used..filled]);
            if filled < READ_BYTES {
                return true;
            }
            if used == 0 {
                return false;
            }
        }
    })
}

/// Answers the requests in `input`; how much of it they were, or `None` at the end of the connection.
fn answer_all(stream: BorrowedFd<'_>, input: &[u8], work: Duration, count: &AtomicU64) -> Option<usize> {
    let mut used = 0;
    while let Some(length) = memmem::find(&input[used..], b"\r\n\r\n") {
        let request = &input[used..used + length];
        used += length + 4;
        do_as_asked(request);
        spend(work);
        let close = memmem::find(request, b"\r\nConnection: close").is_some();
        let answer = if close { CLOSE } else { OPEN };
        // An answer is 90 bytes, and who asks reads it before he asks again: it fits, or the client is none of ours.
        let sent = send(stream, answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        if sent != Ok(answer.len()) {
            return None;
        }
        count.fetch_add(1, Relaxed);
        if close {
            return None;
        }
    }
    Some(used)
}

/// `GET /block/MS` keeps the worker from everything else for so long, `GET /wait/US` for so many microseconds. `GET /spend/US` takes
/// so much processor time.
fn do_as_asked(request: &[u8]) {
    let Some((word, rest)) = request.strip_prefix(b"GET /").and_then(|target| {
        let slash = target.iter().position(|byte| *byte == b'/')?;
        Some((&target[..slash], &target[slash + 1..]))
    }) else {
        return;
    };
    let digits = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let wait = |time: Duration| crate::pause::until(std::time::Instant::now() + time.min(BLOCK_MAX));
    match word {
        b"block" => wait(Duration::from_millis(number)),
        b"wait" => wait(Duration::from_micros(number)),
        b"spend" => spend(Duration::from_micros(number).min(BLOCK_MAX)),
        _ => {}
    }
}
