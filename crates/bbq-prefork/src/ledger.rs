//! What the processes of a pool know in common: a mapping of atomics, and nothing in it is a pointer.
//!
//! ```text
//!   shared        stopping | the child that has the mutex
//!   per child    section | in hand | taken | open | served | came up
//!   per number    cookie | owner | bytes written | bytes read | pending sizes | kept | stamp | strikes and mark
//!   kept          per number two halves: what was read of a request that has no end yet, and what it will be
//! ```
//!
//! A number's entry is true of the descriptor that has the number now if the cookie is that socket's (`SO_COOKIE` is never
//! used twice). So what is closed needs no entry cleared, and a new connection of the same number is told from the old one.
//!
//! Each word is written by one process at a time: a connection's by its owner, and by the master once that is dead.
//!
//! Invariant: while a connection is open and has no entry that is true, its acceptor is in its section.
//! Invariant: the order in which a process writes words is the order in which others see them, also when it is killed.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use bbq_listen::for_prefork::{Progress, SharedWords};

/// Words before the children'.
const COMMON_WORDS: usize = 16;
/// Words of a child, and of a number: such that no two of them share a cache line.
const CHILD_WORDS: usize = 16;
const ENTRY_WORDS: usize = 8;

/// Above the mark of a connection are the deaths that it was in hand at.
const STRIKES_SHIFT: u32 = 32;

/// Bytes of a request without an end that are kept of a connection of a pool, at most.
pub const KEPT_BYTES_MAX: usize = 8 * 1024;
const KEPT_WORDS: usize = KEPT_BYTES_MAX / WORD_BYTES;
const WORD_BYTES: usize = 8;
/// In what says how much is kept: which half it is in.
const SECOND_HALF: u32 = 1 << 16;

const _: () = assert!(KEPT_BYTES_MAX < SECOND_HALF as usize && KEPT_BYTES_MAX.is_multiple_of(WORD_BYTES));

#[derive(Debug)]
pub(crate) struct Ledger {
    words: SharedWords,
    kept: SharedWords,
    children: usize,
}

impl Ledger {
    /// For so many children, and descriptors with numbers below `numbers`.
    pub(crate) fn new(children: usize, numbers: usize) -> io::Result<Self> {
        let words = SharedWords::new(COMMON_WORDS + children * CHILD_WORDS + numbers * ENTRY_WORDS)?;
        Ok(Self { words, kept: SharedWords::new(numbers * 2 * KEPT_WORDS)?, children })
    }

    /// Whether all are to take what waits and end.
    pub(crate) fn stopping(&self) -> &AtomicU64 {
        &self.words[0]
    }

    /// The child whose turn it is to accept, where one does at a time.
    pub(crate) fn mutex(&self) -> &AtomicU64 {
        &self.words[1]
    }

    pub(crate) fn child(&self, child: usize) -> ChildWords<'_> {
        let start = COMMON_WORDS + child * CHILD_WORDS;
        ChildWords(&self.words[start..start + CHILD_WORDS])
    }

    /// `None` for a number that the ledger has no room for.
    pub(crate) fn entry(&self, number: RawFd) -> Option<Entry<'_>> {
        let number = usize::try_from(number).ok()?;
        let start = COMMON_WORDS + self.children * CHILD_WORDS + number * ENTRY_WORDS;
        let words = self.words.get(start..start + ENTRY_WORDS)?;
        Some(Entry(words, self.kept.get(number * 2 * KEPT_WORDS..(number + 1) * 2 * KEPT_WORDS)?))
    }
}

/// What is known of a child. It outlives the process that is the child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildWords<'a>(&'a [AtomicU64]);

