//! Sends datagrams together: one system call for many, and one message for several to one peer (`UDP_SEGMENT`, also called UDP
//! GSO).
//!
//! It never waits, and needs no runtime. A datagram that the kernel does not take is dropped and counted.
//!
//! Invariant: each datagram that was added is sent as one datagram; their order is not kept.
//! Invariant: the datagrams of a refused message are sent singly before they count as failed.

use std::cmp::Reverse;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::sys::{self, DATAGRAMS_PER_CALL, Message};
use crate::{Datagram, Socket};

/// The most datagrams in a batch: the replies to all that a batch of `AsyncDatagrams` receives.
pub const SEND_BATCH_DATAGRAMS_MAX: usize = 256;
/// The most datagrams in one message: `UDP_MAX_SEGMENTS` of the kernels before 6.9.
const SEGMENTS_MAX: usize = 64;
/// A longer datagram is sent alone: a path with a smaller MTU can fragment it, but not segments. Every IPv6 path carries this size.
const SEGMENT_BYTES_MAX: usize = 1232;
/// The longest UDP payload over IPv4, also for a message of segments.
const MESSAGE_BYTES_MAX: usize = 65_507;
const _: () = assert!(SEGMENT_BYTES_MAX <= u16::MAX as usize);

/// Datagrams to be sent together from one socket, mostly replies to a batch that was received.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::net::UdpSocket;
///
/// use bbq_listen::{Group, SendBatch};
///
/// let group = Group::at("udp://127.0.0.1:0")?.workers(1).open()?;
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// let mut batch = SendBatch::new(group.worker_listener(0)?.socket().clone());
/// for text in ["one", "two"] {
///     batch.add(client.local_addr()?, |bytes| {
///         bytes.extend_from_slice(text.as_bytes());
///         true
///     });
/// }
/// batch.send();
/// assert_eq!(batch.sent(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SendBatch {
    socket: Arc<Socket>,
    /// The bytes of all datagrams.
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    segments: Segments,
    sent: u64,
    failed: u64,
}

/// Whether several datagrams may be one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Segments {
    Never,
    Allowed,
}

/// One datagram: its place in `SendBatch::bytes`.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    peer: SocketAddr,
    /// The address that it leaves from, if that matters.
    local: Option<IpAddr>,
    start: usize,
    length: usize,
}

impl SendBatch {
    /// For datagrams from `socket`, which must be a UDP socket.
    pub fn new(socket: Arc<Socket>) -> SendBatch {
        let segments = if sys::knows_segments(socket.as_fd()) { Segments::Allowed } else { Segments::Never };
        SendBatch { socket, bytes: Vec::new(), waiting: Vec::new(), segments, sent: 0, failed: 0 }
    }

    /// Datagrams sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Datagrams that the kernel did not take: its buffer was full, or it has no route to the peer.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// Adds a datagram to `peer`: `fill` appends its bytes and returns true, or returns false for none. A batch of
    /// [`SEND_BATCH_DATAGRAMS_MAX`] datagrams is sent at once.
    pub fn add(&mut self, peer: SocketAddr, fill: impl FnOnce(&mut Vec<u8>) -> bool) {
        self.add_from(None, peer, fill);
    }

    /// Adds a reply to a datagram, as [`add`](Self::add) does. It leaves from the address that the datagram was sent to. A datagram
    /// without a peer gets none.
    pub fn reply(&mut self, to: &Datagram<'_>, fill: impl FnOnce(&mut Vec<u8>) -> bool) {
        if let Some(peer) = to.peer.0 {
            self.add_from(to.local, peer, fill);
        }
    }

    fn add_from(&mut self, local: Option<IpAddr>, peer: SocketAddr, fill: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.bytes.len();
        if !fill(&mut self.bytes) {
            self.bytes.truncate(start);
            return;
        }
        self.waiting.push(Waiting { peer, local, start, length: self.bytes.len() - start });
        if self.waiting.len() == SEND_BATCH_DATAGRAMS_MAX {
            self.send();
        }
    }

    /// Sends all datagrams of the batch.
    pub fn send(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let bytes = std::mem::take(&mut self.bytes);
        if self.segments == Segments::Allowed {
            // By peer, and the longest first: only the last segment of a message may be shorter.
            waiting.sort_unstable_by_key(|one| (one.peer, one.local, Reverse(one.length)));
        }
        let pieces: Vec<IoSlice<'_>> =
            waiting.iter().map(|one| IoSlice::new(&bytes[one.start..one.start + one.length])).collect();
        self.send_all(&waiting, &pieces, Segments::Allowed);
        waiting.clear();
        self.waiting = waiting;
        self.bytes = bytes;
        self.bytes.clear();
    }

