//! Messages that come in chunks, a datagram each:
//!
//! ```text
//! 0x1e 0x0f   8 bytes of id   number, from 0   chunks of the message: 1 to 128   a part of the message
//! ```
//!
//! A message is the sender's by its address and port. Chunks come in any order; a message that is not complete 5 s after its first chunk is
//! given up. An entry stays for these 5 s, also when its message is complete or given up, so that a chunk that comes again begins no other one.
//!
//! ```text
//! take --> open: parts --complete--> over: what comes of it is ignored --5 s after its beginning--> forgotten
//!                  +--too long, evicted: counted--> over
//! ```
//!
//! Anybody can send a half of a message, with any address. So memory is bounded, by address and for all; when it is full, the oldest message of
//! the address that holds the most is given up.
//!
//! Not here: sockets, the clock (the caller says how late it is) and compression.
//!
//! Invariant: what is held is at most [`Assembler::bytes_max`], with what each message costs beside its parts.
//! Invariant: each message that is begun is complete, or counted once as lost.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bbq_wire::Peer;

const MAGIC: [u8; 2] = [0x1e, 0x0f];
const HEADER_BYTES: usize = 12;
/// The protocol's limit.
const CHUNKS_MAX: u8 = 128;
/// How long a message may take, as at Graylog.
pub const ASSEMBLY_MS: u64 = 5000;
/// Messages that are open or over: at 200 of them a second, each is known for the whole time. With more, those that are over go first. Lists of
/// so many are searched in about a microsecond.
const MESSAGES_MAX: usize = 1024;
/// What a message costs beside its parts: its entries in three maps, and the list of its parts.
const MESSAGE_BYTES: usize = 512 + CHUNKS_MAX as usize * size_of::<Box<[u8]>>();
/// Memory of open messages, as a multiple of the largest message.
const LARGEST_MESSAGES: usize = 4;
/// The least memory of open messages: some hundred of the usual size.
const BYTES_MIN: usize = 2 * 1024 * 1024;

/// Who sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// By UDP.
    Inet(SocketAddr),
    /// A process of this machine.
    Process(u32),
    /// Nothing is known.
    Unknown,
}

impl From<Peer> for Sender {
    fn from(peer: Peer) -> Sender {
        match peer {
            Peer::Inet(address) => Sender::Inet(address),
            Peer::Process { pid, .. } => Sender::Process(pid),
            Peer::Unnamed => Sender::Unknown,
        }
    }
}

impl Sender {
    /// Who answers for the memory: the address, of IPv6 its network, as elsewhere.
    fn holder(self) -> Sender {
        let Sender::Inet(address) = self else { return self };
        let ip = match address.ip().to_canonical() {
            IpAddr::V6(ip) => IpAddr::from((u128::from(ip) >> 64 << 64).to_be_bytes()),
            ip @ IpAddr::V4(_) => ip,
        };
        Sender::Inet(SocketAddr::new(ip, 0))
    }
}

/// Why a chunk is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// It is shorter than its header.
    #[error("a chunk is shorter than its header of 12 bytes")]
    Short,
    /// It is not among its chunks, or they are none or too many.
    #[error("a chunk says that it is number {number} of {count}; there may be 1 to 128, numbered from 0")]
    Number {
        /// Its number.
        number: u8,
        /// All chunks.
        count: u8,
    },
    /// Chunks of a message say different things.
    #[error("a chunk says that its message has {count} chunks, and another one says {known}")]
    Count {
        /// What the first one says.
        known: u8,
        /// What this one says.
        count: u8,
    },
    /// The message is too long. It is given up.
    #[error("the chunks of a message are longer than message_bytes_max")]
    TooLong,
}

/// Messages that were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Chunks were missing when their time was over.
    pub incomplete: u64,
    /// Others needed the memory.
    pub evicted: u64,
}

/// Whether a datagram is a chunk.
#[must_use]
pub fn is_chunk(datagram: &[u8]) -> bool {
    datagram.starts_with(&MAGIC)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    sender: Sender,
    id: [u8; 8],
}

/// A message that is not complete.
#[derive(Debug)]
struct Open {
    parts: Vec<Box<[u8]>>,
    /// A bit for each part that has come.
    received: u128,
    bytes: usize,
}

/// What an address holds.
#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// Its open messages, oldest first.
    open: VecDeque<Key>,
}

/// Puts messages together.
#[derive(Debug)]
pub struct Assembler {
    message_bytes_max: usize,
    /// Those that are over have no value.
    messages: BTreeMap<Key, Option<Open>>,
    /// Each key in `messages`, with the time of its first chunk, oldest first.
    ages: VecDeque<(u64, Key)>,
    /// Each key in `messages` that is over, in the order in which they ended.
    over: VecDeque<Key>,
    held: BTreeMap<Sender, Held>,
    /// What all addresses hold.
    bytes: usize,
    lost: Lost,
}

impl Assembler {
    /// For messages up to this size.
    #[must_use]
    pub fn new(message_bytes_max: usize) -> Assembler {
        Assembler {
            message_bytes_max,
            messages: BTreeMap::new(),
            ages: VecDeque::new(),
            over: VecDeque::new(),
            held: BTreeMap::new(),
            bytes: 0,
            lost: Lost::default(),
        }
    }

