//! The turn of a file: reads a bounded number of its bytes, cuts them, and hands a batch over.

use std::io;
use std::time::Instant;

use bbq_rules::Filter;
use bbq_spec::unix_ns;
use bbq_wire::batch::{BatchBuilder, BatchIdentity, Compression, SourceKind};
use memchr::memchr;

use crate::cut::{self, Cut};
use crate::events::{Rules, events};
use crate::filter::{OfFile, Records};
use crate::format::Format;
use crate::identity::Look;
use crate::limits::TURN_BYTES;
use crate::reader::Reader;
use crate::store::{FileBatch, Store};
use crate::tracked::Phase;
use crate::view::LossReason;
use crate::watch::FileIndex;

/// A buffer that a long line has made larger is given back.
const BUFFER_KEPT_BYTES: usize = 2 * TURN_BYTES;

/// What a read of a file has found.
enum Piece {
    /// The content is another one.
    Replaced,
    /// There is nothing behind the position.
    Nothing,
    /// A part of a line over the limit.
    Skipped,
    /// What was cut, how many records the rules have left out, and the others in a batch that may be empty.
    Cut(Cut, u64, Box<BatchBuilder>),
}

impl Reader {
    /// Gives a file its turn.
    pub(crate) fn turn(&mut self, index: FileIndex, now: Instant, store: &mut impl Store) {
        if let Err(error) = self.try_turn(index, now, store) {
            self.unreadable(index, &error, now);
        }
    }

    fn try_turn(&mut self, index: FileIndex, now: Instant, store: &mut impl Store) -> io::Result<()> {
        let Some(file) = self.files.get(index) else { return Ok(()) };
        match file.phase {
            _ if file.in_hand > 0 || file.retry.is_some_and(|retry| now < retry) => return Ok(()),
            Phase::Compressed | Phase::Resting => return Ok(()),
            Phase::Ended => {
                self.forget_if_settled(index, store);
                return Ok(());
            }
            Phase::New | Phase::Held(_) | Phase::Named | Phase::Left(_) => file.retry = None,
        }
        if !self.open_file(index, now)? {
            return Ok(());
        }
        let Some(file) = self.files.get(index) else { return Ok(()) };
        let Some(handle) = &file.file else { return Ok(()) };
        let look = Look::at_file(handle)?;
        file.note_size(&look, now);
        match file.phase {
            Phase::New | Phase::Held(_) => return self.identify(index, now, store),
            _ if !file.is_catalogued => return Ok(()),
            _ => {}
        }
        let grown = if look.size < file.read { Some(false) } else { file.grow_prefix()? };
        if grown == Some(false) {
            self.truncated(index, now);
            return Ok(());
        }
        self.is_stale |= grown.is_some();
        let Some(file) = self.files.get(index) else { return Ok(()) };
        if file.has_outgrown_catalog() {
            // Another content with the few bytes that the catalog has would be taken for this one by the next start.
            self.await_catalog(index);
            return Ok(());
        }
        self.read(index, now, store)
    }

    fn read(&mut self, index: FileIndex, now: Instant, store: &mut impl Store) -> io::Result<()> {
        let piece = self.read_piece(index, now)?;
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
        match piece {
            Piece::Replaced => self.truncated(index, now),
            Piece::Nothing => {}
            Piece::Skipped => self.files.enqueue(index),
            Piece::Cut(cut, filtered, batch) => {
                let Some(file) = self.files.get(index) else { return Ok(()) };
                file.oversize = (cut.oversize, cut.oversize_bytes);
                file.filtered = filtered;
                if batch.is_empty() {
                    self.view.lose_lines(std::mem::take(&mut file.oversize));
                    self.view.filter(std::mem::take(&mut file.filtered));
                    if cut.taken > 0 && file.read < file.size {
                        self.files.enqueue(index);
                    }
                    return Ok(());
                }
                self.hand_over(index, *batch, store);
            }
        }
        Ok(())
    }

