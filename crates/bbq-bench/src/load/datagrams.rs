//! Datagrams at a rate, from several senders, and from each as many by one call as are due.

use std::io::IoSlice;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::Load;
use super::pace::Pace;
use super::source::Sources;
use super::threads::{self, Done};

/// As many as one call sends.
const PER_CALL: usize = 32;

/// Who sends what to whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagrams {
    pub(crate) server: SocketAddrV4,
    /// Each with a socket of its own, and all in one thread: what is sent on loopback is received in it, mostly.
    pub(crate) senders: usize,
    pub(crate) bytes: usize,
    /// Of all together.
    pub(crate) per_second: f64,
    pub(crate) duration: Duration,
}

/// Runs it. An operation is a datagram that the kernel took.
pub(crate) fn run(datagrams: &Datagrams) -> anyhow::Result<Load> {
    let sources = Sources::new()?;
    let connect = |_| sources.datagrams_to(datagrams.server).map(OwnedFd::from);
    let sockets = (0..datagrams.senders).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
    let message: Vec<u8> = (b'a'..=b'z').cycle().take(datagrams.bytes).collect();
    let body = || {
        let mut done = Done::nothing()?;
        let end = Instant::now() + datagrams.duration;
        let mut pace = Pace::new(datagrams.per_second);
        let mut turn = 0;
        while Instant::now() < end {
            let due = pace.due().min(PER_CALL as u64);
            if due == 0 {
                pace.wait();
                continue;
            }
            let sent = send(&sockets[turn % sockets.len()], &message, due as usize)?;
            turn += 1;
            pace.done(sent);
            done.operations += sent;
            done.bytes += sent * message.len() as u64;
        }
        Ok(done)
    };
    threads::run([body])
}

fn send(socket: &OwnedFd, message: &[u8], count: usize) -> anyhow::Result<u64> {
    let slices = [IoSlice::new(message)];
    let mut controls: [SendAncillaryBuffer<'_, '_, '_>; PER_CALL] =
        std::array::from_fn(|_| SendAncillaryBuffer::default());
    let mut messages: Vec<MMsgHdr<'_>> =
        controls.iter_mut().take(count).map(|control| MMsgHdr::new(&slices, control)).collect();
    loop {
        match sendmmsg(socket, &mut messages, SendFlags::empty()) {
            Ok(sent) => return Ok(sent as u64),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("datagrams cannot be sent"),
        }
    }
}
