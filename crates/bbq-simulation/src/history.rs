//! The history of a run, which the program under test cannot see: which records were made, what was promised, and so which
//! records must come out.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bbq_wire::StreamId;

use crate::random::Random;
use crate::record::Record;
use crate::server::leaves_out;

/// What an operator has skipped, in a ledger.
pub(crate) const SKIPPED: &str = "skipped";
/// Batches that are kept.
const BATCHES_MAX: usize = 16;

/// A broken promise, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) String);

impl Violation {
    pub(crate) fn new(text: impl Into<String>) -> Violation {
        Violation(text.into())
    }
}

/// The promises of a run.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The record of each number of a stream. A number is used once.
    numbers: HashMap<(StreamId, u64), Record>,
    /// Records that had a number before another one, of clients whose spool was set back.
    reused: BTreeSet<(StreamId, u64, Record)>,
    /// Clients whose spool was set back: they cannot know which numbers they have used.
    may_reuse: BTreeSet<usize>,
    /// The epoch of the last hello of each client and stream.
    epochs: HashMap<(usize, StreamId), u64>,
    /// Records that were acknowledged as durable.
    acknowledged: BTreeSet<Record>,
    /// Records of which a client does not know any more that they are acknowledged: a power failure took its progress.
    held_again: BTreeSet<Record>,
    /// Streams whose order the program has reported as lost.
    unordered: BTreeSet<StreamId>,
    /// No order is promised, as there are several ways to the outputs.
    is_unordered: bool,
    /// Records that may be lost.
    excused: BTreeSet<Record>,
    /// Records that the server may have forgotten: they may come out twice.
    forgotten: BTreeSet<Record>,
    /// Streams of which a server has acknowledged something to who numbers them, each with the highest number that was sent.
    owned: BTreeMap<StreamId, u64>,
    /// The spool of a client was copied.
    copied: Option<CopiedSpool>,
    /// The last batches that clients have sent.
    batches: VecDeque<(StreamId, Vec<u8>)>,
}

/// What the spool of a client had when it was copied.
#[derive(Debug)]
struct CopiedSpool {
    client: usize,
    /// The last record that the client had made.
    made: u64,
    /// Those of its records that were acknowledged.
    acknowledged: BTreeSet<Record>,
}

impl CopiedSpool {
    /// Whether both spools may have it, and deliver it under two numbers.
    fn may_have(&self, record: &Record) -> bool {
        record.client == self.client && record.number <= self.made && !self.acknowledged.contains(record)
    }
}

/// The output of a sink, and its counts.
#[derive(Debug)]
pub(crate) struct Delivered<'a> {
    pub(crate) sink: &'a str,
    /// The sink's files, oldest first.
    pub(crate) outputs: &'a [Vec<u8>],
    pub(crate) delivered: u64,
    pub(crate) dropped: &'a BTreeMap<String, u64>,
    /// What the sink's rules left out.
    pub(crate) filtered: u64,
    /// The rules that it has had. Which of them a record has depends on the place where it was stored, which nobody outside knows.
    pub(crate) rules: &'a BTreeSet<usize>,
    /// Records that were in the lanes.
    pub(crate) records: u64,
    /// Records that servers before this one have counted as dropped.
    pub(crate) dropped_before: u64,
    /// The dead letters, where an operator may have skipped messages, and the sink may drop what is over its limits.
    pub(crate) letters: Option<&'a BTreeSet<Record>>,
    /// They may have been deleted to make room for others.
    pub(crate) may_lose_letters: bool,
    /// The sink's cursor was removed: the sink may repeat records, and its count began again.
    pub(crate) may_repeat: bool,
}

impl History {
    /// A client sends a record with a number. Returns `false` if the client has sent another record with this number.
    pub(crate) fn send(&mut self, stream: StreamId, sequence: u64, record: Record) -> bool {
        if let Some(highest) = self.owned.get_mut(&stream) {
            *highest = sequence.max(*highest);
        }
        let known = self.numbers.entry((stream, sequence)).or_insert(record);
        if *known != record && self.may_reuse.contains(&record.client) {
            self.reused.insert((stream, sequence, std::mem::replace(known, record)));
        }
        *known == record
    }

