//! Lines over connections that stay open, written in large pieces, as a log shipper does.

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::Load;
use super::pipe::{self, PIECE_BYTES};
use super::source::Sources;
use super::threads::{self, Done};
use crate::interrupt;

/// Who sends what to whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines {
    pub(crate) server: SocketAddrV4,
    /// A thread each.
    pub(crate) connections: usize,
    /// With the line feed.
    pub(crate) line_bytes: usize,
    pub(crate) duration: Duration,
}

/// Runs it. Nothing is answered, so nothing is known but what the kernel took.
pub(crate) fn run(lines: &Lines) -> anyhow::Result<Load> {
    let sources = Sources::new()?;
    let connect = |_| sources.connect(lines.server).map(OwnedFd::from);
    let streams = (0..lines.connections).map(connect).collect::<anyhow::Result<Vec<_>>>()?;
    let piece = piece(lines.line_bytes);
    let end = Instant::now() + lines.duration;
    threads::run(streams.into_iter().map(|stream| {
        let piece = &piece;
        move || {
            let mut done = Done::nothing()?;
            while Instant::now() < end {
                interrupt::check()?;
                pipe::send_all(&stream, piece)?;
                done.operations += (piece.len() / lines.line_bytes) as u64;
                done.bytes += piece.len() as u64;
            }
            Ok(done)
        }
    }))
}

fn piece(line_bytes: usize) -> Vec<u8> {
    let line: Vec<u8> = (b'a'..=b'z').cycle().take(line_bytes - 1).chain([b'\n']).collect();
    line.repeat((PIECE_BYTES / line_bytes).max(1))
}
