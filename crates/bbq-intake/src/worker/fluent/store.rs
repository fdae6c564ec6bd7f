//! Stores the records of a message: with a chunk as numbered records of a stream, otherwise in the listener's batch.
//!
//! A listener with rules gives numbers to nothing, as rules may leave records out, and a later configuration others. Then the records of a
//! chunk are stored as those of a request of HTTP, and again if the chunk comes again.
//!
//! Invariant: when a chunk is stored, all of its records are on disk, or were left out and counted.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bbq_senders::forward::{Chunk, Entries, Limits, Part, Records};
use bbq_stored::{DropReason, Identity, Stream, Visitor};
use bbq_wire::batch::Events;
use bbq_wire::framing::OnOversize;
use bbq_wire::{Peer, SourceKind};
use tokio::time::Instant;

use super::closed::Closed;
use super::decoded::{Beside, decoded};
use crate::worker::intake::Intake;
use crate::worker::local_listener::LocalListener;
use crate::worker::numbered::{self, Kept, NotKept, NumberedBatch, Numbers};
use crate::worker::repeat;
use crate::worker::text::batcher::NotTaken;
use crate::worker::ticket::Ticket;

/// Bytes of the records that are read from a message and stored at a time: twice what a batch should have.
const PART_BYTES: usize = 512 * 1024;
/// What a message may hold beside its bytes without being counted: the single records of docker and of libraries cost less so.
const UNCOUNTED_BYTES: usize = 16 * 1024;
/// How long a chunk waits that another worker cannot take at the moment.
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// Where records come from.
pub(super) struct Origin {
    pub(super) intake: Rc<Intake>,
    pub(super) listener_index: usize,
    pub(super) peer: Peer,
}

/// What is on its way to the disk.
enum Pending {
    Kept(Kept),
    Ticket(Ticket),
}

/// Stores the parts of a message.
struct Storing<'a> {
    origin: &'a Origin,
    way: Way,
    pending: Vec<Pending>,
}

/// How records are stored.
enum Way {
    /// Their client has no copy.
    Unawaited,
    /// Their client waits, and the listener has rules.
    Awaited,
    /// As numbered records; `next` is the number of the next one.
    Numbered { stream: Arc<Stream>, id: bbq_wire::StreamId, next: u64 },
}

impl Origin {
    pub(super) fn listener(&self) -> &LocalListener {
        &self.intake.listeners[self.listener_index]
    }

    /// Stores the records of a message of so many bytes. Those of a chunk are on disk then.
    pub(super) async fn store(&self, records: &Records<'_>, message_bytes: usize) -> Result<(), Closed> {
        let mut beside = Beside::new(&self.intake, self.peer);
        let entries = decoded(records, &mut beside).await?;
        let mut storing = Storing {
            origin: self,
            way: self.way(records.chunk.as_ref(), records.tag)?,
            pending: Vec::new(),
        };
        let taken =
            storing.store_all(records.entries(&entries), records.tag, entries.capacity(), &mut beside);
        let (count, bytes) = taken.await?;
        self.listener().add_taken(self.peer, count, bytes, message_bytes as u64);
        // What is on its way to the disk needs no memory here.
        drop((beside, entries));
        storing.durable().await
    }

    fn way(&self, chunk: Option<&Chunk<'_>>, tag: &str) -> Result<Way, Closed> {
        let Some(chunk) = chunk else { return Ok(Way::Unawaited) };
        let request: [&[u8]; 3] = [b"fluent", tag.as_bytes(), chunk.id()];
        let Some(id) = repeat::stream(&self.listener().spec, &whose(self.peer), &request) else {
            return Ok(Way::Awaited);
        };
        let visitor = Visitor { identity: None, peer: self.peer, relays: false, is_kept: false };
        let stream = self.intake.disk.streams.admit(id, &visitor);
        let stream = stream.map_err(|_| Closed::NotKept("its stream belongs to somebody else"))?;
        Ok(Way::Numbered { stream, id, next: 1 })
    }

    fn limits(&self) -> Limits {
        let rules = &self.listener().spec.rules;
        Limits {
            message_bytes_max: rules.message_bytes_max as usize,
            cuts: rules.on_oversize == OnOversize::Cut,
            part_bytes: PART_BYTES,
        }
    }

    /// How long a client waits for what is not there: room, or the disk.
    fn patience(&self) -> (Duration, u32) {
        let seconds = self.intake.buffers.limits.batch_timeout_seconds;
        (Duration::from_secs(seconds.into()), seconds)
    }
}

/// Whose a chunk is. Some clients make its id of the content, so an equal chunk of another host is another one: the whole address counts,
/// while an [`Identity`] is a network of IPv6.
fn whose(peer: Peer) -> String {
    match peer {
        Peer::Inet(address) => address.ip().to_canonical().to_string(),
        other => Identity::of_peer(other).to_string(),
    }
}