    /// The most memory of open messages, if the largest one has so many bytes.
    #[must_use]
    pub fn bytes_max(message_bytes_max: usize) -> usize {
        (LARGEST_MESSAGES * message_bytes_max).max(BYTES_MIN)
    }

    /// Takes a chunk that came at this time, in milliseconds from any beginning. Returns the message if it is complete.
    ///
    /// # Errors
    /// Why the chunk is of no use, or its message given up.
    pub fn take(
        &mut self,
        now_ms: u64,
        sender: Sender,
        datagram: &[u8],
    ) -> Result<Option<Vec<u8>>, ChunkError> {
        self.expire(now_ms);
        let (head, part) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or(ChunkError::Short)?;
        let &[_, _, id @ .., number, count] = head;
        if count == 0 || count > CHUNKS_MAX || number >= count {
            return Err(ChunkError::Number { number, count });
        }
        let key = Key { sender, id };
        if !self.messages.contains_key(&key) {
            self.begin(now_ms, key, count);
        }
        let Some(Some(open)) = self.messages.get_mut(&key) else { return Ok(None) };
        let known = open.parts.len() as u8;
        if known != count {
            self.end(key);
            return Err(ChunkError::Count { known, count });
        }
        if open.received & 1 << number != 0 {
            return Ok(None);
        }
        if open.bytes + part.len() > self.message_bytes_max {
            self.end(key);
            return Err(ChunkError::TooLong);
        }
        open.received |= 1 << number;
        open.bytes += part.len();
        open.parts[usize::from(number)] = part.into();
        let is_complete = open.received.count_ones() == u32::from(count);
        let message = is_complete.then(|| open.parts.concat());
        self.charge(sender.holder(), part.len());
        if is_complete {
            self.end(key);
        } else {
            self.make_room(sender.holder());
        }
        Ok(message)
    }

    /// Gives up the messages whose time is over.
    pub fn expire(&mut self, now_ms: u64) {
        while let Some((begun_ms, key)) = self.ages.front().copied() {
            if now_ms < begun_ms.saturating_add(ASSEMBLY_MS) {
                return;
            }
            self.lost.incomplete += u64::from(self.end(key));
            self.forget(key);
        }
    }

    /// Gives up all messages.
    pub fn give_up(&mut self) {
        self.expire(u64::MAX);
    }

    /// Whether no message is open, or waits for its chunks to be forgotten.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The messages that were given up since the last call.
    pub fn take_lost(&mut self) -> Lost {
        std::mem::take(&mut self.lost)
    }

    fn begin(&mut self, now_ms: u64, key: Key, count: u8) {
        if self.messages.len() >= MESSAGES_MAX {
            if self.over.is_empty() {
                self.evict_largest();
            }
            if let Some(over) = self.over.front().copied() {
                self.forget(over);
            }
        }
        let parts = vec![Box::default(); usize::from(count)];
        self.messages.insert(key, Some(Open { parts, received: 0, bytes: 0 }));
        self.ages.push_back((now_ms, key));
        self.charge(key.sender.holder(), MESSAGE_BYTES);
        self.held.entry(key.sender.holder()).or_default().open.push_back(key);
    }

    /// Ends a message. Returns whether it was open.
    fn end(&mut self, key: Key) -> bool {
        let Some(open) = self.messages.get_mut(&key).and_then(Option::take) else { return false };
        self.over.push_back(key);
        let (holder, bytes) = (key.sender.holder(), MESSAGE_BYTES + open.bytes);
        self.bytes -= bytes;
        if let Some(held) = self.held.get_mut(&holder) {
            held.bytes -= bytes;
            held.open.retain(|open| *open != key);
            if held.open.is_empty() {
                self.held.remove(&holder);
            }
        }
        true
    }

    /// Forgets a message that is over.
    fn forget(&mut self, key: Key) {
        self.messages.remove(&key);
        self.over.retain(|over| *over != key);
        if let Some(place) = self.ages.iter().position(|(_, known)| *known == key) {
            self.ages.remove(place);
        }
    }

    fn charge(&mut self, holder: Sender, bytes: usize) {
        self.bytes += bytes;
        self.held.entry(holder).or_default().bytes += bytes;
    }

    /// Gives up messages until the memory is within its limits: of an address half of all.
    fn make_room(&mut self, holder: Sender) {
        let bytes_max = Assembler::bytes_max(self.message_bytes_max);
        while self.held.get(&holder).is_some_and(|held| held.bytes > bytes_max / 2) && self.evict(holder) {}
        while self.bytes > bytes_max && self.evict_largest() {}
    }

    fn evict_largest(&mut self) -> bool {
        let largest = self.held.iter().max_by_key(|(_, held)| held.bytes).map(|(holder, _)| *holder);
        largest.is_some_and(|holder| self.evict(holder))
    }

    /// Gives up the oldest open message of an address. Returns whether there was one.
    fn evict(&mut self, holder: Sender) -> bool {
        let oldest = self.held.get(&holder).and_then(|held| held.open.front().copied());
        let is_evicted = oldest.is_some_and(|key| self.end(key));
        self.lost.evicted += u64::from(is_evicted);
        is_evicted
    }
}

#[cfg(test)]
#[path = "chunks_tests.rs"]
mod tests;