    /// A client sends a hello. Returns `false` if the client has sent a hello for the stream with a higher epoch before.
    pub(crate) fn greet(&mut self, client: usize, stream: StreamId, epoch: u64) -> bool {
        let is_risen = self.epochs.insert((client, stream), epoch).is_none_or(|last| last <= epoch);
        is_risen || !self.may_reuse.is_empty()
    }

    /// The spool of a client was set back. It may send other records under numbers that it has used, and what it finds in the spool
    /// once more, as another stream.
    pub(crate) fn allow_reuse(&mut self, client: usize) {
        self.may_reuse.insert(client);
        self.forgotten.extend(self.numbers.values().filter(|record| record.client == client));
    }

    /// The spool of a client is copied, which has made so many records. Two senders may deliver what the spool holds, each by a stream
    /// of its own.
    pub(crate) fn copy_spool(&mut self, client: usize, made: u64) {
        let is_known = |record: &&Record| record.client == client && !self.held_again.contains(record);
        let acknowledged = self.acknowledged.iter().filter(is_known);
        self.copied = Some(CopiedSpool { client, made, acknowledged: acknowledged.copied().collect() });
    }

    /// A client moves to another stream what is not acknowledged. A server may have it by the number of the stream before.
    pub(crate) fn renumber(&mut self, is_of_client: impl Fn(usize) -> bool) {
        let may_come_again = |record: &&Record| {
            is_of_client(record.client)
                && (!self.acknowledged.contains(record) || self.held_again.contains(record))
        };
        self.forgotten.extend(self.numbers.values().filter(may_come_again));
    }

    /// A client starts, and holds what was sent with a number. It sends it again: with the same number, as long as the stream is its own.
    /// It `is_late` if it was acknowledged on receipt, and a power failure took that from the client: a server that has lost it stores it
    /// behind what came since.
    pub(crate) fn hold_again(&mut self, stream: StreamId, sequence: u64, is_late: bool) {
        let Some(record) = self.sent(stream, sequence) else { return };
        if is_late {
            self.unordered.insert(stream);
        }
        if !self.acknowledged.contains(&record) {
            return;
        }
        self.held_again.insert(record);
        if let Some(copied) = &mut self.copied {
            copied.acknowledged.remove(&record);
        }
    }

    /// The record that was sent with a number.
    pub(crate) fn sent(&self, stream: StreamId, sequence: u64) -> Option<Record> {
        self.numbers.get(&(stream, sequence)).copied()
    }

    /// A client tells its application that a record is on the server's disk.
    pub(crate) fn acknowledge(&mut self, record: Record) {
        self.acknowledged.insert(record);
        self.held_again.remove(&record);
    }

    /// Data of the server was damaged. With it, the server may have lost the only note of the records that a stream had sent.
    /// Records that are not acknowledged may have been delivered, and will be sent again.
    pub(crate) fn damage(&mut self) {
        self.forgotten.extend(self.numbers.values().filter(|record| !self.acknowledged.contains(record)));
    }

    /// The server has forgotten streams. All that was sent in them may be stored once more, if it comes again.
    /// Those of the clients `but` are not forgotten.
    pub(crate) fn forget_all(&mut self, but: &BTreeSet<usize>) {
        self.forgotten.extend(self.numbers.values().filter(|record| !but.contains(&record.client)));
        let numbers = self.numbers.iter().filter(|(_, record)| !but.contains(&record.client));
        self.unordered.extend(numbers.map(|((stream, _), _)| *stream));
    }

    /// A server has acknowledged this number of a stream to who numbers it.
    pub(crate) fn own(&mut self, stream: StreamId, sequence: u64) {
        let highest = self.owned.entry(stream).or_default();
        *highest = sequence.max(*highest);
    }

