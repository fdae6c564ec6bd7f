//! Bytes over one connection in large pieces, and at the end a wait for the word that they have arrived.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::Load;
use super::source::Sources;
use super::threads::{self, Done};
use crate::interrupt;

/// Bytes of one write, about.
pub(crate) const PIECE_BYTES: usize = 64 * 1024;
/// Holds the answers to some hundred requests: an acknowledgement of bbq's is 24 bytes, one of JetStream's about 70.
pub(super) const READ_BYTES: usize = 16 * 1024;

/// What to send to whom.
pub(crate) struct Pipe<'a> {
    pub(crate) server: SocketAddrV4,
    pub(crate) duration: Duration,
    /// Sent first.
    pub(crate) hello: &'a [u8],
    /// Sent again and again.
    pub(crate) piece: &'a [u8],
    /// Messages of a piece, and their bytes without what is around them.
    pub(crate) messages: u64,
    pub(crate) message_bytes: u64,
    /// Sent last; when it is empty, the end of the stream is the question.
    pub(crate) question: &'a [u8],
    /// Whether what came from the server answers it.
    pub(crate) is_answer: fn(&[u8]) -> bool,
}

/// Runs it; the time is until the answer.
pub(crate) fn run(pipe: &Pipe<'_>) -> anyhow::Result<Load> {
    let stream = OwnedFd::from(Sources::new()?.connect(pipe.server)?);
    let end = Instant::now() + pipe.duration;
    threads::run([|| {
        let mut done = Done::nothing()?;
        send_all(&stream, pipe.hello)?;
        while Instant::now() < end {
            interrupt::check()?;
            send_all(&stream, pipe.piece)?;
            done.operations += pipe.messages;
            done.bytes += pipe.messages * pipe.message_bytes;
        }
        send_all(&stream, pipe.question)?;
        if pipe.question.is_empty() {
            shutdown(&stream, Shutdown::Write).context("shutdown")?;
        }
        wait_answer(&stream, pipe.is_answer)?;
        Ok(done)
    }])
}

fn wait_answer(stream: &OwnedFd, is_answer: fn(&[u8]) -> bool) -> anyhow::Result<()> {
    let mut said = Vec::new();
    while !is_answer(&said) {
        receive(stream, &mut said)
            .with_context(|| format!("the server said {:?}", String::from_utf8_lossy(&said)))?;
    }
    Ok(())
}

/// Waits for more, on a blocking socket.
pub(super) fn receive(stream: &OwnedFd, input: &mut Vec<u8>) -> anyhow::Result<()> {
    let mut buffer = [0; READ_BYTES];
    match recv(stream, &mut buffer, RecvFlags::empty()) {
        Ok((0, _)) => anyhow::bail!("the server closed the connection"),
        Ok((length, _)) => input.extend_from_slice(&buffer[..length]),
        Err(Errno::INTR) => {}
        Err(error) => return Err(error).context("the server's answer cannot be read"),
    }
    Ok(())
}

/// On a blocking socket.
pub(super) fn send_all(stream: &OwnedFd, mut bytes: &[u8]) -> anyhow::Result<()> {
    while !bytes.is_empty() {
        match send(stream, bytes, SendFlags::NOSIGNAL) {
            Ok(length) => bytes = &bytes[length..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot be sent"),
        }
    }
    Ok(())
}
