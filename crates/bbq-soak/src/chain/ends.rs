//! What came out at each end of the chain, and the report.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;

use crate::book::{Book, Promise};
use crate::output::Output;

const NAMES: [&str; 4] = ["file", "JetStream", "Kafka read_committed", "S3"];
const KAFKA: usize = 2;
/// Its order is that of each lane, which its reader checks.
const S3: usize = 3;
/// Where to look.
const FORGOTTEN_HINT: &str = "its log has \"Couldn't find leader endpoint\"";

/// What Kafka's broker did wrong.
#[derive(Default)]
struct Faults {
    /// Transactions that it left open for ever: what is behind them cannot be read.
    hanging: Vec<String>,
    /// Transactions that it ended without markers. Their messages stand in the topic as open ones, and the next transaction of the same
    /// producer decides on them: aborted messages may become committed, and committed ones aborted.
    forgotten: usize,
}

/// A book for each end.
pub(super) struct Ends {
    books: [Book; NAMES.len()],
    streams: u32,
    each: u64,
    faults: Mutex<Faults>,
}

impl Ends {
    /// Each of the streams has so many messages.
    pub(super) fn new(streams: u64, each: u64) -> Ends {
        let books = std::array::from_fn(|end| {
            let (name, book) = (NAMES[end], Book::default());
            for stream in 0..streams {
                let promise = Promise { ordered: end != S3, no_holes: true, durable: true };
                let run = book.begin(format!("{name}, stream {stream}"), promise);
                book.send(run, each);
            }
            book
        });
        Ends { books, streams: streams as u32, each, faults: Mutex::default() }
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hanging(&self, hanging: Vec<String>, forgotten: usize) {
        *self.faults() = Faults { hanging, forgotten };
    }

    pub(super) fn has_hanging(&self) -> bool {
        !self.faults().hanging.is_empty()
    }

    pub(super) fn read_file(&self, path: PathBuf) -> Result<()> {
        self.read(0, |book| Output::new(path).read(|line| book.see(line)))
    }

    /// Reads an end, and counts what is missing as lost. Behind a transaction that the broker left open nothing can be judged: then
    /// only what is missing in front of a message that is there counts.
    pub(super) fn read(&self, end: usize, read: impl FnOnce(&Book) -> Result<()>) -> Result<()> {
        let book = &self.books[end];
        read(book)?;
        if end != KAFKA || !self.has_hanging() {
            (0..self.streams).for_each(|run| book.acknowledge(run, self.each, book.epoch()));
        }
        book.judge();
        Ok(())
    }

    /// Prints the result. Returns whether all promises were kept.
    pub(super) fn report(&self, done: &Result<()>, took: Duration) -> bool {
        if let Err(error) = done {
            println!("chain: {error:#}");
        }
        let mut clean = [done.is_ok(); NAMES.len()];
        for ((name, book), clean) in NAMES.iter().zip(&self.books).zip(&mut clean) {
            let counts = book.counts();
            *clean &= counts.is_clean();
            println!(
                "chain: {name}: {} of {} messages, {} lost, {} doubled, {} disordered, {} foreign",
                counts.messages,
                u64::from(self.streams) * self.each,
                counts.lost,
                counts.doubled,
                counts.disordered,
                counts.foreign
            );
            book.findings().iter().for_each(|finding| println!("chain: {finding}"));
        }
        let faults = self.faults();
        for transaction in &faults.hanging {
            println!("chain: the fault of Kafka, which left a transaction open for ever: {transaction}");
        }
        if faults.forgotten > 0 {
            println!(
                "chain: the fault of Kafka, which ended transactions without markers ({FORGOTTEN_HINT}): {}",
                faults.forgotten
            );
        }
        let is_faulty = faults.forgotten > 0 || !faults.hanging.is_empty();
        let others_are_clean = (0..NAMES.len()).all(|end| clean[end] || end == KAFKA);
        let verdict = match (others_are_clean, clean[KAFKA]) {
            (true, true) if !is_faulty => "all promises kept",
            (true, true) => "all promises kept, as far as Kafka let its end be read",
            (true, false) if is_faulty => {
                "promises kept at the other ends; Kafka's is not as promised, and the broker was at fault, too: run it again"
            }
            _ => "promises BROKEN",
        };
        println!("chain: {:.1} minutes: {verdict}", took.as_secs_f64() / 60.0);
        clean == [true; NAMES.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn see(numbers: &[u64]) -> impl FnOnce(&Book) -> Result<()> {
        move |book| {
            for &number in numbers {
                let mut text = Vec::new();
                Message { run: 0, number }.write(&mut text);
                book.see(&text);
            }
            Ok(())
        }
    }

    /// What the report says of an end, with these messages of three there, and others where it does not matter.
    fn is_clean(end: usize, numbers: &[u64], hanging: &[&str]) -> bool {
        let ends = Ends::new(1, 3);
        ends.hanging(hanging.iter().map(|&text| text.to_owned()).collect(), 0);
        for other in 0..NAMES.len() {
            let numbers = if other == end { numbers } else { &[0, 1, 2] };
            ends.read(other, see(numbers)).unwrap();
        }
        ends.report(&Ok(()), Duration::ZERO)
    }

    #[test]
    fn a_lost_a_doubled_and_a_late_message_are_seen_at_each_end() {
        for end in 0..NAMES.len() {
            assert!(is_clean(end, &[0, 1, 2], &[]));
            assert!(!is_clean(end, &[0, 1], &[]), "lost");
            assert!(!is_clean(end, &[0, 1, 2, 1], &[]), "doubled");
            assert_eq!(is_clean(end, &[0, 2, 1], &[]), end == S3, "late");
        }
    }

    #[test]
    fn a_transaction_that_the_broker_left_open_hides_only_what_is_behind_it() {
        assert!(is_clean(KAFKA, &[0, 1], &["a transaction"]));
        assert!(!is_clean(KAFKA, &[0, 2], &["a transaction"]), "lost in front of one that is there");
        assert!(!is_clean(KAFKA, &[0, 1, 1], &["a transaction"]), "doubled");
        assert!(!is_clean(0, &[0, 1], &["a transaction"]), "the file has nothing to do with it");
    }

    #[test]
    fn a_run_that_did_not_come_to_its_end_is_not_clean() {
        let ends = Ends::new(1, 0);
        assert!(!ends.report(&Err(anyhow::anyhow!("stuck")), Duration::ZERO));
    }
}
