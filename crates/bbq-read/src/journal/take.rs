//! Takes the entries of journalctl, and hands batches of them over.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bbq_rules::{Attributes, FieldSet, Message};
use bbq_spec::unix_ns;
use bbq_wire::batch::{BatchIdentity, Compression, Detail, Output, SourceKind};
use bbq_wire::{BatchBuilder, Peer};

use super::catalog::KnownId;
use super::cursor::{Cursor, Place};
use super::export::ExportError;
use super::reader::JournalReader;
use super::streams::{IDS_MAX, InHand, JournalStream, LeftOut};
use crate::store::{FileBatch, Store};

/// Reads of the pipe in a pass: the store is asked for outcomes in between.
const READS: usize = 16;

/// What became of an entry.
enum Taken {
    /// It is in a batch, known, or not wanted.
    Done,
    /// The catalog must be written first, or a batch be handed over.
    Waits,
    /// The journal was restored from a copy, or journalctl has left out something: another run begins here.
    Again(Place),
    /// There are too many ids.
    TooManyIds,
}

impl JournalReader {
    /// Reads from the pipe while there is room.
    pub(super) fn read(&mut self, now: Instant, store: &mut impl Store) {
        for _ in 0..READS {
            if !self.parse(now, store) || !self.has_room() {
                return;
            }
            let Some(child) = &self.child else { return };
            match child.read(&mut self.buffer) {
                Ok(Some(0)) => return self.ended(now),
                Ok(Some(bytes)) => self.unparsed = 0..bytes,
                Ok(None) => {
                    self.gaps.reach_end(now);
                    return;
                }
                Err(error) => {
                    return self
                        .failed(&format!("cannot read from {}: {error}", self.program.display()), now);
                }
            }
        }
    }

    /// Takes the entries in the buffer. Returns whether nothing is left there.
    fn parse(&mut self, now: Instant, store: &mut impl Store) -> bool {
        if !self.has_room() {
            return false;
        }
        while self.waiting.is_some() || !self.unparsed.is_empty() {
            let taken = self
                .next_cursor()
                .map(|cursor| cursor.map(|cursor| (cursor, self.take(&cursor, now, store))));
            match taken {
                Ok(None) => {}
                Ok(Some((cursor, Taken::Done))) => {
                    if self.streams.get(&cursor.seqnum_id).is_some_and(JournalStream::is_full) {
                        return false;
                    }
                }
                Ok(Some((cursor, Taken::Waits))) => {
                    self.waiting = Some(cursor);
                    return false;
                }
                Ok(Some((_, Taken::Again(place)))) => {
                    self.begin_again(place);
                    return false;
                }
                Ok(Some((_, Taken::TooManyIds))) => {
                    let text = format!(
                        "the journal has more than {IDS_MAX} sequence number ids; delete old files of it"
                    );
                    self.failed(&text, now);
                    return false;
                }
                Err(error) => {
                    let program = self.program.display();
                    self.failed(&format!("{program} wrote what is not the export format: {error}"), now);
                    return false;
                }
            }
        }
        true
    }

    /// The cursor of the next entry, once it is complete.
    fn next_cursor(&mut self) -> Result<Option<Cursor>, ExportError> {
        if let Some(cursor) = self.waiting.take() {
            return Ok(Some(cursor));
        }
        let mut input = &self.buffer[self.unparsed.clone()];
        let is_complete = self.parser.take(&mut input, &mut self.entry)?;
        self.unparsed.start = self.unparsed.end - input.len();
        if is_complete { self.entry.cursor().map(Some) } else { Ok(None) }
    }

    /// Whether the catalog must be written before this entry is taken, or a batch of its stream be handed over.
    pub(super) fn must_wait(&self, cursor: &Cursor) -> bool {
        let stream = self.streams.get(&cursor.seqnum_id);
        cursor.realtime_us > self.contents.bound_us
            || stream.is_some_and(|stream| stream.is_other(cursor, self.new_boot) && !stream.is_idle())
    }

