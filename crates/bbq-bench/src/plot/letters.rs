//! About how wide a text is. Nobody knows what font a reader has: these are the widths of wide ones (DejaVu Sans, Verdana), or more.

use crate::svg::Face;

/// Bold letters of the same font are so much wider.
const BOLD: f64 = 1.13;

/// In pixels, at most.
pub(crate) fn width(text: &str, face: Face) -> f64 {
    let letters: f64 = text.chars().map(letter).sum();
    letters * face.size * if face.is_bold { BOLD } else { 1.0 }
}

/// In font sizes.
fn letter(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '|' | '\'' => 0.29,
        ' ' | ',' | '.' | ':' | ';' | '!' | '/' | '(' | ')' | '[' | ']' | '-' | 'f' | 't' | 'I' => 0.41,
        'r' => 0.45,
        'm' | 'M' | 'w' | 'W' | '%' | '@' => 1.0,
        '<' | '=' | '>' | '+' | '&' | '~' | '#' => 0.85,
        'A'..='Z' => 0.8,
        ' '..='~' => 0.65,
        _ => 1.05,
    }
}