    /// Sends `waiting`, whose bytes are `pieces`, and returns how many the kernel took.
    fn send_all(&mut self, mut waiting: &[Waiting], mut pieces: &[IoSlice<'_>], segments: Segments) -> usize {
        let mut sent = 0;
        while !waiting.is_empty() {
            let messages = messages(waiting, pieces, segments.min(self.segments));
            let done = match sys::send_many(self.socket.as_fd(), &messages) {
                Ok(taken) => {
                    let datagrams = messages[..taken].iter().map(|message| message.pieces.len()).sum();
                    self.sent += datagrams as u64;
                    sent += datagrams;
                    datagrams
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR) => 0,
                    Some(Errno::AGAIN) => {
                        self.failed += waiting.len() as u64;
                        return sent;
                    }
                    // The error is of the first message; the others may succeed.
                    errno => {
                        let refused = messages[0].pieces.len();
                        if messages[0].segment_bytes.is_some() {
                            sent += self.send_singly(&waiting[..refused], &pieces[..refused], errno);
                        } else {
                            self.failed += 1;
                        }
                        refused
                    }
                },
            };
            (waiting, pieces) = (&waiting[done..], &pieces[done..]);
        }
        sent
    }

    /// Sends the datagrams of a message that was refused with `errno` singly.
    fn send_singly(&mut self, refused: &[Waiting], pieces: &[IoSlice<'_>], errno: Option<Errno>) -> usize {
        let sent = self.send_all(refused, pieces, Segments::Never);
        // If that succeeds, the error was about segments and would come again: a device without checksums, or a filter that knows
        // no segments. MSGSIZE concerns the path to this peer alone.
        if sent > 0 && errno != Some(Errno::MSGSIZE) {
            self.segments = Segments::Never;
        }
        sent
    }
}

/// `waiting`, whose bytes are `pieces`, in as many messages as one call takes.
fn messages<'a>(waiting: &[Waiting], pieces: &'a [IoSlice<'a>], segments: Segments) -> Vec<Message<'a>> {
    let mut messages = Vec::with_capacity(DATAGRAMS_PER_CALL.min(waiting.len()));
    let mut at = 0;
    while at < waiting.len() && messages.len() < DATAGRAMS_PER_CALL {
        let count = match segments {
            Segments::Never => 1,
            Segments::Allowed => together(&waiting[at..]),
        };
        messages.push(Message {
            peer: waiting[at].peer,
            local: waiting[at].local,
            pieces: &pieces[at..at + count],
            segment_bytes: (count > 1).then_some(waiting[at].length as u16), // at most SEGMENT_BYTES_MAX
        });
        at += count;
    }
    messages
}

/// How many of the first in `waiting` can be one message.
fn together(waiting: &[Waiting]) -> usize {
    let first = waiting[0];
    if first.length > SEGMENT_BYTES_MAX || first.length == 0 {
        return 1;
    }
    let count_max = SEGMENTS_MAX.min(MESSAGE_BYTES_MAX / first.length);
    let mut count = 1;
    for next in waiting[1..].iter().take(count_max - 1) {
        if (next.peer, next.local) != (first.peer, first.local) || next.length == 0 {
            break;
        }
        count += 1;
        if next.length < first.length {
            break;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;
    use crate::{Distribution, Group, GroupOptions};

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    /// Datagrams by port and length.
    fn waiting(of: &[(u16, usize)]) -> Vec<Waiting> {
        of.iter().map(|&(port, length)| Waiting { peer: peer(port), local: None, start: 0, length }).collect()
    }

    fn add(batch: &mut SendBatch, to: SocketAddr, text: &[u8]) {
        batch.add(to, |bytes| {
            bytes.extend_from_slice(text);
            true
        });
    }

    #[test]
    fn equal_ones_to_one_peer_are_together_and_only_the_last_may_be_shorter() {
        assert_eq!(together(&waiting(&[(1, 9), (1, 9), (1, 5), (1, 5)])), 3);
        assert_eq!(together(&waiting(&[(1, 9), (2, 9)])), 1);
        assert_eq!(together(&waiting(&[(1, 9), (1, 0)])), 1);
        assert_eq!(together(&waiting(&[(1, 0), (1, 0)])), 1);
        assert_eq!(together(&waiting(&[(1, SEGMENT_BYTES_MAX + 1); 2])), 1);
        assert_eq!(together(&waiting(&[(1, SEGMENT_BYTES_MAX); 100])), 53);
        assert_eq!(together(&waiting(&[(1, 1); 100])), SEGMENTS_MAX);
    }

    #[test]
    fn a_kernel_that_refuses_segments_gets_single_datagrams_from_then_on() {
        let options = GroupOptions::new("udp://127.0.0.1:0".parse().unwrap(), 1);
        let group = Group::open(&GroupOptions { distribution: Distribution::Shared, ..options }).unwrap();
        let mut batch = SendBatch::new(Arc::clone(&group.sockets()[0]));
        assert_eq!(batch.segments, Segments::Allowed, "this kernel has no UDP_SEGMENT");
        sys::send_without_checksum(group.sockets()[0].as_fd()).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = client.local_addr().unwrap();
        // Nothing can be sent to port 0, which says nothing about segments.
        for text in [b"one", b"two"] {
            add(&mut batch, peer(0), text);
        }
        batch.send();
        assert_eq!((batch.sent(), batch.failed(), batch.segments), (0, 2, Segments::Allowed));
        for text in [b"one", b"two", b"six"] {
            add(&mut batch, to, text);
        }
        batch.send();
        assert_eq!((batch.sent(), batch.failed(), batch.segments), (3, 2, Segments::Never));
    }
}
