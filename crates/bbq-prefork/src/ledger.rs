//! The state that the processes of a pool share: a mapping of atomics without pointers.
//!
//! ```text
//!   shared        stopping | lease of the mutex | numbers
//!   per child     section | current | taken | open | served | has started | is absent | turns | stall | handed | rescued
//!   per number    cookie | owner | bytes written | bytes read | pending sizes | kept | stamp | deaths and mark
//!   kept          per number two halves: the read part of an incomplete request, and its next value
//! ```
//!
//! The entry of a descriptor number is valid for the socket that has the number now if the cookies are equal (`SO_COOKIE` is never
//! used twice). So the entry of a closed connection need not be cleared.
//!
//! Each word of a connection is written by one process at a time: by its owner while it handles the connection, and by the master
//! after the owner's death. Between two calls of a handler the master may hand the connection to another child. Who begins with it and
//! who hands it on decide that by one compare and swap of the owner's word.
//!
//! Invariant: while an open connection has no valid entry, the process that accepted it is in its section.
//! Invariant: the order in which a process writes words is the order in which others see them, also when it is killed.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use bbq_listen::WORKERS_MAX;
use bbq_listen::for_prefork::{Progress, SharedWords};

/// Words before those of the children.
const COMMON_WORDS: usize = 16;
/// Words of a child, and of a number. No two children, and no two numbers, share a cache line.
const CHILD_WORDS: usize = 16;
const ENTRY_WORDS: usize = 8;

/// The bits above a connection's mark count the processes that died while they handled it.
const DEATHS_SHIFT: u32 = 32;

/// The longest beginning of an incomplete request that is kept for a connection.
pub const KEPT_BYTES_MAX: usize = 8 * 1024;
const KEPT_WORDS: usize = KEPT_BYTES_MAX / WORD_BYTES;
const WORD_BYTES: usize = 8;
/// In the length of what is kept: it is in the second half.
const SECOND_HALF: u32 = 1 << 16;

const _: () = assert!(KEPT_BYTES_MAX < SECOND_HALF as usize && KEPT_BYTES_MAX.is_multiple_of(WORD_BYTES));

#[derive(Debug)]
pub(crate) struct Ledger {
    words: SharedWords,
    kept: SharedWords,
    children: usize,
}

impl Ledger {
    /// For this many children, and descriptors with numbers below `numbers`.
    pub(crate) fn new(children: usize, numbers: usize) -> io::Result<Self> {
        let words = SharedWords::new(COMMON_WORDS + children * CHILD_WORDS + numbers * ENTRY_WORDS)?;
        Ok(Self { words, kept: SharedWords::new(numbers * 2 * KEPT_WORDS)?, children })
    }

    /// Not 0 when all children are to handle what is queued and end.
    pub(crate) fn stopping(&self) -> &AtomicU64 {
        &self.words[0]
    }

    /// Which child may accept, with the distribution `accept-mutex`.
    pub(crate) fn lease(&self) -> Lease {
        // Ordered with the words that say who is absent: who looks at both sees one of two changes.
        Lease(self.words[1].load(SeqCst))
    }

    /// Passes the mutex on. Returns the new lease, or `None` if `lease` is over: somebody else has passed it on.
    pub(crate) fn pass_on(&self, lease: Lease, holder: usize) -> Option<Lease> {
        let next = lease.next(holder);
        let passed = self.words[1].compare_exchange(lease.0, next.0, SeqCst, SeqCst);
        passed.is_ok().then_some(next)
    }

    /// All connections have had numbers below this one.
    pub(crate) fn numbers(&self) -> RawFd {
        RawFd::try_from(self.words[2].load(Acquire)).unwrap_or(RawFd::MAX)
    }