    /// Reads and cuts, and moves the position of reading.
    fn read_piece(&mut self, index: FileIndex, now: Instant) -> io::Result<Piece> {
        let Reader { files, buffer, spec, view, pace, filter, .. } = self;
        let Some(file) = files.get(index) else { return Ok(Piece::Nothing) };
        let mut rules = Rules {
            format: file.format,
            multiline: spec.multiline.as_ref(),
            line_bytes_max: spec.line_bytes_max,
            is_end: false,
            is_quiet: false,
            is_forced: false,
        };
        let most = rules.bytes_max();
        let mut wanted = TURN_BYTES;
        loop {
            let Some(tail) = file.read_behind(wanted, buffer)? else { return Ok(Piece::Replaced) };
            (file.piece, file.piece_tail) = (file.read, file.tail);
            let rest = &buffer[tail..];
            if rest.is_empty() {
                return Ok(Piece::Nothing);
            }
            if file.is_skipping {
                let taken = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
                file.is_skipping = !rest[..taken].ends_with(b"\n");
                if !file.is_skipping {
                    view.lose(LossReason::Oversize, 0);
                }
                view.lose_bytes(LossReason::Oversize, taken as u64);
                file.pass(&buffer[..tail + taken], taken);
                return Ok(Piece::Skipped);
            }
            let is_all = file.read + rest.len() as u64 == file.size;
            rules.is_end = is_all && is_over(file.phase, file.grown, now, spec.incomplete, pace.quiet);
            rules.is_quiet = is_all && now >= file.grown + pace.event_wait;
            let of_file =
                OfFile { reader: &spec.source, stream: file.stream, fields: &file.fields, from: file.read };
            let (mut cut, mut filtered, mut batch) = cut_piece(rest, &rules, filter.as_mut(), of_file);
            if cut.taken == 0 && !is_all && wanted < most {
                wanted = most;
                continue;
            }
            if cut.taken == 0 && rest.len() >= most {
                rules.is_forced = true;
                (cut, filtered, batch) = cut_piece(rest, &rules, filter.as_mut(), of_file);
            }
            if cut.taken == 0 && rest.len() >= most {
                view.lose_bytes(LossReason::Oversize, rest.len() as u64);
                file.is_skipping = true;
                let taken = rest.len();
                file.pass(buffer, taken);
                return Ok(Piece::Skipped);
            }
            if cut.taken == 0 && is_all {
                file.unfinished_size = file.size;
            }
            file.pass(&buffer[..tail + cut.taken], cut.taken);
            return Ok(Piece::Cut(cut, filtered, Box::new(batch)));
        }
    }

    fn hand_over(&mut self, index: FileIndex, mut batch: BatchBuilder, store: &mut impl Store) {
        let Some(file) = self.files.get(index) else { return };
        let (stream, from, to, records) = (file.stream, file.handed, file.read, batch.records());
        let first_sequence = to - u64::from(records) + 1;
        batch.set_given_up(first_sequence - 1 - from);
        batch.set_fields(file.fields.iter().map(|(name, value)| (*name, value.as_str())));
        let identity = BatchIdentity {
            stream,
            first_sequence,
            base_time_ns: unix_ns(),
            source: SourceKind::Lines,
            compression: Compression::None,
        };
        let Some((bytes, _)) = batch.into_batch(&identity) else { return };
        let size = bytes.len();
        file.hand();
        match store.hand_over(FileBatch { stream, from, to, records, bytes }) {
            Ok(()) => {
                file.in_hand = size;
                self.in_hand += size;
            }
            Err(_returned) => {
                // The same lines are read again: the page cache has them, and no memory is kept for files that wait.
                file.rewind();
                self.is_blocked = true;
                self.files.enqueue(index);
            }
        }
    }
}

fn cut_piece(
    bytes: &[u8],
    rules: &Rules<'_>,
    filter: Option<&mut Filter>,
    of_file: OfFile<'_>,
) -> (Cut, u64, BatchBuilder) {
    let room = bytes.len().min(TURN_BYTES) * 9 / 8 + 512;
    let mut batch = BatchBuilder::with_buffer(Vec::with_capacity(room));
    let filter = filter.map(|filter| (filter, of_file));
    let mut records = Records { batch: &mut batch, filter, filtered: 0 };
    let cut = match rules {
        Rules { format: Format::Plain, multiline: None, line_bytes_max, is_end, .. } => {
            cut::lines(bytes, *line_bytes_max, *is_end, &mut records)
        }
        _ => events(bytes, rules, &mut records),
    };
    let filtered = records.filtered;
    (cut, filtered, batch)
}

/// Whether the last line of a file will get no line feed any more.
fn is_over(
    phase: Phase,
    grown: Instant,
    now: Instant,
    incomplete: Option<std::time::Duration>,
    quiet: std::time::Duration,
) -> bool {
    let left = matches!(phase, Phase::Left(since) if now >= grown.max(since) + quiet);
    left || incomplete.is_some_and(|wait| now >= grown + wait)
}
