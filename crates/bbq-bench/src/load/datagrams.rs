//! Datagrams at a rate, from several senders, and from each as many by one call as are due.
//!
//! What is due together leaves in one piece, which the kernel cuts into datagrams (UDP GSO): so one thread sends more than most
//! servers take.

use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use anyhow::Context;
use bbq_listen::{Group, GroupOptions, SendBatch};

use super::Load;
use super::pace::Pace;
use super::threads::{self, Done};
use crate::interrupt;

/// As many as one call sends: what a busy host has for its log server at a time, and no more than a server reads at once.
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
    let mut senders = (0..datagrams.senders).map(|_| sender()).collect::<anyhow::Result<Vec<_>>>()?;
    let message: Vec<u8> = (b'a'..=b'z').cycle().take(datagrams.bytes).collect();
    let server = SocketAddr::from(datagrams.server);
    let body = || {
        let mut done = Done::nothing()?;
        let end = Instant::now() + datagrams.duration;
        let mut pace = Pace::new(datagrams.per_second);
        let mut turn = 0;
        while Instant::now() < end {
            interrupt::check()?;
            let due = pace.due().min(PER_CALL as u64);
            if due == 0 {
                pace.wait();
                continue;
            }
            let sender = &mut senders[turn % datagrams.senders];
            turn += 1;
            for _ in 0..due {
                sender.add(server, |bytes| {
                    bytes.extend_from_slice(&message);
                    true
                });
            }
            sender.send();
            pace.done(due);
            done.operations += due;
            done.bytes += due * message.len() as u64;
        }
        let refused: u64 = senders.iter().map(SendBatch::failed).sum();
        anyhow::ensure!(refused == 0, "the kernel refused {refused} datagrams");
        Ok(done)
    };
    threads::run([body])
}

fn sender() -> anyhow::Result<SendBatch> {
    let group = Group::open(&GroupOptions::new("udp://127.0.0.1:0".parse()?, 1))?;
    let socket = group.sockets().into_iter().next().context("a group without a socket")?;
    Ok(SendBatch::new(socket))
}