    /// The entry of a connection that was just accepted. `None` for a number that the ledger has no room for.
    pub(crate) fn new_entry(&self, number: RawFd) -> Option<Entry<'_>> {
        let entry = self.entry(number)?;
        let numbers = number as u64 + 1;
        // Most numbers were in use before.
        if self.words[2].load(Acquire) < numbers {
            self.words[2].fetch_max(numbers, AcqRel);
        }
        Some(entry)
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

/// The words of a worker. They outlive its process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildWords<'a>(&'a [AtomicU64]);

impl<'a> ChildWords<'a> {
    /// Odd while it accepts: a connection that it accepted may have no entry yet.
    pub(crate) fn section(self) -> &'a AtomicU64 {
        &self.0[0]
    }

    /// The number of the connection that it handles, plus 1; 0 for none.
    pub(crate) fn current(self) -> &'a AtomicU64 {
        &self.0[1]
    }

    /// Connections that it accepted.
    pub(crate) fn taken(self) -> &'a AtomicU64 {
        &self.0[2]
    }

    /// Connections that it has open.
    pub(crate) fn open(self) -> &'a AtomicU64 {
        &self.0[3]
    }

    /// The application's counter.
    pub(crate) fn served(self) -> &'a AtomicU64 {
        &self.0[4]
    }

    /// Not 0 once the process has waited for its first event.
    pub(crate) fn has_started(self) -> &'a AtomicU64 {
        &self.0[5]
    }

    /// Not 0 from a failed start until a process serves.
    pub(crate) fn is_absent(self) -> &'a AtomicU64 {
        &self.0[6]
    }

    /// Its heartbeat: how often it has fallen asleep or woken up. Odd while it runs, even while it waits for events.
    pub(crate) fn turns(self) -> u64 {
        self.0[7].load(Acquire)
    }

    /// The child, which calls this, is about to wait for events. A predecessor may have been killed in either state.
    pub(crate) fn sleep(self) {
        self.0[7].store(self.0[7].load(Relaxed).wrapping_add(2) & !1, Release);
    }

    /// The child, which calls this, has waited for events.
    pub(crate) fn wake(self) {
        self.0[7].store(self.0[7].load(Relaxed).wrapping_add(1) | 1, Release);
    }

    /// Not 0 while the others help it: it does not come around. The master alone writes it.
    pub(crate) fn stall(self) -> &'a AtomicU64 {
        &self.0[8]
    }

    /// Connections that the master has handed to it and that it has not taken.
    pub(crate) fn handed(self) -> &'a AtomicU64 {
        &self.0[9]
    }

    /// Connections that the others took from its socket, or that were taken back from it.
    pub(crate) fn rescued(self) -> &'a AtomicU64 {
        &self.0[10]
    }
}

/// Which child has the mutex, and for the how many-th time the mutex was passed on. A child that lost it meanwhile so notices that,
/// also if it has got it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease(u64);

/// The bits below the term of a lease are its holder.
const HOLDER_BITS: u32 = 16;
const _: () = assert!(WORKERS_MAX < 1 << HOLDER_BITS);

impl Lease {
    pub(crate) fn holder(self) -> usize {
        (self.0 & ((1 << HOLDER_BITS) - 1)) as usize
    }

    fn next(self, holder: usize) -> Self {
        let term = (self.0 >> HOLDER_BITS).wrapping_add(1);
        Self(term << HOLDER_BITS | holder as u64)
    }
}

/// In the word of a connection's owner: the master has handed the connection over, and the owner has not taken it.
const HANDED: u64 = 1 << 32;
/// Likewise: the owner is handling it, so it stays the owner's. So it is after the owner has closed it.
const BEGUN: u64 = 1 << 33;
/// Likewise: it is to be handled when there is room to write, and not only when something has come.
const AWAITS_ROOM: u64 = 1 << 34;
/// The bits of a connection's owner.
const OWNER: u64 = HANDED - 1;

/// The entry of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a>(&'a [AtomicU64], &'a [AtomicU64]);

/// What a connection was until a moment ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Was {
    /// Handed over, and not taken.
    pub(crate) handed: bool,
    /// To be handled when there is room to write, too.
    pub(crate) awaits_room: bool,
}

