//! Text of others, as it may be shown: whoever sends a message, or answers with an error, must not write to the terminal of who looks on,
//! nor forge a line of a log.

use std::borrow::Cow;

/// The text without what a terminal obeys, and without what hides or changes the order of the characters on the line (UAX #9): these are
/// escaped as in Rust (`\u{1b}`).
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_dangerous(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Whether a terminal would obey a character, or not show where it is.
#[must_use]
pub fn is_dangerous(character: char) -> bool {
    character.is_control() || is_unseen(character)
}

/// Marks of direction, separators of lines, and characters without a width.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_obeyed_hidden_or_turned_around() {
        assert_eq!(shown("a\x1b[31m\u{9b}\u{202e}b\tc\r\n"), "a\\u{1b}[31m\\u{9b}\\u{202e}b\\tc\\r\\n");
        let harmless = "\u{65e5}\u{672c} \u{5d0}\u{5d1} \"\\";
        assert!(matches!(shown(harmless), Cow::Borrowed(text) if text == harmless));
    }
}
