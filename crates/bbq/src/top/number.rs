//! Numbers for people, as the page shows them, in ASCII.

use std::time::Duration;

pub(super) use crate::shown_duration::duration;

/// What stands where there is no number.
pub(super) const NOTHING: &str = "-";
const THOUSANDS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
const BINARY: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
/// Up to this, a count is shown exactly.
const EXACT_MAX: u64 = 9999;

/// With a comma between thousands.
pub(super) fn exact(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits that count: 1.23, 12.3, 123.
fn digits(value: f64) -> String {
    let places = match value {
        large if large >= 99.95 => 0,
        middle if middle >= 9.995 => 1,
        _ => 2,
    };
    fixed(value, places)
}

/// A half is rounded up, as the page does.
fn fixed(value: f64, places: usize) -> String {
    let scale = 10_f64.powi(places as i32);
    format!("{:.places$}", (value * scale).round() / scale)
}

fn scaled(mut value: f64, step: f64, units: &[&'static str]) -> (f64, &'static str) {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    for larger in units {
        if value < step * 0.9995 {
            break;
        }
        value /= step;
        unit = larger;
    }
    (value, unit)
}

pub(super) fn count(value: u64) -> String {
    if value <= EXACT_MAX {
        return exact(value);
    }
    let (number, unit) = scaled(value as f64, 1000.0, &THOUSANDS);
    format!("{} {unit}", digits(number))
}

/// Per second.
pub(super) fn rate(value: Option<f64>) -> String {
    match value {
        None => NOTHING.to_owned(),
        Some(value) if value < 0.05 => "0/s".to_owned(),
        Some(value) if value < 9.95 => format!("{}/s", fixed(value, 1)),
        Some(value) if value < 999.5 => format!("{}/s", fixed(value, 0)),
        Some(value) => {
            let (number, unit) = scaled(value, 1000.0, &THOUSANDS);
            format!("{} {unit}/s", digits(number))
        }
    }
}

pub(super) fn bytes(value: u64) -> String {
    let (number, unit) = scaled(value as f64, 1024.0, &BINARY);
    if unit == "B" { format!("{number:.0} B") } else { format!("{} {unit}", digits(number)) }
}

pub(super) fn percent(share: f64) -> String {
    if !share.is_finite() {
        return NOTHING.to_owned();
    }
    let places = usize::from(share > 0.0 && share < 0.0995);
    format!("{} %", fixed(share * 100.0, places))
}

pub(super) fn milliseconds(value: u64) -> String {
    duration(Duration::from_millis(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_page() {
        assert_eq!(
            (count(9999), count(10_000), count(999_950)),
            ("9,999".into(), "10.0 k".into(), "1.00 M".into())
        );
        assert_eq!(count(u64::MAX), "18447 P");
        assert_eq!(exact(1_234_567), "1,234,567");
        assert_eq!(
            [0.01, 3.21, 321.0, 4321.0].map(|value| rate(Some(value))),
            ["0/s", "3.2/s", "321/s", "4.32 k/s"]
        );
        assert_eq!([0, 1023, 1024, 1 << 20].map(bytes), ["0 B", "1023 B", "1.00 KiB", "1.00 MiB"]);
        assert_eq!([0.0, 0.012, 0.5].map(percent), ["0 %", "1.2 %", "50 %"]);
        assert_eq!(
            [999, 1500, 59_000, 61_000, 7_200_000, 90_061_000].map(milliseconds),
            ["999 ms", "1.5 s", "59 s", "1 min 1 s", "2 h", "1 d 1 h"]
        );
    }
}
