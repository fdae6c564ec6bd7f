//! Text in columns of a terminal: cut, padded and wrapped by the width that it takes there.

use ratatui::text::Span;

/// What stands at a cut.
const CUT: &str = "..";

pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

pub(super) fn safe(text: &str) -> String {
    crate::safe_text::safe(text, false)
}

/// The beginning of `text` that takes at most `columns`, and the rest.
fn split(text: &str, columns: usize) -> (&str, &str) {
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        let next = at + character.len_utf8();
        taken += width(&text[at..next]);
        if taken > columns {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// `text` in at most `columns`; what is cut shows.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    if columns <= CUT.len() {
        return split(text, columns).0.to_owned();
    }
    split(text, columns - CUT.len()).0.to_owned() + CUT
}

/// The same, without the middle: names of sockets differ at their ends.
pub(super) fn cut_middle(text: &str, columns: usize) -> String {
    if width(text) <= columns || columns < 2 * CUT.len() {
        return cut(text, columns);
    }
    let head = split(text, (columns - CUT.len()) / 2).0;
    let room = columns - CUT.len() - width(head);
    let ends = text.char_indices().map(|(at, _)| &text[at..]);
    let tail = ends.into_iter().find(|tail| width(tail) <= room).unwrap_or_default();
    format!("{head}{CUT}{tail}")
}

/// Exactly `columns`.
pub(super) fn fit(text: &str, columns: usize, is_left: bool) -> String {
    let text = cut(text, columns);
    let blank = " ".repeat(columns - width(&text).min(columns));
    if is_left { text + &blank } else { blank + &text }
}

/// In lines of at most `columns`, between words where there are any.
pub(super) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (mut line, mut behind) = split(rest, columns.max(1));
        if line.is_empty() {
            // A character that is wider than the line.
            break;
        }
        if !behind.is_empty()
            && !behind.starts_with(' ')
            && let Some(at) = line.rfind(' ').filter(|at| *at > line.len() / 2)
        {
            (line, behind) = rest.split_at(at);
        }
        lines.push(line.trim_end().to_owned());
        rest = behind.trim_start();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_and_wrapped_by_what_a_terminal_shows() {
        assert_eq!(
            (cut("abcdef", 6), cut("abcdef", 5), cut("abcdef", 1)),
            ("abcdef".into(), "abc..".into(), "a".into())
        );
        assert_eq!(cut_middle("tcp://127.0.0.1:7700 #1", 12), "tcp:/..00 #1");
        assert_eq!((cut_middle("abcdef", 3), cut_middle("abcdef", 6)), ("a..".into(), "abcdef".into()));
        // Wide characters take two columns.
        assert_eq!(fit("\u{65e5}\u{672c}\u{8a9e}", 5, true), "\u{65e5}.. ");
        assert_eq!(fit("7", 3, false), "  7");
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("0123456789", 4), ["0123", "4567", "89"]);
        assert_eq!(wrap("\u{65e5}", 1), [""; 0]);
        assert_eq!(wrap("any", 0), ["a", "n", "y"]);
    }

    #[test]
    fn a_text_cannot_obey_or_hide() {
        assert_eq!(safe("a\x1b[31m\u{9b}\u{202e}b"), "a\\u{1b}[31m\\u{9b}\\u{202e}b");
    }
}