    fn take(&mut self, cursor: &Cursor, now: Instant, store: &mut impl Store) -> Taken {
        let (machine, entry) = (self.machine.as_ref(), &self.entry);
        if machine.is_some_and(|wanted| !entry.machine.is_empty() && entry.machine != wanted.as_bytes()) {
            return Taken::Done;
        }
        if let Some(place) = self.restored_from(cursor) {
            return Taken::Again(place);
        }
        if self.must_wait(cursor) {
            return Taken::Waits;
        }
        self.run.has_read = true;
        self.view.last_entry_second.store(cursor.realtime_us / 1_000_000, Ordering::Relaxed);
        let id = cursor.seqnum_id;
        if !self.streams.contains_key(&id) {
            if self.streams.len() >= IDS_MAX {
                return Taken::TooManyIds;
            }
            let known = KnownId { seqnum_id: id, generation: 0, fork: 0 };
            self.streams.insert(id, JournalStream::new(self.contents.salt, known, 0, store));
        }
        if self.is_to_look_again(cursor, now) {
            return Taken::Again(self.progress.place());
        }
        let order = self.progress.read(Place::from(*cursor));
        let Some(stream) = self.streams.get_mut(&id) else { return Taken::Done };
        if stream.is_resting {
            return Taken::Done;
        }
        if cursor.seqnum <= stream.read {
            if !stream.is_other(cursor, self.new_boot) {
                stream.note(cursor);
                return Taken::Done;
            }
            let (generation, fork) = (stream.known.generation + 1, cursor.seqnum - 1);
            let known = KnownId { seqnum_id: id, generation, fork };
            tracing::warn!(
                "reader {}: the journal has lost entries that were read, and has written others under their numbers, from {} on",
                self.name,
                cursor.seqnum
            );
            *stream = JournalStream::new(self.contents.salt, known, stream.newest_us, store);
        }
        self.add(cursor, order);
        Taken::Done
    }

    /// Whether journalctl may have left out the message of this entry, or what is before it.
    fn is_to_look_again(&mut self, cursor: &Cursor, now: Instant) -> bool {
        let Some(stream) = self.streams.get(&cursor.seqnum_id) else { return false };
        if stream.is_resting || cursor.seqnum <= stream.read {
            return false;
        }
        let may_have_gaps = self.rules.is_choosy() || self.problems.rights.is_some();
        let is_gap = !may_have_gaps && stream.read > 0 && cursor.seqnum > stream.read + 1;
        let is_missing = is_gap || self.entry.message_bytes.is_none();
        self.gaps.is_to_look(cursor.seqnum_id, cursor.seqnum, is_missing, now)
    }

    /// Adds the entry to the open batch of its stream.
    fn add(&mut self, cursor: &Cursor, order: u64) {
        let Some(stream) = self.streams.get_mut(&cursor.seqnum_id) else { return };
        stream.read = cursor.seqnum;
        stream.note(cursor);
        let entry = &self.entry;
        match entry.message_bytes {
            None => stream.left_out.without_message += 1,
            Some(bytes) if bytes > entry.message.len() as u64 => {
                stream.left_out.oversize += 1;
                stream.left_out.oversize_bytes += bytes;
            }
            Some(_) => {
                let fields = || entry.named(&self.rules.fields);
                let seen: Vec<(&str, &str)> = match &self.filter {
                    Some(_) => fields().collect(),
                    None => Vec::new(),
                };
                let message = match &mut self.filter {
                    None => Some(entry.message.as_slice()),
                    Some(filter) => filter.pass(&Message {
                        record: &entry.message,
                        source: SourceKind::Lines,
                        listener: &self.name,
                        peer: Peer::Unnamed,
                        received_ns: 0,
                        stream: stream.stream,
                        sequence: cursor.seqnum,
                        attributes: Attributes { fields: FieldSet::Entry(&seen), output: Output::Unknown },
                    }),
                };
                let Some(message) = message else {
                    stream.left_out.filtered += 1;
                    return;
                };
                if stream.batch.is_empty() {
                    self.progress.begin_batch(order, stream.stream, Place::from(*cursor));
                }
                stream.batch.push(message);
                let time_ns = cursor.realtime_us.saturating_mul(1000);
                stream.batch.set_detail(Detail { time_ns, output: Output::Unknown });
                stream.batch.set_record_fields(fields());
                stream.batch_to = cursor.seqnum;
            }
        }
    }

