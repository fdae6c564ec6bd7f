//! Text of others on a terminal: whoever sends a message, or answers with an error, must not write to the terminal of who looks on.

/// The text without what a terminal obeys, and without what hides or changes the order of the characters on the line (UAX #9). A tab
/// stays if `keeps_tabs`.
pub(crate) fn safe(text: &str, keeps_tabs: bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        let is_kept_tab = character == '\t' && keeps_tabs;
        if (character.is_control() && !is_kept_tab) || is_unseen(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
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
        assert_eq!(safe("a\x1b[31m\u{9b}\u{202e}b\tc", false), "a\\u{1b}[31m\\u{9b}\\u{202e}b\\tc");
        assert_eq!(safe("a\tb\u{2028}\u{2066}\n", true), "a\tb\\u{2028}\\u{2066}\\n");
        assert_eq!(safe("\u{65e5}\u{672c} \u{5d0}\u{5d1}", true), "\u{65e5}\u{672c} \u{5d0}\u{5d1}");
    }
}
