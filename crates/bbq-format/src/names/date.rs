//! The date of a template: `{date}`, or `{date:%Y/%m/%d}` with parts of a time in UTC.

use std::fmt::Write as _;

use chrono::{DateTime, Datelike as _, Timelike as _, Utc};

/// `{date}` without a form.
pub(super) const FORM_DEFAULT: &str = "%Y-%m-%d";

/// A number of a date. Nothing is shorter than an hour: each name costs the destination something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Year,
    Month,
    Day,
    Hour,
    DayOfYear,
    /// Of ISO 8601, as the week.
    YearOfWeek,
    Week,
}

/// As strftime(3) names them.
const NUMBERS: [(char, Number); 7] = [
    ('Y', Number::Year),
    ('m', Number::Month),
    ('d', Number::Day),
    ('H', Number::Hour),
    ('j', Number::DayOfYear),
    ('G', Number::YearOfWeek),
    ('V', Number::Week),
];

/// A piece of a date's form.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FormPiece<'a> {
    Text(&'a str),
    Number(Number),
}

impl Number {
    /// Digits of the number.
    pub(super) fn digits(self) -> usize {
        match self {
            Number::Year | Number::YearOfWeek => 4,
            Number::DayOfYear => 3,
            Number::Month | Number::Day | Number::Hour | Number::Week => 2,
        }
    }

    /// Appends the number of a time.
    pub(super) fn put(self, time: &DateTime<Utc>, out: &mut String) {
        let number = match self {
            Number::Year => time.year().unsigned_abs(),
            Number::Month => time.month(),
            Number::Day => time.day(),
            Number::Hour => time.hour(),
            Number::DayOfYear => time.ordinal(),
            Number::YearOfWeek => time.iso_week().year().unsigned_abs(),
            Number::Week => time.iso_week().week(),
        };
        // Writing to a String cannot fail.
        let _infallible = write!(out, "{number:0width$}", width = self.digits());
    }
}

/// Reads a form.
///
/// # Errors
/// Where it is wrong, in bytes, and why.
pub(super) fn read_form(form: &str) -> Result<Vec<FormPiece<'_>>, (usize, String)> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(percent) = form[at..].find('%').map(|offset| at + offset) {
        let known = || NUMBERS.map(|(letter, _)| format!("%{letter}")).join(", ");
        let letter = form[percent + 1..].chars().next();
        let number = NUMBERS.iter().find(|(known, _)| Some(*known) == letter).map(|(_, number)| *number);
        let number = number.ok_or_else(|| {
            let letter = letter.map(String::from).unwrap_or_default();
            (percent, format!("%{letter} is not one of {}, the parts of a date down to the hour", known()))
        })?;
        if at < percent {
            pieces.push(FormPiece::Text(&form[at..percent]));
        }
        pieces.push(FormPiece::Number(number));
        at = percent + 2;
    }
    if pieces.is_empty() {
        return Err((0, "the date has no part such as %Y, %m or %d".to_owned()));
    }
    if at < form.len() {
        pieces.push(FormPiece::Text(&form[at..]));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_texts_and_numbers() {
        let pieces = read_form("y%Y/%m").unwrap();
        let (text, slash) = (FormPiece::Text("y"), FormPiece::Text("/"));
        assert_eq!(pieces, [text, FormPiece::Number(Number::Year), slash, FormPiece::Number(Number::Month)]);
        for (wrong, at, says) in [
            ("", 0, "no part such as %Y"),
            ("day", 0, "no part such as %Y"),
            ("%Y-%M", 3, "%M is not one of %Y, %m, %d, %H, %j, %G, %V"),
            ("%Y%", 2, "% is not one of"),
            ("%é", 0, "%é is not one of"),
        ] {
            let (place, why) = read_form(wrong).unwrap_err();
            assert!(place == at && why.contains(says), "{wrong}: {place} {why}");
        }
    }

    #[test]
    fn numbers_have_all_their_digits() {
        let time = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let text = |number: Number| {
            let mut text = String::new();
            number.put(&time, &mut text);
            assert_eq!(text.len(), number.digits());
            text
        };
        assert_eq!(NUMBERS.map(|(_, number)| text(number)), ["2026", "01", "01", "00", "001", "2026", "01"]);
    }
}