impl Was {
    fn of(word: u64) -> Self {
        Self { handed: word & HANDED != 0, awaits_room: word & AWAITS_ROOM != 0 }
    }
}

/// A response that is being written, as the application described it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) output: u32,
    pub(crate) input: u32,
    pub(crate) stamp: NonZeroU64,
    pub(crate) mark: u32,
}

impl<'a> Entry<'a> {
    /// Starts the entry of a connection that its owner has accepted and is handling.
    pub(crate) fn begin(self, cookie: u64, owner: usize) {
        self.begin_as(cookie, owner as u64 | BEGUN);
    }

    /// Starts the entry of a connection that is handed to its owner, who has to [take](Self::take) it.
    pub(crate) fn begin_handed(self, cookie: u64, owner: usize) {
        self.begin_as(cookie, owner as u64 | HANDED);
    }

    /// It is valid after the last step.
    fn begin_as(self, cookie: u64, owner: u64) {
        self.0[0].store(0, Release);
        for word in &self.0[2..] {
            word.store(0, Release);
        }
        self.0[1].store(owner, Release);
        self.0[0].store(cookie, Release);
    }

    /// Begins to handle the connection, if it is the child's.
    pub(crate) fn take(self, child: usize) -> Option<Was> {
        let word = self.idle_word_of(child)?;
        let taken = self.0[1].compare_exchange(word, child as u64 | BEGUN, AcqRel, Acquire);
        taken.is_ok().then(|| Was::of(word))
    }

    /// The owner, which calls this, has handled it, and keeps it open. The master calls this for an owner that has died.
    pub(crate) fn let_go(self, owner: usize, awaits_room: bool) {
        self.0[1].store(owner as u64 | if awaits_room { AWAITS_ROOM } else { 0 }, Release);
    }

    /// What it is, if this child owns it and does not handle it. Then it is open.
    pub(crate) fn idle_of(self, child: usize) -> Option<Was> {
        self.idle_word_of(child).map(Was::of)
    }

    fn idle_word_of(self, child: usize) -> Option<u64> {
        // The entry of a number that no connection had is all zeros.
        let is_valid = self.0[0].load(Acquire) != 0;
        let word = self.0[1].load(Acquire);
        (is_valid && word & OWNER == child as u64 && word & BEGUN == 0).then_some(word)
    }

    /// Hands it to another child instead. `None` if `from` handles it, or has it no more.
    pub(crate) fn hand_on(self, from: usize, to: usize) -> Option<Was> {
        let word = self.idle_word_of(from)?;
        let handed = to as u64 | HANDED | (word & AWAITS_ROOM);
        self.0[1].compare_exchange(word, handed, AcqRel, Acquire).ok().map(Was::of)
    }

    /// Whether it is valid for the socket with this cookie.
    pub(crate) fn is_of(self, cookie: u64) -> bool {
        self.0[0].load(Acquire) == cookie
    }

    pub(crate) fn owner(self) -> usize {
        usize::try_from(self.0[1].load(Acquire) & OWNER).unwrap_or(usize::MAX)
    }

    /// Called before a response is written. `keep` is what will be kept after [`settle`](Self::settle), at most [`KEPT_BYTES_MAX`].
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

    /// Called when the pending response is written and its requests are read.
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

    /// The kernel's counts when nothing was pending.
    pub(crate) fn base(self) -> Progress {
        Progress { written: self.0[2].load(Acquire), read: self.0[3].load(Acquire) }
    }

    /// Used when the owner was killed in [`settle`](Self::settle): nothing is pending, and the kernel's counts are right.
    pub(crate) fn set_base(self, base: Progress) {
        self.0[2].store(base.written, Release);
        self.0[3].store(base.read, Release);
    }