    /// Hands over what can be handed over.
    pub(super) fn hand_over(&mut self, store: &mut impl Store) {
        let JournalReader { streams, view, progress, in_hand, is_blocked, .. } = self;
        for stream in streams.values_mut() {
            if *is_blocked {
                return;
            }
            if stream.in_hand.is_some() || stream.is_resting || !stream.is_catalogued {
                continue;
            }
            if stream.batch.is_empty() && stream.returned.is_none() {
                // No batch follows that could tell whether they are counted.
                std::mem::take(&mut stream.left_out).count(view);
                continue;
            }
            let Some(batch) = stream.returned.take().or_else(|| stream.finish_batch()) else { continue };
            let (from, to, bytes) = (batch.from, batch.to, batch.bytes.len());
            match store.hand_over(batch) {
                Ok(()) => {
                    progress.end_batch(stream.stream, to);
                    let left_out = std::mem::take(&mut stream.left_out);
                    stream.in_hand = Some(InHand { from, to, bytes, left_out });
                    *in_hand += bytes;
                }
                Err(batch) => {
                    stream.returned = Some(batch);
                    *is_blocked = true;
                }
            }
        }
    }

    /// Writes the catalog if a stream waits for it, and otherwise from time to time.
    pub(super) fn save_if_needed(&mut self, now: Instant, store: &impl Store) {
        let is_due = self.save_after.is_none_or(|after| now >= after);
        let waits = self.waiting.is_some_and(|cursor| cursor.realtime_us > self.contents.bound_us);
        let must = waits || self.streams.values().any(|stream| !stream.is_catalogued);
        if !is_due && (self.problems.catalog.is_some() || !must) || !(must || self.is_stale) {
            return;
        }
        match self.save(store) {
            Ok(()) => self.problems.catalog = None,
            Err(error) => {
                let text = format!(
                    "cannot write the catalog of reader {}: {error}; check the disk of the data directory",
                    self.name
                );
                if self.problems.catalog.is_none() {
                    tracing::warn!("{text}");
                }
                self.problems.catalog = Some(text);
            }
        }
        self.save_after = Some(now + self.pace.retry);
    }

    /// Writes the catalog, and lets new streams be handed over.
    pub(super) fn save(&mut self, store: &impl Store) -> io::Result<()> {
        let contents = self.contents_now();
        store.save(&mut || self.catalog.save(&contents))?;
        (self.is_stale, self.contents.bound_us) = (false, contents.bound_us);
        self.streams.values_mut().for_each(|stream| stream.is_catalogued = true);
        Ok(())
    }
}

impl JournalStream {
    /// Whether an entry with a known number is another one than the known one.
    fn is_other(&self, cursor: &Cursor, new_boot: Option<u128>) -> bool {
        let is_of_new_boot = cursor.seqnum <= self.loaded && new_boot == Some(cursor.boot_id);
        cursor.seqnum <= self.read && (cursor.realtime_us > self.newest_us || is_of_new_boot)
    }

    fn note(&mut self, cursor: &Cursor) {
        self.newest_us = self.newest_us.max(cursor.realtime_us);
    }

    /// The open batch, which ends with its last entry.
    fn finish_batch(&mut self) -> Option<FileBatch> {
        let mut batch = std::mem::replace(&mut self.batch, BatchBuilder::new());
        let (stream, from, to, records) = (self.stream, self.handed, self.batch_to, batch.records());
        let first_sequence = to - u64::from(records) + 1;
        batch.set_given_up(first_sequence - 1 - from);
        let identity = BatchIdentity {
            stream,
            first_sequence,
            base_time_ns: unix_ns(),
            source: SourceKind::Lines,
            compression: Compression::None,
        };
        let (bytes, _) = batch.into_batch(&identity)?;
        self.handed = to;
        Some(FileBatch { stream, from, to, records, bytes })
    }

    /// Entries behind this number are read again.
    pub(super) fn rewind(&mut self, to: u64) {
        self.batch.clear();
        (self.returned, self.left_out) = (None, LeftOut::default());
        (self.handed, self.read) = (to, to.max(self.known.fork));
    }
}
