//! A client of HTTP that numbers its records (`BBQ-Stream`), and sends a request again until it is answered with 200.

use std::collections::BTreeMap;

use bbq_wire::StreamId;

use super::around::new_stream;
use crate::history::{History, Violation};
use crate::random::Random;
use crate::record::Record;
use crate::server::Answer;
use crate::tokens::{requester, token};

/// Requests of one of them that are not answered.
const WAITING_MAX: usize = 4;
/// Records of a request, and the bytes of a record.
const RECORDS_MAX: u64 = 4;
const RECORD_BYTES_MAX: u64 = 300;

pub(super) struct Requester {
    /// Its number among all who make records.
    pub(super) number: usize,
    pub(super) token: String,
    pub(super) stream: StreamId,
    /// Records that were made.
    made: u64,
    /// The number of the next record in the stream.
    next: u64,
    /// Requests that are not answered, by the number of their first record.
    waiting: BTreeMap<u64, Vec<Record>>,
    /// The last number that is known to be stored.
    stored: u64,
}

impl Requester {
    pub(super) fn new(index: usize, number: usize, random: &mut Random) -> Requester {
        let stream = new_stream(random);
        let (token, waiting) = (token(&requester(index)), BTreeMap::new());
        Requester { number, token, stream, made: 0, next: 1, waiting, stored: 0 }
    }

    /// Makes the records of a request.
    pub(super) fn make(&mut self, random: &mut Random) {
        if self.waiting.len() >= WAITING_MAX {
            return;
        }
        let records = (0..random.between(1, RECORDS_MAX)).map(|_| {
            self.made += 1;
            let bytes = random.between(20, RECORD_BYTES_MAX) as u32;
            Record { client: self.number, number: self.made, bytes }
        });
        let records: Vec<Record> = records.collect();
        self.put(records);
    }

    fn put(&mut self, records: Vec<Record>) {
        let first = self.next;
        self.next += records.len() as u64;
        self.waiting.insert(first, records);
    }

    /// The first numbers of the requests that are not answered.
    pub(super) fn waiting(&self) -> Vec<u64> {
        self.waiting.keys().copied().collect()
    }

    /// Whether a request was answered with 200 in the present stream.
    pub(super) fn has_stored(&self) -> bool {
        self.stored > 0
    }

    /// The records of a request, which is sent now.
    pub(super) fn records(&self, first: u64, history: &mut History) -> Result<Vec<String>, Violation> {
        let records = self.waiting.get(&first).map(Vec::as_slice).unwrap_or_default();
        for (sequence, record) in (first..).zip(records) {
            if !history.send(self.stream, sequence, *record) {
                return Err(Violation::new(format!("number {sequence} of {} is used twice", self.stream)));
            }
        }
        Ok(records.iter().map(Record::text).collect())
    }

    /// Takes the answer to the request whose first number is `first`. `is_guarded` says that nobody else may make the server forget the
    /// stream, `may_be_forgotten` that the server has forgotten any.
    pub(super) fn take(
        &mut self,
        first: u64,
        answer: &Answer,
        (is_guarded, may_be_forgotten): (bool, bool),
        history: &mut History,
        random: &mut Random,
    ) -> Result<(), Violation> {
        match *answer {
            Answer::Stored => {
                for (sequence, record) in (first..).zip(self.waiting.remove(&first).unwrap_or_default()) {
                    history.acknowledge(record);
                    history.own(self.stream, sequence);
                    self.stored = self.stored.max(sequence);
                }
                Ok(())
            }
            Answer::Gap { expected } if expected <= self.stored => {
                if is_guarded || !may_be_forgotten {
                    let what = format!(
                        "number {expected} of {} is missing, but {} is stored",
                        self.stream, self.stored
                    );
                    return Err(Violation::new(what));
                }
                self.begin_stream(random);
                Ok(())
            }
            Answer::Forbidden => {
                Err(Violation::new(format!("{} may not append to its stream {}", self.token, self.stream)))
            }
            // A request that overtook an earlier one, or came at a bad time.
            Answer::Gap { .. } | Answer::Later => Ok(()),
        }
    }

    /// The server has forgotten the stream: what is not answered gets numbers of another one.
    fn begin_stream(&mut self, random: &mut Random) {
        (self.stream, self.next, self.stored) = (new_stream(random), 1, 0);
        for records in std::mem::take(&mut self.waiting).into_values() {
            self.put(records);
        }
    }
}
