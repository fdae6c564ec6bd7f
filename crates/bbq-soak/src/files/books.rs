//! What was written, and what each tool has made of it, for each kind of rotation.
//!
//! A run of a book is what is written to a file between two rotations. What is written between the copy and the truncation of
//! copytruncate is a run of its own: nobody can promise to read it, so that only twice is wrong.

use crate::book::{Book, Counts, Promise};
use crate::message::Message;

use super::kind::Kind;

struct Run {
    kind: Kind,
    is_certain: bool,
    lines: u64,
}

/// The results of a tool for one kind of rotation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Result {
    pub(super) counts: Counts,
    /// Lines that are missing and were written between a copy and a truncation.
    pub(super) lost_between: u64,
}

#[derive(Default)]
pub(super) struct Books {
    runs: Vec<Run>,
    /// For each tool a book for each kind.
    tools: Vec<[Book; Kind::ALL.len()]>,
    /// For each tool the lines that nobody has written.
    torn: Vec<u64>,
}

impl Books {
    pub(super) fn new(tools: usize) -> Books {
        let tools: Vec<_> = (0..tools).map(|_| std::array::from_fn(|_| Book::default())).collect();
        Books { runs: Vec::new(), torn: vec![0; tools.len()], tools }
    }

    /// Begins a run. `is_certain`: each of its lines must be read.
    pub(super) fn begin(&mut self, kind: Kind, label: &str, is_certain: bool) -> u32 {
        let promise = Promise { ordered: true, no_holes: is_certain, durable: true };
        for book in self.tools.iter().flatten() {
            book.begin(label.to_owned(), promise);
        }
        self.runs.push(Run { kind, is_certain, lines: 0 });
        self.runs.len() as u32 - 1
    }

    /// Notes a line of a run, and returns its number.
    pub(super) fn write(&mut self, run: u32) -> u64 {
        let noted = &mut self.runs[run as usize];
        for tool in &self.tools {
            tool[noted.kind as usize].send(run, 1);
        }
        noted.lines += 1;
        noted.lines - 1
    }

    /// Notes a line that a tool has written.
    pub(super) fn see(&mut self, tool: usize, line: &[u8]) {
        let run = Message::read(line).and_then(|message| self.runs.get(message.run as usize));
        match run {
            Some(run) => self.tools[tool][run.kind as usize].see(line),
            None => self.torn[tool] += 1,
        }
    }

    /// Counts what a tool has not written. Call it once its whole output was seen.
    pub(super) fn judge(&self, tool: usize) {
        for (number, run) in self.runs.iter().enumerate().filter(|(_, run)| run.is_certain) {
            let book = &self.tools[tool][run.kind as usize];
            book.acknowledge(number as u32, run.lines, book.epoch());
        }
        self.tools[tool].iter().for_each(Book::judge);
    }

    pub(super) fn result(&self, tool: usize, kind: Kind) -> Result {
        let counts = self.tools[tool][kind as usize].counts();
        let distinct = counts.messages - counts.doubled - counts.foreign;
        Result { counts, lost_between: self.lines(kind).saturating_sub(distinct + counts.lost) }
    }

    /// Lines of a tool's output that nobody has written: parts of lines.
    pub(super) fn torn(&self, tool: usize) -> u64 {
        self.torn[tool]
    }

    pub(super) fn is_clean(&self, tool: usize) -> bool {
        let books = &self.tools[tool];
        self.torn[tool] == 0 && books.iter().all(|book| book.counts().is_clean())
    }

    pub(super) fn findings(&self, tool: usize) -> Vec<String> {
        self.tools[tool].iter().flat_map(Book::findings).collect()
    }

    /// All lines that were written to files of this kind.
    pub(super) fn lines(&self, kind: Kind) -> u64 {
        self.runs.iter().filter(|run| run.kind == kind).map(|run| run.lines).sum()
    }

    /// The lines that must be read.
    pub(super) fn certain_lines(&self) -> u64 {
        self.runs.iter().filter(|run| run.is_certain).map(|run| run.lines).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(run: u32, number: u64) -> Vec<u8> {
        let mut text = Vec::new();
        Message { run, number }.write(&mut text);
        text
    }

    #[test]
    fn only_what_was_written_between_a_copy_and_its_truncation_may_be_missing() {
        let mut books = Books::new(2);
        let certain = books.begin(Kind::CopyTruncate, "a", true);
        let between = books.begin(Kind::CopyTruncate, "b", false);
        let renamed = books.begin(Kind::Rename, "c", true);
        for run in [certain, between, renamed] {
            (0..3).for_each(|number| assert_eq!(books.write(run), number));
        }
        for (run, number) in [(certain, 0), (certain, 1), (certain, 2), (between, 1), (renamed, 0)] {
            (0..2).for_each(|tool| books.see(tool, &line(run, number)));
        }
        for number in [1, 2] {
            books.see(0, &line(renamed, number));
        }
        books.see(1, &line(between, 1));
        books.see(1, b"run-00000000 0000");
        (0..2).for_each(|tool| books.judge(tool));
        let copied = books.result(0, Kind::CopyTruncate);
        assert!(books.is_clean(0) && copied.lost_between == 2, "{copied:?}");
        let (copied, renamed) = (books.result(1, Kind::CopyTruncate), books.result(1, Kind::Rename));
        assert_eq!((copied.counts.doubled, copied.lost_between, renamed.counts.lost), (1, 2, 2));
        assert!(!books.is_clean(1) && books.torn(1) == 1);
    }
}