impl Storing<'_> {
    /// Returns how many records there were, and their bytes.
    async fn store_all(
        &mut self,
        mut entries: Entries<'_>,
        tag: &str,
        held: usize,
        beside: &mut Beside<'_>,
    ) -> Result<(u64, u64), Closed> {
        let limits = self.origin.limits();
        let (mut count, mut bytes) = (0, 0);
        while let Some(part) = entries.part(tag, limits)? {
            let Part { events, oversize, cut } = part;
            // The part, and the batch that is built of it.
            let memory = held + 2 * events.memory();
            if memory > UNCOUNTED_BYTES {
                beside.set(memory)?;
            }
            let is_new = events.is_empty() || self.put(&events).await?;
            if is_new {
                let ledger = &self.origin.listener().ledger;
                ledger.add_cut(cut);
                ledger.add_dropped(DropReason::Oversize, oversize);
            }
            count += events.len() as u64;
            bytes += events.iter().map(|event| event.message.len() as u64).sum::<u64>();
        }
        Ok((count, bytes))
    }

    /// Stores a part. Returns whether any of it is new.
    async fn put(&mut self, events: &Events) -> Result<bool, Closed> {
        let Origin { intake, listener_index, peer } = self.origin;
        let (kind, from) = (SourceKind::Lines, (*listener_index, *peer));
        match &mut self.way {
            Way::Unawaited => self.origin.put_unawaited(events).await.map(|()| true),
            Way::Awaited => {
                let append = || intake.append_events(from.0, kind, events, from.1);
                self.pending.push(Pending::Ticket(self.origin.with_room(append).await?));
                Ok(true)
            }
            Way::Numbered { stream, id, next } => {
                let numbers = Numbers { stream: *id, first: *next };
                let batch = || NumberedBatch::of_events(Arc::clone(stream), numbers, kind, events, from);
                let kept = self.origin.keep(batch).await?;
                *next += events.len() as u64;
                let is_new = kept.duplicates < events.len() as u64;
                self.pending.push(Pending::Kept(kept));
                Ok(is_new)
            }
        }
    }

    /// Waits until everything is on disk: at most `batch_timeout_seconds`, as the disk may be full for a long time.
    async fn durable(self) -> Result<(), Closed> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let (patience, seconds) = self.origin.patience();
        let durable = async {
            for pending in self.pending {
                match pending {
                    Pending::Kept(kept) => kept.durable().await.map_err(|_| Closed::Failed)?,
                    Pending::Ticket(ticket) => ticket.durable().await.map_err(|_| Closed::Failed)?,
                }
            }
            Ok(())
        };
        tokio::time::timeout(patience, durable).await.unwrap_or(Err(Closed::Full { seconds }))
    }
}

impl Origin {
    /// Adds records to the listener's batch. Their client has no copy, so they wait for room as long as the server runs.
    async fn put_unawaited(&self, events: &Events) -> Result<(), Closed> {
        let Origin { intake, listener_index, peer } = self;
        let lost = |reason, why| {
            self.listener().ledger.add_dropped(reason, events.len() as u64);
            Err(why)
        };
        loop {
            let room = intake.disk.room.notified();
            match intake.append_events_unawaited(*listener_index, SourceKind::Lines, events, *peer) {
                // Those that were dropped are counted.
                Ok(()) | Err(NotTaken::Dropped) => return Ok(()),
                Err(NotTaken::Full) => {}
                Err(NotTaken::Failed) => return lost(DropReason::Unwritten, Closed::Failed),
                Err(NotTaken::TooLarge) => return lost(DropReason::Oversize, Closed::Failed),
            }
            // A worker that stops waits a moment for its connections; what has no room then is dropped, and counted by `Lost`.
            let lost = Lost { origin: self, records: events.len() as u64, is_lost: true };
            room.await;
            lost.keep();
        }
    }

    /// Appends records whose client waits, as soon as there is room.
    async fn with_room(&self, append: impl Fn() -> Result<Ticket, NotTaken>) -> Result<Ticket, Closed> {
        let (patience, seconds) = self.patience();
        let deadline = Instant::now() + patience;
        loop {
            let room = self.intake.disk.room.notified();
            match append() {
                Ok(ticket) => return Ok(ticket),
                Err(NotTaken::Full) => {}
                Err(NotTaken::Dropped) => return Err(Closed::Dropped),
                Err(NotTaken::Failed | NotTaken::TooLarge) => return Err(Closed::Failed),
            }
            tokio::select! {
                biased;
                () = self.intake.stopping.wait() => return Err(Closed::Stopping),
                in_time = tokio::time::timeout_at(deadline, room) => {
                    in_time.map_err(|_| Closed::Full { seconds })?;
                }
            }
        }
    }

    /// Keeps numbered records. While there is no room, nothing else is read from the connection.
    async fn keep(&self, batch: impl Fn() -> Option<NumberedBatch>) -> Result<Kept, Closed> {
        let (patience, seconds) = self.patience();
        let deadline = Instant::now() + patience;
        loop {
            let batch = batch().ok_or(Closed::NotKept("it is too large"))?;
            match numbered::keep(&self.intake, batch).await {
                Ok(kept) => return Ok(kept),
                Err(NotKept::Full | NotKept::Busy) if self.intake.stopping.has_begun() => {
                    return Err(Closed::Stopping);
                }
                Err(NotKept::Full | NotKept::Busy) if Instant::now() >= deadline => {
                    return Err(Closed::Full { seconds });
                }
                // It has waited.
                Err(NotKept::Full) => {}
                Err(NotKept::Busy) => tokio::time::sleep(BUSY_PAUSE).await,
                Err(NotKept::Failed) => return Err(Closed::Failed),
                Err(NotKept::Gap { .. } | NotKept::Unsure) => {
                    return Err(Closed::NotKept("a part of it is not known any more"));
                }
            }
        }
    }
}

/// Counts records as dropped that are given up while they wait for room: the server ends.
struct Lost<'a> {
    origin: &'a Origin,
    records: u64,
    is_lost: bool,
}

impl Lost<'_> {
    fn keep(mut self) {
        self.is_lost = false;
    }
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        if self.is_lost {
            self.origin.listener().ledger.add_dropped(DropReason::Full, self.records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hosts_of_one_network_are_two() {
        let at = |address: &str| whose(Peer::Inet(address.parse().unwrap()));
        assert_ne!(at("[2001:db8::1]:1"), at("[2001:db8::2]:1"));
        // Another connection, and a socket of both families.
        assert_eq!(at("192.0.2.1:1"), at("[::ffff:192.0.2.1]:2"));
    }
}