    /// Whether a stream belongs to somebody.
    pub(crate) fn is_owned(&self, stream: StreamId) -> bool {
        self.owned.contains_key(&stream)
    }

    /// A stream that belongs to somebody, and about its highest number.
    pub(crate) fn any_owned(&self, random: &mut Random) -> Option<(StreamId, u64)> {
        let at = random.index(self.owned.len().max(1));
        self.owned.iter().nth(at).map(|(stream, highest)| (*stream, *highest))
    }

    /// Keeps a batch that a client sends, for a while.
    pub(crate) fn keep_batch(&mut self, stream: StreamId, bytes: &[u8]) {
        if self.batches.len() == BATCHES_MAX {
            self.batches.pop_front();
        }
        self.batches.push_back((stream, bytes.to_vec()));
    }

    /// Some of the batches that clients have sent, in order. They come by a second way, and their streams keep no order between the two.
    pub(crate) fn some_batches(&mut self, random: &mut Random) -> Vec<Vec<u8>> {
        let taken: Vec<_> = self.batches.iter().filter(|_| random.one_in(4)).cloned().collect();
        self.unordered.extend(taken.iter().map(|(stream, _)| *stream));
        taken.into_iter().map(|(_, batch)| batch).collect()
    }

    /// There are several ways to the outputs, or both ends forget what was received: no stream keeps its order.
    pub(crate) fn expect_no_order(&mut self) {
        self.is_unordered = true;
    }

    pub(crate) fn give_up_order(&mut self, streams: &BTreeSet<StreamId>) {
        self.unordered.extend(streams);
    }

