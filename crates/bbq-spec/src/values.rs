//! The values that a key accepts: for parsing, error messages, help, documentation and editors.

use std::fmt;
use std::ops::RangeInclusive;

use crate::quantity::{parse_bytes, with_unit};

/// What lets bbq choose a number.
pub const AUTO: &str = "auto";

/// The values that a key accepts. Displayed as people read them: `4KiB to 1GiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these words.
    Words(&'static [&'static str]),
    /// A number.
    Number(RangeInclusive<u64>),
    /// A number, or 0 for never.
    NumberOrNever(RangeInclusive<u64>),
    /// A number, or `auto`, which is read as 0.
    NumberOrAuto(RangeInclusive<u64>),
    /// A number, or a text such as `64KiB`.
    Size(RangeInclusive<u64>),
    /// A text.
    Text {
        /// For people.
        form: &'static str,
        /// The regular expression for editors. Every valid text matches it; some invalid texts may match, too.
        pattern: &'static str,
    },
    /// A share: a fraction above 0 and up to 1.
    Fraction,
    /// Replacements: a text such as `s/PATTERN/WITH/`, or a list of such texts and of tables with `pattern` and `with`.
    Rewrites,
    /// A list of this many SPECs.
    Specs(RangeInclusive<u64>),
    /// A secret: `KEY_file` or `KEY_env` says where it is.
    Secret,
}

impl Values {
    /// Reads a number.
    ///
    /// # Errors
    /// The text is no number, or is out of range; the error says what is allowed.
    pub fn number(&self, text: &str) -> Result<u64, String> {
        let number = match self {
            Values::NumberOrAuto(_) if text == AUTO => return Ok(0),
            Values::Size(_) => parse_bytes(text)?,
            _ => text.parse().map_err(|_| self.no_number(text))?,
        };
        match self {
            Values::NumberOrNever(_) if number == 0 => Ok(number),
            Values::Number(range)
            | Values::NumberOrNever(range)
            | Values::NumberOrAuto(range)
            | Values::Size(range)
                if range.contains(&number) =>
            {
                Ok(number)
            }
            _ => Err(format!("{number} is out of range; allowed: {self}")),
        }
    }

    /// Why a text is no number of ours: also a negative one, or one with too many digits, is out of range.
    fn no_number(&self, text: &str) -> String {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number {
            format!("{text} is out of range; allowed: {self}")
        } else {
            format!("{text:?} is not a number; allowed: {self}")
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::Words(words) => f.write_str(&words.join(", ")),
            Values::Number(range) => write_range(f, range, u64::to_string),
            Values::NumberOrNever(range) => {
                write_range(f, range, u64::to_string)?;
                f.write_str(", or 0 for never")
            }
            Values::NumberOrAuto(range) => {
                write_range(f, range, u64::to_string)?;
                write!(f, ", or {AUTO}")
            }
            Values::Size(range) => write_range(f, range, |bytes| with_unit(*bytes)),
            Values::Text { form, .. } => f.write_str(form),
            Values::Fraction => f.write_str("a fraction above 0 and up to 1"),
            Values::Rewrites => {
                f.write_str("s/PATTERN/WITH/, or a list of such texts and of { pattern, with }")
            }
            Values::Specs(range) => {
                write!(f, "a list of {} to {} SPECs or tables", range.start(), range.end())
            }
            Values::Secret => f.write_str("a text that a file or an environment variable holds"),
        }
    }
}

fn write_range(
    f: &mut fmt::Formatter<'_>,
    range: &RangeInclusive<u64>,
    text: impl Fn(&u64) -> String,
) -> fmt::Result {
    match *range.end() {
        u64::MAX => write!(f, "{} or more", text(range.start())),
        _ => write!(f, "{} to {}", text(range.start()), text(range.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_within_their_range_and_shown_with_units() {
        for (values, accepted, refused, shown) in [
            (Values::Number(1..=256), &["1", "256"][..], &["0", "257", "-1", "1KiB", ""][..], "1 to 256"),
            (Values::NumberOrNever(2..=9), &["0", "2", "9"], &["1", "10"], "2 to 9, or 0 for never"),
            (Values::NumberOrAuto(1..=9), &["auto", "1", "9"], &["0", "10", "Auto"], "1 to 9, or auto"),
            (Values::Size(4096..=1 << 30), &["4096", "4KiB", "1G"], &["4095", "2GiB"], "4KiB to 1GiB"),
            (Values::Size(1..=65_535), &["1", "4k"], &["64KiB"], "1 to 65535"),
            (
                Values::Number(0..=u64::MAX),
                &["0", "18446744073709551615"],
                &["18446744073709551616"],
                "0 or more",
            ),
        ] {
            assert!(accepted.iter().all(|text| values.number(text).is_ok()), "{values}");
            assert!(refused.iter().all(|text| values.number(text).is_err()), "{values}");
            assert_eq!(values.to_string(), shown);
        }
    }

    #[test]
    fn a_number_out_of_range_is_told_from_what_is_no_number() {
        let refusal = |text: &str| Values::Number(1..=64).number(text).unwrap_err();
        for text in ["0", "65", "-1", "99999999999999999999999"] {
            assert_eq!(refusal(text), format!("{text} is out of range; allowed: 1 to 64"));
        }
        for text in ["", "-", "one", "1.5", "1KiB"] {
            assert_eq!(refusal(text), format!("{text:?} is not a number; allowed: 1 to 64"));
        }
    }
}