    /// The owner died while it handled this connection. Returns how many owners in a row did, without a response in between.
    pub(crate) fn add_death(self) -> u64 {
        let one = 1 << DEATHS_SHIFT;
        (self.0[7].fetch_add(one, AcqRel) + one) >> DEATHS_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(output: u32, input: u32, mark: u32) -> Pending {
        Pending { output, input, stamp: NonZeroU64::MIN, mark }
    }

    #[test]
    fn a_response_is_pending_until_it_is_settled_and_counts_from_then_on() {
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
    fn the_highest_number_is_known() {
        let ledger = Ledger::new(1, 8).unwrap();
        assert!(ledger.numbers() == 0 && ledger.new_entry(8).is_none());
        // What is no connection is nobody's.
        assert!(ledger.entry(3).unwrap().idle_of(0).is_none());
        for (number, numbers) in [(5, 6), (2, 6), (7, 8)] {
            assert!(ledger.new_entry(number).is_some());
            assert_eq!(ledger.numbers(), numbers);
        }
    }

    #[test]
    fn a_connection_that_is_handed_on_is_not_taken_and_one_that_is_taken_is_not_handed_on() {
        let ledger = Ledger::new(2, 1).unwrap();
        let entry = ledger.entry(0).unwrap();
        let was = |handed, awaits_room| Some(Was { handed, awaits_room });
        entry.begin_handed(99, 0);
        assert!(entry.owner() == 0 && entry.idle_of(0) == was(true, false) && entry.take(1).is_none());
        assert_eq!((entry.hand_on(0, 1), entry.hand_on(0, 1), entry.take(0)), (was(true, false), None, None));
        assert_eq!((entry.take(1), entry.take(1)), (was(true, false), None));
        assert!(entry.hand_on(1, 0).is_none() && entry.idle_of(1).is_none() && entry.owner() == 1);
        entry.let_go(1, true);
        assert_eq!((entry.idle_of(0), entry.hand_on(1, 0)), (None, was(false, true)));
        // What it waits for is known to the next owner.
        assert_eq!((entry.take(1), entry.hand_on(0, 1)), (None, was(true, true)));
        assert_eq!(entry.take(1), was(true, true));
    }

    #[test]
    fn a_connection_that_was_accepted_is_handled_until_it_is_let_go() {
        let ledger = Ledger::new(2, 1).unwrap();
        let entry = ledger.entry(0).unwrap();
        entry.begin(99, 1);
        assert!(entry.owner() == 1 && entry.take(1).is_none() && entry.hand_on(1, 0).is_none());
        entry.let_go(1, false);
        assert_eq!(entry.take(1), Some(Was { handed: false, awaits_room: false }));
    }

    #[test]
    fn a_lease_is_over_when_the_mutex_was_passed_on_also_to_the_same_child() {
        let ledger = Ledger::new(2, 1).unwrap();
        let first = ledger.lease();
        let second = ledger.pass_on(first, 1).unwrap();
        assert_eq!((first.holder(), second.holder(), ledger.lease()), (0, 1, second));
        let third = ledger.pass_on(second, 0).unwrap();
        assert!(third.holder() == 0 && ledger.pass_on(first, 1).is_none());
        assert_eq!(ledger.lease(), third);
    }

    #[test]
    fn turns_are_odd_while_a_child_runs_whatever_its_predecessor_did() {
        let ledger = Ledger::new(1, 1).unwrap();
        let child = ledger.child(0);
        for acts in [[true, false], [true, true], [false, false]] {
            for wakes in acts {
                let before = child.turns();
                if wakes {
                    child.wake()
                } else {
                    child.sleep()
                }
                assert!(child.turns() > before && child.turns() % 2 == u64::from(wakes));
            }
        }
    }

    #[test]
    fn deaths_add_up_until_the_next_response() {
        let ledger = Ledger::new(1, 1).unwrap();
        let entry = ledger.entry(0).unwrap();
        entry.begin(99, 0);
        entry.set_pending(pending(1, 1, 3), b"");
        assert_eq!((entry.add_death(), entry.add_death()), (1, 2));
        // They leave the mark alone.
        assert_eq!(entry.pending(), Some(pending(1, 1, 3)));
        entry.settle();
        entry.set_pending(pending(1, 1, 3), b"");
        assert_eq!(entry.add_death(), 1);
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