    /// The disk of a server was set back. Records that were sent, and are not in every output by now, may be lost: their
    /// acknowledgement may be on its way, from this server or one before it.
    pub(crate) fn excuse(&mut self, outputs: &[&BTreeSet<Record>]) {
        let is_out = |record: &Record| outputs.iter().all(|output| output.contains(record));
        self.excused.extend(self.numbers.values().filter(|record| !is_out(record)));
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// Records that were acknowledged as durable.
    pub(crate) fn acknowledged_records(&self) -> &BTreeSet<Record> {
        &self.acknowledged
    }

    /// Whether the messages of a stream come out in order.
    pub(crate) fn keeps_order(&self, stream: StreamId) -> bool {
        !self.is_unordered && !self.unordered.contains(&stream)
    }

    /// Checks the output of a sink after everything was drained. `may_lose` says that data was damaged beyond repair, so that
    /// missing records need only be counted.
    pub(crate) fn check(&self, sink: &Delivered<'_>, may_lose: bool) -> Result<(), Violation> {
        let fail = |text: String| Err(Violation(format!("{}: {text}", sink.sink)));
        let mut out: BTreeSet<Record> = BTreeSet::new();
        let mut last: BTreeMap<StreamId, u64> = BTreeMap::new();
        let mut lines = 0;
        for (file, output) in sink.outputs.iter().enumerate() {
            let text = String::from_utf8_lossy(output);
            if !text.is_empty() && !text.ends_with('\n') && !sink.may_repeat {
                return fail(format!("file {file} ends in the middle of a record"));
            }
            for line in text.lines() {
                lines += 1;
                let Some((stream, sequence, record)) = read_line(line) else {
                    // Without a cursor, the sink does not know where a crash tore the output.
                    if sink.may_repeat {
                        continue;
                    }
                    let start: String = line.chars().take(60).collect();
                    return fail(format!("line {lines} is not a record: {start:?}"));
                };
                if !sink.rules.is_empty() && sink.rules.iter().all(|rules| leaves_out(*rules, &record)) {
                    return fail(format!("{record:?} came out, which all rules of the sink leave out"));
                }
                let has_number = self.numbers.get(&(stream, sequence)) == Some(&record);
                if !has_number && !self.reused.contains(&(stream, sequence, record)) {
                    return fail(format!(
                        "{record:?} came out as number {sequence} of {stream}, but never had that number"
                    ));
                }
                if sink.may_repeat {
                    out.insert(record);
                    continue;
                }
                if !out.insert(record) {
                    let has_copy = self.copied.as_ref().is_some_and(|copied| copied.may_have(&record));
                    if has_copy || self.forgotten.contains(&record) {
                        continue;
                    }
                    return fail(format!("{record:?}, number {sequence} of {stream}, came out twice"));
                }
                let before = last.insert(stream, sequence).unwrap_or(0);
                if before > sequence && !self.is_unordered && !self.unordered.contains(&stream) {
                    return fail(format!("number {sequence} of {stream} came out behind {before}"));
                }
            }
        }
        self.check_missing(sink, &out, may_lose)?;
        self.check_ledger(sink, lines)
    }

    fn check_missing(
        &self,
        sink: &Delivered<'_>,
        out: &BTreeSet<Record>,
        may_lose: bool,
    ) -> Result<(), Violation> {
        let is_letter = |record: &Record| sink.letters.is_some_and(|letters| letters.contains(record));
        let missing = self.acknowledged.difference(out);
        let is_filtered = |record: &Record| sink.rules.iter().any(|rules| leaves_out(*rules, record));
        let missing = missing
            .filter(|record| !self.excused.contains(record) && !is_letter(record) && !is_filtered(record));
        let missing: Vec<&Record> = missing.collect();
        let Some(first) = missing.first() else { return Ok(()) };
        // What was skipped is among the letters.
        let kept = sink.letters.filter(|_| !sink.may_lose_letters).and(sink.dropped.get(SKIPPED));
        let kept = kept.copied().unwrap_or_default();
        let dropped: u64 = sink.dropped_before + sink.dropped.values().sum::<u64>() - kept;
        let count = missing.len() as u64;
        if may_lose && count <= dropped {
            return Ok(());
        }
        let total = self.acknowledged.len();
        Err(Violation(format!(
            "{}: {count} of {total} acknowledged records did not come out ({dropped} counted as dropped), the first is {first:?}",
            sink.sink
        )))
    }

    /// received = delivered + dropped, when nothing is queued.
    #[expect(clippy::unused_self, reason = "one of the checks")]
    fn check_ledger(&self, sink: &Delivered<'_>, lines: u64) -> Result<(), Violation> {
        let Delivered { delivered, records, dropped, filtered, .. } = *sink;
        let sum = delivered + dropped.values().sum::<u64>() + filtered;
        if sum != records {
            return Err(Violation(format!(
                "{}: delivered {delivered}, dropped {dropped:?} and filtered {filtered} make {sum}, but there were {records} records",
                sink.sink
            )));
        }
        if lines != delivered && !sink.may_repeat {
            return Err(Violation(format!(
                "{}: the output has {lines} lines, the ledger has {delivered} delivered",
                sink.sink
            )));
        }
        Ok(())
    }
}

/// The records in the files of a sink.
pub(crate) fn records_of(outputs: &[Vec<u8>]) -> BTreeSet<Record> {
    let texts = outputs.iter().map(|output| String::from_utf8_lossy(output));
    texts
        .flat_map(|text| text.lines().filter_map(read_line).map(|(_, _, record)| record).collect::<Vec<_>>())
        .collect()
}

/// Reads a line of an output: `{...,"stream":"<id>","sequence":<number>,"message":"<record>"}`. Records have no characters
/// that JSON escapes.
pub(crate) fn read_line(line: &str) -> Option<(StreamId, u64, Record)> {
    let (_, rest) = line.strip_prefix('{')?.split_once(",\"stream\":\"")?;
    let (stream, rest) = rest.split_once("\",\"sequence\":")?;
    let (sequence, rest) = rest.split_once(",\"message\":\"")?;
    let text = rest.strip_suffix("\"}")?;
    let stream = StreamId(u128::from_str_radix(stream, 16).ok()?.to_be_bytes());
    Some((stream, sequence.parse().ok()?, Record::read(text)?))
}
