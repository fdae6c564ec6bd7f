//! The entries of a journal that systemd-journal-upload sends. They are stored while they come: it sends everything that a journal has in one
//! request, and a request ends when the journal has no more at the moment, which may be never.
//!
//! ```text
//! body --decoder--> export format --parser--> entries --Run--> numbered batches --durable--> 202
//! ```
//!
//! The uploader remembers the last entry of a request that was answered, and sends again from there on. An entry has a number, so it is stored
//! once (`journal_stream`). Entries without a cursor, and those at a listener with rules, have none.
//!
//! Invariant: the answer comes when each entry of the request is on disk, was left out and counted, or was known.
//! Invariant: no more is held than a batch, an entry up to the listener's limit, and what a decoder holds.

use std::collections::VecDeque;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bbq_read::{JournalCursor, JournalEntry, JournalParser, journal_fields};
use bbq_rules::Rules;
use bbq_senders::Trouble;
use bbq_senders::journal;
use bbq_stored::{DropReason, Identity, Stream, Way};
use bbq_wire::batch::Events;
use bbq_wire::limits::BATCH_BODY_BYTES_TARGET;
use bbq_wire::{SourceKind, StreamId};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap};
use tokio::time::{Instant, sleep};

use super::answer::{Answered, Stop};
use super::journal_stream::{JournalKey, journal_stream};
use crate::access::Admission;
use crate::worker::http::body::HeldBody;
use crate::worker::http::coding::{Coding, Decoder};
use crate::worker::http::headers;
use crate::worker::http::refused::Refused;
use crate::worker::http::source::Source;
use crate::worker::http::store::not_kept;
use crate::worker::numbered::{self, Kept, NotKept, NumberedBatch, Numbers};
use crate::worker::text::batcher::NotTaken;
use crate::worker::ticket::Ticket;

/// Batches that are on their way to the disk: as many as a lane takes while its disk is busy for a moment.
const PENDING_MAX: usize = 16;
/// Steps of a decoder, of about 32 KiB each, before other tasks run.
const STEPS_PER_TURN: u32 = 8;
/// How long a batch waits that another worker cannot take at the moment.
const BUSY_PAUSE: Duration = Duration::from_millis(50);
/// The longest wait of an address that sends too much, before it is looked at again.
const RATE_WAIT_MAX: Duration = Duration::from_secs(1);

/// What is on its way to the disk.
enum Pending {
    Kept(Kept),
    Ticket(Ticket),
}

/// Neighbours that go into a batch: their numbers have no gap.
#[derive(Default)]
struct Run {
    events: Events,
    /// Of the first one; `None` if they have no numbers.
    numbers: Option<(JournalKey, u64)>,
}

/// A request while it comes.
struct Upload<'a> {
    source: &'a Source,
    admission: Option<&'a Admission>,
    names: Arc<[String]>,
    parser: JournalParser,
    entry: JournalEntry,
    run: Run,
    /// The stream of the last batch.
    stream: Option<(JournalKey, StreamId, Arc<Stream>)>,
    pending: VecDeque<Pending>,
    /// Counts the memory.
    held: HeldBody,
    /// Bytes that were received since the last batch.
    received: u64,
    decoder_bytes: usize,
}

impl Source {
    /// Stores the entries of a request.
    pub(super) async fn take_upload(
        &self,
        request: Request<Incoming>,
        (admission, identity): (Option<&Admission>, Identity),
    ) -> Result<Answered, Stop> {
        let coding = headers::coding(request.headers())?;
        if !is_export(request.headers()) {
            let why = format!("the Content-Type of entries of a journal is {}", journal::EXPORT);
            return Err(Stop::Rejected(journal::refused(Trouble::Coding, &why), why));
        }
        self.check_rate()?;
        self.wait_room(&mut None).await?;
        let mut upload = Upload::new(self, admission, identity);
        upload.read(request.into_body(), coding).await?;
        upload.finish().await?;
        Ok(journal::taken().into())
    }
}

fn is_export(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(journal::EXPORT)
}

