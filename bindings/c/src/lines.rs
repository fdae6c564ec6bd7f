//! Cuts what is read into lines. A line is handed out when it has its line feed, and stays where it is until then.

/// Most lines that are handed out together: as many as a handler in Rust gets (`bbq_server::Messages`).
const LINES_MAX: usize = 1024;
/// No more is read before the lines are handed out once so many bytes are there: enough for a transaction.
const BYTES_ENOUGH: usize = 1024 * 1024;

/// See the module.
#[derive(Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Where each line ends, at its line feed.
    ends: Vec<usize>,
    /// How many of these are handed out.
    handed_out: usize,
}

impl Lines {
    /// Adds what was read, behind the rest of a line.
    pub(crate) fn add(&mut self, chunk: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(chunk);
        let ends = chunk.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        self.ends.extend(ends.map(|(at, _)| from + at));
    }

    /// Whether there is a line.
    pub(crate) fn has_line(&self) -> bool {
        self.handed_out < self.ends.len()
    }

    /// Whether to read more before lines are handed out. The first line may have any length.
    pub(crate) fn has_room(&self) -> bool {
        !self.has_line() || (self.ends.len() - self.handed_out < LINES_MAX && self.bytes.len() < BYTES_ENOUGH)
    }

    /// Hands out the next lines, without their line feeds.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = &[u8]> {
        let from = self.handed_out;
        self.handed_out = self.ends.len().min(from + LINES_MAX);
        let begin = from.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        let begins = std::iter::once(begin).chain(self.ends[from..].iter().map(|end| end + 1));
        begins.zip(&self.ends[from..self.handed_out]).map(|(begin, end)| &self.bytes[begin..*end])
    }

    /// Forgets what was handed out, once it is all.
    pub(crate) fn forget(&mut self) {
        if self.has_line() {
            return;
        }
        if let Some(end) = self.ends.last() {
            self.bytes.drain(..=*end);
            self.bytes.shrink_to(2 * BYTES_ENOUGH);
        }
        self.ends.clear();
        self.handed_out = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(lines: &mut Lines) -> Vec<String> {
        let taken = lines.take().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        lines.forget();
        taken
    }

    #[test]
    fn lines_come_in_any_pieces() {
        let mut lines = Lines::default();
        assert!(!lines.has_line() && take(&mut lines).is_empty());
        lines.add(b"on");
        assert!(!lines.has_line());
        lines.add(b"e\n\ntwo\nthr");
        assert_eq!(take(&mut lines), ["one", "", "two"]);
        assert!(!lines.has_line());
        lines.add(b"ee\n");
        assert_eq!(take(&mut lines), ["three"]);
        lines.add(b"\n");
        assert_eq!(take(&mut lines), [""]);
        assert!(lines.bytes.is_empty() && lines.ends.is_empty());
    }

    #[test]
    fn many_lines_are_handed_out_in_parts() {
        let mut lines = Lines::default();
        let text: String = (0..2500).map(|number| format!("{number}\n")).collect();
        lines.add(text.as_bytes());
        lines.add(b"rest");
        assert!(!lines.has_room());
        let parts = [take(&mut lines), take(&mut lines), take(&mut lines)];
        assert_eq!(parts.each_ref().map(Vec::len), [1024, 1024, 452]);
        assert_eq!(parts.concat().join("\n") + "\n", text);
        assert!(lines.has_room() && !lines.has_line());
        lines.add(b"\n");
        assert_eq!(take(&mut lines), ["rest"]);
    }

    #[test]
    fn a_large_line_takes_memory_only_while_it_is_there() {
        let mut lines = Lines::default();
        for _ in 0..512 {
            assert!(lines.has_room());
            lines.add(&[b'x'; 16 * 1024]);
        }
        lines.add(b"\ny");
        assert!(!lines.has_room());
        assert_eq!(lines.take().map(<[u8]>::len).collect::<Vec<_>>(), [512 * 16 * 1024]);
        lines.forget();
        assert_eq!(lines.bytes, b"y");
        assert!(lines.bytes.capacity() <= 2 * BYTES_ENOUGH);
    }
}
