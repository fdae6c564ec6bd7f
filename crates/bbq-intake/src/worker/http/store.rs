//! Stores the messages of a request, and waits for the disk if the client asked for that.
//!
//! Invariant: all messages of a request are taken, or none.

use std::sync::Arc;
use std::time::Duration;

use bbq_stored::{DropReason, Stream, Visitor};
use bbq_wire::batch::Events;
use bbq_wire::{SourceKind, StreamId};
use tokio::time::Instant;

use super::body::HeldBody;
use super::messages::Messages;
use super::refused::Refused;
use super::source::{Ack, Source};
use crate::access::Admission;
use crate::worker::numbered::{self, NotKept, NumberedBatch, Numbers};
use crate::worker::text::batcher::NotTaken;

/// What a client is told of the messages of its request: all of them are stored. With [`Ack::None`], they may have been dropped
/// instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// Messages that were new.
    pub(super) taken: u64,
    /// Messages that were stored before; `None` if the client does not number them.
    pub(super) duplicates: Option<u64>,
}

impl Source {
    /// Stores messages that the client does not number. `deadline` is as in [`Source::has_room_in_time`].
    pub(super) async fn store(
        &self,
        kind: SourceKind,
        ack: Ack,
        messages: Messages,
        deadline: &mut Option<Instant>,
    ) -> Result<Stored, Refused> {
        let intake = &self.intake;
        let count = messages.iter().count() as u64;
        let stored = Stored { taken: count, duplicates: None };
        let patient = ack != Ack::None;
        let taken = self.when_there_is_room(patient.then_some(deadline), || {
            let records = messages.iter();
            match ack {
                Ack::Durable => intake.append(self.listener_index, kind, records, self.peer).map(Some),
                Ack::Received | Ack::None => {
                    intake.append_unawaited(self.listener_index, kind, records, self.peer).map(|()| None)
                }
            }
        });
        let taken = taken.await;
        // Frees the memory before the request waits for the disk.
        drop(messages);
        match taken {
            Ok(Some(ticket)) => {
                self.in_time(ticket.durable()).await?.map_err(|_| Refused::Failed)?;
                Ok(stored)
            }
            Ok(None) => Ok(stored),
            Err(NotTaken::Dropped) if ack == Ack::None => Ok(stored),
            Err(why @ (NotTaken::Full | NotTaken::Failed)) if ack == Ack::None => {
                let reason = if why == NotTaken::Full { DropReason::Full } else { DropReason::Unwritten };
                intake.listeners[self.listener_index].ledger.add_dropped(reason, count);
                Ok(stored)
            }
            Err(why) => Err(self.not_taken(why)),
        }
    }

    /// Appends as soon as there is room; without a deadline, at once or not.
    async fn when_there_is_room<T>(
        &self,
        deadline: Option<&mut Option<Instant>>,
        mut append: impl FnMut() -> Result<T, NotTaken>,
    ) -> Result<T, NotTaken> {
        let Some(deadline) = deadline else { return append() };
        loop {
            let taken = append();
            // Usually the disk is only busy for a moment: waiting spares the client from sending its body again.
            if !matches!(taken, Err(NotTaken::Full)) || !self.has_room_in_time(deadline).await {
                return taken;
            }
        }
    }

    /// Stores messages with times and fields, and waits for the disk. `body` counts their memory, and counts `rest` bytes from the moment
    /// on at which they are appended.
    pub(super) async fn store_events(
        &self,
        kind: SourceKind,
        events: Events,
        (body, rest): (&mut HeldBody, usize),
        deadline: &mut Option<Instant>,
    ) -> Result<(), Refused> {
        let append = || self.intake.append_events(self.listener_index, kind, &events, self.peer);
        let taken = self.when_there_is_room(Some(deadline), append).await;
        drop(events);
        body.replace(rest)?;
        let ticket = taken.map_err(|why| self.not_taken(why))?;
        self.in_time(ticket.durable()).await?.map_err(|_| Refused::Failed)
    }