impl<'a> ChildWords<'a> {
    /// Odd while it accepts, and what it accepted may have no entry yet.
    pub(crate) fn section(self) -> &'a AtomicU64 {
        &self.0[0]
    }

    /// The number of the connection that it works on, and 1; 0 is none.
    pub(crate) fn in_hand(self) -> &'a AtomicU64 {
        &self.0[1]
    }

    /// Connections that it took.
    pub(crate) fn taken(self) -> &'a AtomicU64 {
        &self.0[2]
    }

    /// Connections that it has open.
    pub(crate) fn open(self) -> &'a AtomicU64 {
        &self.0[3]
    }

    /// What the application counts.
    pub(crate) fn served(self) -> &'a AtomicU64 {
        &self.0[4]
    }

    /// Not 0 once the process has waited for its first event.
    pub(crate) fn came_up(self) -> &'a AtomicU64 {
        &self.0[5]
    }
}

/// What is known of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a>(&'a [AtomicU64], &'a [AtomicU64]);

/// An answer on its way: what the application said before it began to write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) output: u32,
    pub(crate) input: u32,
    pub(crate) stamp: NonZeroU64,
    pub(crate) mark: u32,
}

impl<'a> Entry<'a> {
    /// Makes the entry that of a connection just accepted. True from its last step on.
    pub(crate) fn begin(self, cookie: u64, owner: usize) {
        self.0[0].store(0, Release);
        for word in &self.0[2..] {
            word.store(0, Release);
        }
        self.0[1].store(owner as u64, Release);
        self.0[0].store(cookie, Release);
    }

    /// Whether it is true of the socket with this cookie.
    pub(crate) fn is_of(self, cookie: u64) -> bool {
        self.0[0].load(Acquire) == cookie
    }

    pub(crate) fn owner(self) -> usize {
        usize::try_from(self.0[1].load(Acquire)).unwrap_or(usize::MAX)
    }

