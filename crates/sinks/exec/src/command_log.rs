//! Takes what a command writes to its standard error, or to a standard output that nobody reads, to bbq's log.

use std::time::Duration;

use memchr::memchr;
use tracing::{info, warn};

/// How much of a line the log shows.
const LINE_BYTES_MAX: usize = 1024;
/// Most lines in an interval: enough for a traceback.
const LINES_MAX: u32 = 50;
const INTERVAL: Duration = Duration::from_secs(10);

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

/// See the module. It outlives a run, so that a command that is started again and again does not flood the log.
pub(super) struct CommandLog {
    stream: Stream,
    /// Its name, for the log.
    sink: String,
    line: Vec<u8>,
    /// The rest of the line is left out.
    is_cut: bool,
    last_line: Option<String>,
    /// When the interval began.
    since: Duration,
    lines: u32,
    left_out: u64,
}

impl CommandLog {
    pub(super) fn new(stream: Stream, sink: &str) -> CommandLog {
        CommandLog {
            stream,
            sink: sink.to_owned(),
            line: Vec::new(),
            is_cut: false,
            last_line: None,
            since: Duration::ZERO,
            lines: 0,
            left_out: 0,
        }
    }

    /// Takes what the command wrote.
    pub(super) fn take(&mut self, mut bytes: &[u8], now: Duration) {
        while !bytes.is_empty() {
            let end = memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            let room = LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            self.is_cut |= part.len() > room;
            let Some(end) = end else { return };
            self.end_line(now);
            bytes = &bytes[end + 1..];
        }
    }

    /// The run has ended. Returns the last line that it wrote.
    pub(super) fn end_run(&mut self, now: Duration) -> Option<String> {
        if !self.line.is_empty() {
            self.end_line(now);
        }
        self.last_line.take()
    }

    fn end_line(&mut self, now: Duration) {
        let mut line = shown(&self.line);
        if std::mem::take(&mut self.is_cut) {
            line.push_str(" ...");
        }
        self.line.clear();
        if line.is_empty() {
            return;
        }
        if now.saturating_sub(self.since) >= INTERVAL {
            (self.since, self.lines) = (now, 0);
        }
        if self.lines < LINES_MAX {
            self.lines += 1;
            let (sink, left_out) = (&self.sink, std::mem::take(&mut self.left_out));
            match self.stream {
                Stream::Error if left_out > 0 => {
                    warn!(sink, left_out, "the command wrote to standard error: {line}");
                }
                Stream::Error => warn!(sink, "the command wrote to standard error: {line}"),
                Stream::Output if left_out > 0 => info!(sink, left_out, "the command wrote: {line}"),
                Stream::Output => info!(sink, "the command wrote: {line}"),
            }
        } else {
            self.left_out += 1;
        }
        self.last_line = Some(line);
    }
}

/// A line without what a terminal would obey.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_limited_and_made_harmless() {
        let mut log = CommandLog::new(Stream::Error, "test");
        log.take(b"one\n\ntw", Duration::ZERO);
        assert_eq!(log.last_line.as_deref(), Some("one"));
        log.take(b"o\x1b[31m\n", Duration::ZERO);
        assert_eq!(log.last_line.as_deref(), Some("two [31m"));
        for _ in 0..1000 {
            log.take(&[b'x'; 1000], Duration::ZERO);
        }
        assert_eq!(log.line.len(), LINE_BYTES_MAX);
        let last = log.end_run(Duration::ZERO).unwrap();
        assert!(last.ends_with("x ...") && last.len() == LINE_BYTES_MAX + 4);
        for _ in 0..1000 {
            log.take(b"again\n", Duration::ZERO);
        }
        assert_eq!((log.lines, log.left_out), (LINES_MAX, 1003 - u64::from(LINES_MAX)));
        log.take(b"later\n", INTERVAL);
        assert_eq!((log.lines, log.left_out), (1, 0));
    }
}