    /// Stores messages of a request that may come again, and waits for the disk: each once. `stream` is that of the request alone, and `body`
    /// is as in [`Source::store_events`].
    pub(super) async fn store_once(
        &self,
        kind: SourceKind,
        (stream, events): (StreamId, Events),
        admission: Option<&Admission>,
        (body, rest): (&mut HeldBody, usize),
    ) -> Result<(), Refused> {
        let message_bytes_max = self.message_bytes_max();
        if events.iter().any(|event| event.message.len() > message_bytes_max) {
            return Err(self.too_large());
        }
        let admitted = self.admitted(stream, admission, false)?;
        let (numbers, from) = (Numbers { stream, first: 1 }, (self.listener_index, self.peer));
        let batch = NumberedBatch::of_events(admitted, numbers, kind, &events, from)
            .ok_or_else(|| self.too_large())?;
        drop(events);
        body.replace(batch.bytes() + rest)?;
        let kept = numbered::keep(&self.intake, batch).await;
        body.replace(rest)?;
        self.in_time(kept.map_err(not_kept)?.durable()).await?.map_err(not_kept)
    }

    /// The stream of numbered messages, if their sender may append to it. `is_kept` says that the sender goes on with it for long.
    pub(super) fn admitted(
        &self,
        stream: StreamId,
        admission: Option<&Admission>,
        is_kept: bool,
    ) -> Result<Arc<Stream>, Refused> {
        let identity = admission.map(Admission::identity);
        let visitor = Visitor { identity, peer: self.peer, relays: false, is_kept };
        self.intake.disk.streams.admit(stream, &visitor).map_err(Refused::Stream)
    }

    /// Stores messages that the client numbers: each once, however often it is sent.
    pub(super) async fn store_numbered(
        &self,
        kind: SourceKind,
        ack: Ack,
        numbers: Numbers,
        admission: Option<&Admission>,
        messages: Messages,
    ) -> Result<Stored, Refused> {
        let count = messages.iter().count() as u64;
        if count == 0 {
            return Ok(Stored { taken: 0, duplicates: Some(0) });
        }
        if numbers.first.checked_add(count).is_none() {
            return Err(Refused::Numbers);
        }
        let stream = self.admitted(numbers.stream, admission, false)?;
        let message_bytes_max = self.message_bytes_max();
        if messages.iter().any(|message| message.len() > message_bytes_max) {
            return Err(self.too_large());
        }
        let from = (self.listener_index, self.peer);
        let mut batch = NumberedBatch::new(stream, numbers, kind, messages.iter(), from)
            .ok_or_else(|| self.too_large())?;
        batch.is_urgent = ack == Ack::Durable;
        // The batch takes the place of the body.
        let mut body = messages.body;
        body.replace(batch.bytes())?;
        let kept = numbered::keep(&self.intake, batch).await;
        drop(body);
        let kept = kept.map_err(not_kept)?;
        if ack == Ack::Durable {
            self.in_time(kept.durable()).await?.map_err(not_kept)?;
        }
        Ok(Stored { taken: count - kept.duplicates, duplicates: Some(kept.duplicates) })
    }

    /// Waits for the disk, at most `batch_timeout_seconds`: the disk may be full for a long time.
    pub(super) async fn in_time<T>(&self, durable: impl Future<Output = T>) -> Result<T, Refused> {
        let seconds = self.intake.buffers.limits.batch_timeout_seconds;
        let durable = tokio::time::timeout(Duration::from_secs(seconds.into()), durable);
        durable.await.map_err(|_| Refused::Undecided { seconds })
    }

    fn too_large(&self) -> Refused {
        Refused::TooLarge { bytes_max: self.message_bytes_max() }
    }

    pub(super) fn not_taken(&self, why: NotTaken) -> Refused {
        match why {
            NotTaken::Full => Refused::Full,
            NotTaken::Dropped => Refused::Dropped,
            NotTaken::TooLarge => self.too_large(),
            NotTaken::Failed => Refused::Failed,
        }
    }
}

pub(super) fn not_kept(why: NotKept) -> Refused {
    match why {
        NotKept::Gap { expected } => Refused::Gap { expected },
        NotKept::Full => Refused::Full,
        NotKept::Failed => Refused::Failed,
        NotKept::Busy => Refused::Busy,
        NotKept::Unsure => Refused::Unsure,
    }
}
