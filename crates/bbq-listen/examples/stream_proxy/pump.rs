//! One direction of a connection: what one side sends is written to the other.
//!
//! Invariant: nothing is read while something waits for a peer that does not read.

use std::cell::RefCell;
use std::sync::Arc;

use bbq_listen::AsyncConnection;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

/// Bytes of one read, and all that waits for a slow peer: large enough that the calls cost little beside the copying.
const BUFFER_BYTES: usize = 64 * 1024;
/// Reads of one direction before others run.
const READS_PER_TURN_MAX: usize = 16;

thread_local! {
    /// For all connections of a worker: what cannot be written at once is kept by the connection.
    static BUFFER: RefCell<Box<[u8; BUFFER_BYTES]>> = RefCell::new(Box::new([0; BUFFER_BYTES]));
}

/// What a direction does next.
enum Step {
    /// Wait for the one to be readable.
    Read,
    /// Wait for the other to take the rest.
    Write(Vec<u8>),
    /// It has more: let others run.
    Turn,
    Ended,
    Broken,
}

/// Forwards from `from` to `to` until the end. `count` gets the number of bytes of each read.
pub(crate) async fn pump(from: Arc<AsyncConnection>, to: Arc<AsyncConnection>, count: impl Fn(usize)) {
    loop {
        let Ok(mut ready) = from.readable().await else { return };
        match transfer(&from, &to, &count) {
            Step::Read => ready.clear_ready(),
            Step::Turn => tokio::task::yield_now().await,
            Step::Write(rest) => {
                if write_rest(&to, rest).await.is_err() {
                    return end_both(&from, &to);
                }
            }
            // The other direction may go on for long.
            Step::Ended => {
                let _ = shutdown(&to, Shutdown::Write);
                return;
            }
            Step::Broken => return end_both(&from, &to),
        }
    }
}

fn transfer(from: &AsyncConnection, to: &AsyncConnection, count: impl Fn(usize)) -> Step {
    BUFFER.with_borrow_mut(|buffer| {
        for _ in 0..READS_PER_TURN_MAX {
            let length = match recv(from, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Step::Ended,
                Ok((length, _)) => length,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Step::Read,
                Err(_) => return Step::Broken,
            };
            count(length);
            match write(to, &buffer[..length]) {
                Ok(written) if written < length => return Step::Write(buffer[written..length].to_vec()),
                Ok(_) if length < BUFFER_BYTES => return Step::Read, // nothing is left, and the next byte wakes the task
                Ok(_) => {}
                Err(_) => return Step::Broken,
            }
        }
        Step::Turn
    })
}

/// Writes until it would block; returns how much.
fn write(to: &AsyncConnection, bytes: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match send(to, &bytes[written..], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(length) => written += length,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(written)
}

async fn write_rest(to: &AsyncConnection, mut rest: Vec<u8>) -> std::io::Result<()> {
    while !rest.is_empty() {
        let mut ready = to.writable().await?;
        rest.drain(..write(to, &rest)?);
        if !rest.is_empty() {
            ready.clear_ready();
        }
    }
    Ok(())
}

/// So that the task of the other direction ends, too.
fn end_both(from: &AsyncConnection, to: &AsyncConnection) {
    for connection in [from, to] {
        let _ = shutdown(connection, Shutdown::Both);
    }
}
