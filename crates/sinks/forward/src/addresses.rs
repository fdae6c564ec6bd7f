//! A connection to the first address of a host that accepts one.
//!
//! Each address has an attempt of its own: while an earlier one has not responded, the next one is tried beside it (RFC 8305).
//! So an address behind which nothing responds delays a connection, and does not prevent it.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Duration, sleep, timeout};

/// A server that does not accept a connection within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The next address is tried when the one before has said nothing for this long: RFC 8305, section 8 ("Connection Attempt Delay").
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of a host that are tried, as many attempts at a time at most. A name with more has others when it is resolved again.
const ADDRESSES_MAX: usize = 16;

/// See the module.
///
/// # Errors
/// None of the addresses accepted a connection; the error is that of the attempt that ended last.
pub(super) async fn connect_to_any(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut untried = addresses.take(ADDRESSES_MAX).peekable();
    let mut failed = io::Error::other("its name has no address");
    // Those that are left when this function returns are given up.
    let mut attempts = JoinSet::new();
    loop {
        if let Some(address) = untried.next() {
            attempts.spawn(in_time(TcpStream::connect(address)));
        }
        let is_another_left = untried.peek().is_some();
        tokio::select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failed = error,
                Err(panic) => failed = io::Error::other(panic),
            },
            () = sleep(ATTEMPT_DELAY), if is_another_left => {}
            else => return Err(failed),
        }
    }
}

/// Gives up what takes too long.
pub(super) async fn in_time<T>(connect: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(CONNECT_TIMEOUT, connect).await.unwrap_or_else(|_| {
        let seconds = CONNECT_TIMEOUT.as_secs();
        let text = format!("the server did not accept the connection within {seconds} s");
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}
