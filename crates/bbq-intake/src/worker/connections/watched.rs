//! A set of very many open descriptors, most of which are quiet. Each descriptor is a small entry; only the set has a task and a
//! registration with the runtime.
//!
//! ```text
//! entries --epoll--+
//! entries --epoll--+--> the set's epoll --> tokio --> one task, which serves the ready entries in turns
//! ```
//!
//! Invariant: the epoll is polled until no entry is ready; only then does the task wait for the runtime.
//! Invariant: an entry that leaves the set while its descriptor is open is removed from the epoll. The kernel removes a closed
//! descriptor by itself.
//! Invariant: an entry that has to wait is not in the epoll until its time has come.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use bbq_listen::AsyncConnection;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::slots::Slots;

/// A set that serves at most `PER_TURN_MAX` entries before the worker does anything else.
pub(crate) struct Watched<T, const PER_TURN_MAX: usize> {
    /// The epoll is itself registered with the runtime: it is readable when an entry is ready.
    epoll: AsyncConnection,
    entries: RefCell<Slots<T>>,
    /// The keys of entries that have to wait, and until when. An entry may have left meanwhile.
    waiting: RefCell<BinaryHeap<Reverse<(Instant, usize)>>>,
}

/// How serving an entry ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// The entry is drained: whatever comes from now on makes the set ready again.
    Drained,
    /// The entry may have more.
    Ready,
    /// The entry is not to be served before this time, however much it has.
    Waits(Instant),
    /// The entry is to be dropped, which closes it.
    Closed,
}

/// Whether ready entries may be left after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    /// Whatever comes from now on makes the set ready again.
    None,
    /// There may be more.
    MayBeSome,
}

/// A descriptor that can be watched.
pub(crate) trait Entry: AsFd {
    /// Whether the entry also waits for room to send.
    fn wants_write(&self) -> bool {
        false
    }
}

