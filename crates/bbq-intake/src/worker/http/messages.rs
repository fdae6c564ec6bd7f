//! The messages in a body.

use super::body::HeldBody;

/// The messages of a request, and the memory that they hold.
pub(super) struct Messages {
    pub(super) body: HeldBody,
    pub(super) split: Split,
}

/// How a body is cut into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// The body is one message.
    Whole,
    /// Each line is a message; empty lines are skipped.
    Lines,
    /// The body is the output of [`bbq_wire::otlp::split`].
    Logs,
}

impl Messages {
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let bytes = &*self.body.bytes;
        let whole = (self.split == Split::Whole).then_some(bytes);
        let lines = (self.split == Split::Lines).then(|| lines(bytes));
        let logs = (self.split == Split::Logs).then(|| bbq_wire::otlp::records(bytes));
        whole.into_iter().chain(lines.into_iter().flatten()).chain(logs.into_iter().flatten())
    }
}

/// The lines, without CR and LF at their ends.
fn lines(body: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let line = |line: &'_ [u8]| line.strip_suffix(b"\r").map_or(line.len(), <[u8]>::len);
    body.split(|byte| *byte == b'\n').map(move |text| &text[..line(text)]).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart_by_line_feeds_and_empty_ones_are_none() {
        let found = |body: &'static str| lines(body.as_bytes()).collect::<Vec<_>>();
        assert_eq!(found("a\nb\r\n\n\r\nc"), [b"a", b"b", b"c"]);
        assert!(found("").is_empty() && found("\n\n").is_empty());
    }
}