impl<'a> Upload<'a> {
    fn new(source: &'a Source, admission: Option<&'a Admission>, identity: Identity) -> Upload<'a> {
        let names = journal_fields();
        let parser = JournalParser::new(Arc::clone(&names), source.message_bytes_max()).without_cursors();
        Upload {
            source,
            admission,
            names,
            parser,
            entry: JournalEntry::default(),
            run: Run::default(),
            stream: None,
            pending: VecDeque::new(),
            held: HeldBody::none(source, identity),
            received: 0,
            decoder_bytes: 0,
        }
    }

    /// Reads the body, and hands over the entries in it.
    async fn read(&mut self, mut body: Incoming, coding: Coding) -> Result<(), Stop> {
        let source = self.source;
        let intake = &source.intake;
        let mut decoder = Decoder::new(coding).map_err(|_| Refused::NoMemory)?;
        let patience = Duration::from_secs(intake.buffers.limits.batch_timeout_seconds.into());
        let mut timeout = pin!(sleep(patience));
        loop {
            self.wait_turn().await;
            let frame = tokio::select! {
                biased;
                () = intake.stopping.wait() => return Err(Refused::Stopping.into()),
                // A round has begun, or holders were marked to be closed.
                () = intake.rounds.notified() => {
                    self.count()?;
                    continue;
                }
                frame = body.frame() => frame,
                // Nothing else is there now: what came needs not wait for it.
                () = ready(()), if !self.run.events.is_empty() => {
                    self.hand_over().await?;
                    timeout.as_mut().reset(Instant::now() + patience);
                    continue;
                }
                () = &mut timeout => return Err(Refused::Timeout.into()),
            };
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|_| Refused::Incomplete)?.into_data() else { continue };
            self.received += data.len() as u64;
            source.overhead.add_body(data.len());
            self.take(&mut decoder, &data).await?;
            // Not before: the server may have been the one to wait.
            timeout.as_mut().reset(Instant::now() + patience);
        }
        let mut rest = Vec::new();
        decoder.finish(&mut rest).map_err(Refused::NotDecoded)?;
        self.parse(&rest).await?;
        if self.parser.is_amid() {
            // The empty line behind the last entry.
            self.parse(b"\n").await?;
        }
        if self.parser.is_amid() { Err(Refused::Incomplete.into()) } else { Ok(()) }
    }

    /// Takes bytes of the body.
    async fn take(&mut self, decoder: &mut Decoder, data: &Bytes) -> Result<(), Stop> {
        if matches!(decoder, Decoder::Identity) {
            return self.parse(data).await;
        }
        let (mut data, mut text) = (&data[..], Vec::new());
        for steps in 1_u32.. {
            let has_more = decoder.step(&mut data, &mut text).map_err(Refused::NotDecoded)?;
            self.decoder_bytes = decoder.bytes() + text.capacity();
            self.parse(&text).await?;
            text.clear();
            if !has_more {
                break;
            }
            if steps.is_multiple_of(STEPS_PER_TURN) {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    async fn parse(&mut self, mut text: &[u8]) -> Result<(), Stop> {
        loop {
            let is_complete = self.parser.take(&mut text, &mut self.entry).map_err(|error| {
                let why = format!("the body is not the export format of the journal: {error}");
                Stop::Rejected(journal::refused(Trouble::Malformed, &why), why)
            })?;
            if !is_complete {
                return Ok(self.count()?);
            }
            self.add().await?;
        }
    }

    /// Adds the entry to the run, or leaves it out.
    async fn add(&mut self) -> Result<(), Stop> {
        let ledger = &self.source.listener().ledger;
        match self.entry.message_bytes {
            None => {
                ledger.add_dropped(DropReason::Malformed, 1);
                return Ok(());
            }
            Some(bytes) if bytes > self.entry.message.len() as u64 => {
                ledger.add_dropped(DropReason::Oversize, 1);
                return Ok(());
            }
            Some(_) => {}
        }
        let cursor = self.entry.cursor().ok();
        let numbered = cursor.filter(|_| !self.has_rules());
        if !self.run.goes_on_with(numbered.as_ref(), &self.entry.machine) {
            self.hand_over().await?;
        }
        if self.run.events.is_empty() {
            let first = |cursor: JournalCursor| (JournalKey::of(&cursor, &self.entry.machine), cursor.seqnum);
            self.run.numbers = numbered.map(first);
        }
        let time_ns = cursor.map_or(0, |cursor| cursor.realtime_us.saturating_mul(1000));
        self.run.events.push(&self.entry.message, time_ns, self.entry.named(&self.names));
        Ok(())
    }

    fn has_rules(&self) -> bool {
        self.source.listener().spec.filter.as_ref().is_some_and(Rules::acts)
    }

    /// Hands the run to a lane.
    async fn hand_over(&mut self) -> Result<(), Stop> {
        let Run { events, numbers } = std::mem::take(&mut self.run);
        if events.is_empty() {
            return Ok(());
        }
        // The events, and the batch that is built of them.
        self.held.replace(self.bytes() + 2 * events.memory())?;
        let (count, bytes) =
            (events.len() as u64, events.iter().map(|event| event.message.len() as u64).sum());
        let pending = match numbers {
            Some((key, first)) => self.keep(&events, key, first).await?,
            None => self.append(&events).await?,
        };
        let received = std::mem::take(&mut self.received);
        self.source.listener().add_taken(self.source.peer, count, bytes, received);
        self.pending.push_back(pending);
        self.wait_pending(PENDING_MAX).await
    }

    /// Appends entries with numbers to their stream.
    async fn keep(&mut self, events: &Events, key: JournalKey, first: u64) -> Result<Pending, Stop> {
        let source = self.source;
        let (id, stream) = self.stream_of(key)?;
        let (numbers, from) = (Numbers { stream: id, first }, (source.listener_index, source.peer));
        let deadline = self.deadline();
        loop {
            let batch =
                NumberedBatch::of_events(Arc::clone(&stream), numbers, SourceKind::Lines, events, from);
            let mut batch = batch.ok_or(Refused::Numbers)?;
            batch.way = Way::Upload;
            match numbered::keep(&source.intake, batch).await {
                Ok(kept) => return Ok(Pending::Kept(kept)),
                // Too many gaps: rather twice than not at all.
                Err(NotKept::Unsure) => return self.append(events).await,
                Err(NotKept::Full | NotKept::Busy) if source.intake.stopping.has_begun() => {
                    return Err(Refused::Stopping.into());
                }
                // It has waited.
                Err(NotKept::Full) if Instant::now() < deadline => {}
                Err(NotKept::Busy) if Instant::now() < deadline => sleep(BUSY_PAUSE).await,
                Err(why) => return Err(not_kept(why).into()),
            }
        }
    }

    /// The stream of a journal.
    fn stream_of(&mut self, key: JournalKey) -> Result<(StreamId, Arc<Stream>), Refused> {
        if let Some((known, id, stream)) = &self.stream
            && *known == key
        {
            return Ok((*id, Arc::clone(stream)));
        }
        let identity = self.admission.map_or("", |admission| &**admission.identity());
        let id = journal_stream(&self.source.listener().spec.source, identity, &key);
        let stream = self.source.admitted(id, self.admission, true)?;
        self.stream = Some((key, id, Arc::clone(&stream)));
        Ok((id, stream))
    }

    /// Appends entries without numbers.
    async fn append(&self, events: &Events) -> Result<Pending, Stop> {
        let Source { intake, listener_index, peer, .. } = self.source;
        let deadline = self.deadline();
        loop {
            let room = intake.disk.room.notified();
            match intake.append_events(*listener_index, SourceKind::Lines, events, *peer) {
                Ok(ticket) => return Ok(Pending::Ticket(ticket)),
                Err(NotTaken::Full) => {}
                Err(why) => return Err(self.source.not_taken(why).into()),
            }
            tokio::select! {
                biased;
                () = intake.stopping.wait() => return Err(Refused::Stopping.into()),
                in_time = tokio::time::timeout_at(deadline, room) => in_time.map_err(|_| Refused::Full)?,
            }
        }
    }

    /// Until when entries wait for room.
    fn deadline(&self) -> Instant {
        let seconds = self.source.intake.buffers.limits.batch_timeout_seconds;
        Instant::now() + Duration::from_secs(seconds.into())
    }

    /// Waits until at most so many batches are on their way to the disk.
    async fn wait_pending(&mut self, pending_max: usize) -> Result<(), Stop> {
        while self.pending.len() > pending_max
            && let Some(pending) = self.pending.pop_front()
        {
            match pending {
                Pending::Kept(kept) => self.source.in_time(kept.durable()).await?.map_err(not_kept)?,
                Pending::Ticket(ticket) => {
                    self.source.in_time(ticket.durable()).await?.map_err(|_| Refused::Failed)?;
                }
            }
        }
        Ok(())
    }

    /// Waits until everything is on disk.
    async fn finish(mut self) -> Result<(), Stop> {
        self.hand_over().await?;
        // What waits for the disk needs no memory here.
        self.held.replace(0)?;
        self.wait_pending(0).await
    }

    /// Waits while the address sends more than it may.
    async fn wait_turn(&self) {
        let Source { intake, peer, .. } = self.source;
        while let Some((wait, _)) = self.source.listener().slowed(*peer)
            && !intake.stopping.has_begun()
        {
            tokio::select! {
                () = sleep(wait.min(RATE_WAIT_MAX)) => {}
                () = intake.stopping.wait() => {}
            }
        }
    }

    fn bytes(&self) -> usize {
        self.entry.memory() + self.decoder_bytes
    }

    fn count(&mut self) -> Result<(), Refused> {
        self.held.replace(self.bytes() + self.run.events.memory())
    }
}

impl Run {
    /// Whether an entry with this cursor, and of this machine, belongs into the same batch.
    fn goes_on_with(&self, numbered: Option<&JournalCursor>, machine: &[u8]) -> bool {
        let next = self.events.len() as u64;
        let is_next = match (&self.numbers, numbered) {
            (None, None) => true,
            (Some((key, first)), Some(cursor)) => {
                first.checked_add(next) == Some(cursor.seqnum) && key.is_of(cursor, machine)
            }
            _ => false,
        };
        is_next && self.events.body_bytes_max() < BATCH_BODY_BYTES_TARGET
    }
}