    /// Before an answer is written. `keep` is what will be kept when it is settled, at most [`KEPT_BYTES_MAX`].
    pub(crate) fn set_pending(self, pending: Pending, keep: &[u8]) {
        let now = self.0[5].load(Acquire) as u32;
        let half = if now & SECOND_HALF == 0 { SECOND_HALF } else { 0 };
        for (word, bytes) in self.half(half).iter().zip(keep.chunks(WORD_BYTES)) {
            let mut whole = [0; WORD_BYTES];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Release);
        }
        let after = half | keep.len() as u32;
        self.0[5].store(u64::from(after) << 32 | u64::from(now), Release);
        self.0[4].store(u64::from(pending.output) << 32 | u64::from(pending.input), Release);
        self.0[7].store(pending.mark.into(), Release);
        self.0[6].store(pending.stamp.get(), Release);
    }

    pub(crate) fn pending(self) -> Option<Pending> {
        let stamp = NonZeroU64::new(self.0[6].load(Acquire))?;
        let (sizes, mark) = (self.0[4].load(Acquire), self.0[7].load(Acquire) as u32);
        Some(Pending { output: (sizes >> 32) as u32, input: sizes as u32, stamp, mark })
    }

    /// What was pending is written, and its requests read.
    pub(crate) fn settle(self) {
        // If the process is killed from here on, its successor can safely repeat the remaining steps.
        let after = self.0[5].load(Acquire) >> 32;
        self.0[5].store(after << 32 | after, Release);
        self.0[6].store(0, Release);
        let (before, sizes) = (self.base(), self.0[4].load(Acquire));
        self.set_base(Progress {
            written: before.written + (sizes >> 32),
            read: before.read + u64::from(sizes as u32),
        });
    }

    /// How many bytes are kept.
    pub(crate) fn kept_bytes(self) -> usize {
        (self.0[5].load(Acquire) as u32 & !SECOND_HALF) as usize
    }

    /// Copies what is kept into the beginning of `buffer`, as far as it goes.
    pub(crate) fn read_kept(self, buffer: &mut [u8]) {
        let now = self.0[5].load(Acquire) as u32;
        let bytes = self.kept_bytes().min(buffer.len());
        for (word, bytes) in self.half(now).iter().zip(buffer[..bytes].chunks_mut(WORD_BYTES)) {
            bytes.copy_from_slice(&word.load(Acquire).to_le_bytes()[..bytes.len()]);
        }
    }

    fn half(self, kept: u32) -> &'a [AtomicU64] {
        let (first, second) = self.1.split_at(KEPT_WORDS);
        if kept & SECOND_HALF == 0 { first } else { second }
    }

    /// What the kernel had counted when nothing was pending.
    pub(crate) fn base(self) -> Progress {
        Progress { written: self.0[2].load(Acquire), read: self.0[3].load(Acquire) }
    }

    /// Needed where the owner was killed while it settled: then nothing is pending, and the kernel's counts are true.
    pub(crate) fn set_base(self, base: Progress) {
        self.0[2].store(base.written, Release);
        self.0[3].store(base.read, Release);
    }

    /// The owner died while it served this connection. Returns how many owners in a row did, without an answer in between.
    pub(crate) fn add_strike(self) -> u64 {
        let one = 1 << STRIKES_SHIFT;
        (self.0[7].fetch_add(one, AcqRel) + one) >> STRIKES_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(output: u32, input: u32, mark: u32) -> Pending {
        Pending { output, input, stamp: NonZeroU64::MIN, mark }
    }

    #[test]
    fn an_answer_is_pending_until_it_is_settled_and_counts_from_then_on() {
        let ledger = Ledger::new(2, 8).unwrap();
        let entry = ledger.entry(7).unwrap();
        assert!(ledger.entry(8).is_none() && ledger.entry(-1).is_none());
        entry.begin(99, 1);
        assert!(entry.is_of(99) && entry.owner() == 1 && entry.pending().is_none());
        entry.set_pending(pending(100, 10, 2), b"");
        assert_eq!(entry.pending(), Some(pending(100, 10, 2)));
        assert_eq!(entry.base(), Progress { written: 0, read: 0 });
        entry.settle();
        assert_eq!((entry.pending(), entry.base()), (None, Progress { written: 100, read: 10 }));
    }

    #[test]
    fn what_is_kept_changes_when_it_is_settled_and_not_before() {
        let ledger = Ledger::new(1, 2).unwrap();
        let entry = ledger.entry(1).unwrap();
        let kept = || {
            let mut buffer = vec![0; entry.kept_bytes()];
            entry.read_kept(&mut buffer);
            buffer
        };
        entry.begin(99, 0);
        let longest = vec![b'x'; KEPT_BYTES_MAX];
        let mut before: &[u8] = b"";
        for keep in [&b"half a request"[..], b"", &longest, b"another", b"and one more"] {
            entry.set_pending(pending(1, 1, 0), keep);
            assert_eq!(kept(), before);
            entry.settle();
            assert_eq!(kept(), keep);
            before = keep;
        }
        entry.begin(100, 0);
        assert_eq!(kept(), b"");
    }

    #[test]
    fn strikes_add_up_and_an_answer_ends_the_row() {
        let ledger = Ledger::new(1, 1).unwrap();
        let entry = ledger.entry(0).unwrap();
        entry.begin(99, 0);
        entry.set_pending(pending(1, 1, 3), b"");
        assert_eq!((entry.add_strike(), entry.add_strike()), (1, 2));
        // They leave the mark alone.
        assert_eq!(entry.pending(), Some(pending(1, 1, 3)));
        entry.settle();
        entry.set_pending(pending(1, 1, 3), b"");
        assert_eq!(entry.add_strike(), 1);
    }

    #[test]
    fn a_number_that_is_used_again_has_nothing_of_the_connection_before() {
        let ledger = Ledger::new(1, 1).unwrap();
        let entry = ledger.entry(0).unwrap();
        entry.begin(99, 0);
        entry.set_pending(pending(1, 1, 1), b"");
        entry.begin(100, 0);
        assert!(!entry.is_of(99));
        assert_eq!((entry.pending(), entry.base()), (None, Progress { written: 0, read: 0 }));
    }
}