impl<T: Entry, const PER_TURN_MAX: usize> Watched<T, PER_TURN_MAX> {
    /// An empty set, served on the current runtime.
    pub(crate) fn new() -> io::Result<Watched<T, PER_TURN_MAX>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let epoll = AsyncConnection::for_reading(epoll)?;
        Ok(Watched { epoll, entries: RefCell::default(), waiting: RefCell::default() })
    }

    /// Adds an entry and returns its key. Gives the entry back if the kernel cannot watch it (epoll_ctl(2)).
    pub(crate) fn add(&self, entry: T) -> Result<usize, (T, io::Error)> {
        let mut entries = self.entries.borrow_mut();
        let key = entries.vacant_key();
        let data = EventData::new_u64(key as u64);
        // Level-triggered: an entry with unread bytes is reported again.
        match epoll::add(&self.epoll, &entry, data, flags(&entry)) {
            Ok(()) => {
                entries.insert(entry);
                Ok(key)
            }
            Err(error) => Err((entry, error.into())),
        }
    }

    /// Waits until entries are ready, and serves each without taking it out. `serve` is told whether the peer has ended. An end makes the
    /// set ready only once, so such an entry has to be served to its end. `serve` must not add to the set.
    ///
    /// # Errors
    /// Only when the runtime ends.
    pub(crate) async fn serve_ready(&self, mut serve: impl FnMut(&mut T, bool) -> Served) -> io::Result<()> {
        self.turn(|events| {
            let mut entries = self.entries.borrow_mut();
            let mut pending = Pending::None;
            for event in events {
                let key = key(event);
                let Some(entry) = entries.get_mut(key) else { continue };
                let has_ended =
                    { event.flags }.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
                match serve(entry, has_ended) {
                    Served::Drained => {}
                    Served::Ready => pending = Pending::MayBeSome,
                    Served::Waits(until) => {
                        // Cannot fail, as the entry is in the epoll.
                        let _removed = epoll::delete(&self.epoll, &*entry);
                        self.waiting.borrow_mut().push(Reverse((until, key)));
                        continue;
                    }
                    Served::Closed => {
                        drop(entries.remove(key));
                        continue;
                    }
                }
                if entry.wants_write() != { event.flags }.contains(EventFlags::OUT) {
                    // Cannot fail, as the entry is in the epoll. The change is noticed even if the entry is ready already.
                    let _registered = epoll::modify(&self.epoll, &*entry, event.data, flags(entry));
                }
            }
            pending
        })
        .await
    }

    /// Completes when the first entry that has to wait may be served again; never if none has to.
    pub(crate) async fn wait_over(&self) {
        let first = self.waiting.borrow().peek().map(|Reverse((until, _))| *until);
        match first {
            Some(until) => tokio::time::sleep_until(until.into()).await,
            None => std::future::pending().await,
        }
    }

    /// How many entries have to wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Serves the entries again whose time has come.
    pub(crate) fn resume(&self) {
        let (now, mut waiting, mut entries) =
            (Instant::now(), self.waiting.borrow_mut(), self.entries.borrow_mut());
        while let Some(&Reverse((until, key))) = waiting.peek()
            && until <= now
        {
            waiting.pop();
            let Some(entry) = entries.get_mut(key) else { continue };
            let data = EventData::new_u64(key as u64);
            // Fails for an entry that has come in the place of the one that waited: it is in the epoll already.
            let _added = epoll::add(&self.epoll, &*entry, data, flags(entry));
        }
    }

    /// Waits until entries are ready, and takes them out.
    ///
    /// # Errors
    /// Only when the runtime ends.
    pub(crate) async fn take_ready(&self, mut take: impl FnMut(T)) -> io::Result<()> {
        self.turn(|events| {
            for event in events {
                let entry = self.entries.borrow_mut().remove(key(event));
                if let Some(entry) = entry {
                    take(self.unwatched(entry));
                }
            }
            Pending::None
        })
        .await
    }

    /// Calls `visit` for every entry, with its key.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize, &mut T)) {
        self.entries.borrow_mut().iter_mut().for_each(|(key, entry)| visit(key, entry));
    }

    /// Takes the entry of this key out, if `predicate` returns true for it.
    pub(crate) fn take_if(&self, key: usize, predicate: impl FnOnce(&mut T) -> bool) -> Option<T> {
        let mut entries = self.entries.borrow_mut();
        let is_match = entries.get_mut(key).is_some_and(predicate);
        let entry = is_match.then(|| entries.remove(key))??;
        drop(entries);
        Some(self.unwatched(entry))
    }

    /// Takes every entry out.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = T> {
        self.entries.take().into_values().map(|entry| self.unwatched(entry))
    }

    /// Waits until entries are ready, and calls `handle` with their events.
    async fn turn(&self, handle: impl FnOnce(&[Event]) -> Pending) -> io::Result<()> {
        let mut ready = self.epoll.readable().await?;
        match self.poll(handle) {
            Pending::None => ready.clear_ready(),
            Pending::MayBeSome => {
                drop(ready);
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// A function of its own, so that the array of events is on the stack and not in the future of `turn`.
    fn poll(&self, handle: impl FnOnce(&[Event]) -> Pending) -> Pending {
        let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        let mut events = [nothing; PER_TURN_MAX];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // The only error that can happen here is EINTR.
        let Ok(found) = epoll::wait(&self.epoll, &mut events[..], Some(&now)) else {
            return Pending::MayBeSome;
        };
        match handle(&events[..found]) {
            Pending::None if found < PER_TURN_MAX => Pending::None,
            _ => Pending::MayBeSome,
        }
    }

    fn unwatched(&self, entry: T) -> T {
        // Fails only for an entry that has to wait, which is not in the epoll.
        let _registered = epoll::delete(&self.epoll, &entry);
        entry
    }
}

/// What an entry waits for.
fn flags(entry: &impl Entry) -> EventFlags {
    let always = EventFlags::IN | EventFlags::RDHUP;
    if entry.wants_write() { always | EventFlags::OUT } else { always }
}

fn key(event: &Event) -> usize {
    event.data.u64() as usize
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    /// After this time, a test fails instead of waiting for ever.
    const PATIENCE: Duration = Duration::from_secs(60);

    impl Entry for UnixStream {}

    impl Entry for File {}

    type Streams = Watched<UnixStream, 2>;

    /// Adds entries, and returns their peers, which write to them.
    fn add_pairs(streams: &Streams, count: usize) -> Vec<UnixStream> {
        let pairs = (0..count).map(|_| {
            let (far, near) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            streams.add(near).unwrap();
            far
        });
        pairs.collect()
    }

    /// Reads what is there.
    fn read(stream: &mut UnixStream) -> String {
        let mut bytes = [0; 64];
        let count = stream.read(&mut bytes).unwrap();
        String::from_utf8(bytes[..count].to_vec()).unwrap()
    }

    /// Returns what one turn reads; an entry whose peer has ended is read to its end.
    async fn turn(streams: &Streams) -> Vec<String> {
        let mut seen = Vec::new();
        let turn = streams.serve_ready(|stream, has_ended| {
            seen.push(read(stream));
            match (has_ended, seen.last().is_some_and(String::is_empty)) {
                (_, true) => Served::Closed,
                (true, false) => Served::Ready,
                (false, false) => Served::Drained,
            }
        });
        tokio::time::timeout(PATIENCE, turn).await.expect("the set is ready").unwrap();
        seen
    }

    #[tokio::test]
    async fn who_was_served_waits_for_the_next_bytes() {
        let streams = Streams::new().unwrap();
        let mut far = add_pairs(&streams, 2);
        for (number, text) in [(0, "a"), (1, "b"), (1, "c"), (0, "d")] {
            // The turn begins to wait before anything is written.
            let (seen, written) =
                tokio::join!(biased; turn(&streams), async { far[number].write_all(text.as_bytes()) });
            written.unwrap();
            assert_eq!(seen, [text]);
        }
    }

    #[tokio::test]
    async fn those_that_are_too_many_for_a_turn_have_the_next_ones() {
        let streams = Streams::new().unwrap();
        let mut far = add_pairs(&streams, 5);
        for stream in &mut far {
            stream.write_all(b"x").unwrap();
        }
        let mut seen = 0;
        while seen < 5 {
            let count = turn(&streams).await.len();
            assert!((1..=2).contains(&count), "{count} in a turn");
            seen += count;
        }
    }

    #[tokio::test]
    async fn an_end_is_met_that_came_together_with_the_last_bytes() {
        let streams = Streams::new().unwrap();
        let mut far = add_pairs(&streams, 1);
        far[0].write_all(b"the last").unwrap();
        far.clear();
        assert_eq!(turn(&streams).await, ["the last"]);
        assert_eq!(turn(&streams).await, [""]);
        assert_eq!(streams.take_all().count(), 0, "it is over");
    }

    #[tokio::test]
    async fn what_was_taken_out_is_open_and_not_watched() {
        let streams = Streams::new().unwrap();
        let mut far = add_pairs(&streams, 3);
        far[1].write_all(b"x").unwrap();
        let mut taken = Vec::new();
        streams.take_ready(|stream| taken.push(stream)).await.unwrap();
        assert_eq!(taken.iter_mut().map(read).collect::<Vec<_>>(), ["x"]);
        taken.extend(streams.take_all());
        assert_eq!(taken.len(), 3);
        for stream in taken {
            // The kernel refuses a descriptor that is already watched.
            streams.add(stream).unwrap();
        }
        far[2].write_all(b"y").unwrap();
        assert_eq!(turn(&streams).await, ["y"]);
    }

    #[tokio::test]
    async fn what_cannot_be_watched_is_given_back() {
        let files = Watched::<File, 2>::new().unwrap();
        let (_file, error) = files.add(File::open("/proc/self/exe").unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert_eq!(files.take_all().count(), 0);
    }
}
