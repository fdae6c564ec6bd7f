//! The times that senders give, in nanoseconds since 1970-01-01 UTC. What is before, or beyond the year 2262, is no time here.

use chrono::{DateTime, NaiveDate, NaiveDateTime};

const NS_PER_SECOND: u64 = 1_000_000_000;
/// The latest time that others can show: 64 bits with a sign.
const LATEST_NS: u64 = i64::MAX as u64;

/// A date and time of ISO 8601, as RFC 3339 and Elasticsearch write it. Without a zone it is UTC.
pub(crate) fn of_date(text: &str) -> Option<u64> {
    let text = text.trim();
    let ns = |time: NaiveDateTime| time.and_utc().timestamp_nanos_opt();
    let time = DateTime::parse_from_rfc3339(text)
        .or_else(|_| DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f%z"))
        .ok()
        .and_then(|time| time.timestamp_nanos_opt())
        .or_else(|| NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok().and_then(ns))
        .or_else(|| text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0).and_then(ns))?;
    u64::try_from(time).ok()
}

/// Nanoseconds in decimal digits.
pub(crate) fn of_nanoseconds(text: &str) -> Option<u64> {
    let digits = text.as_bytes();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    text.parse().ok().filter(|ns| is_number && *ns <= LATEST_NS)
}

/// Seconds and nanoseconds as Protocol Buffers have them.
pub(crate) fn of_seconds(seconds: u64, nanoseconds: u64) -> Option<u64> {
    let ns = seconds.checked_mul(NS_PER_SECOND)?.checked_add(nanoseconds)?;
    (nanoseconds < NS_PER_SECOND && ns <= LATEST_NS).then_some(ns)
}

/// A decimal number of a unit that has so many nanoseconds, exactly.
fn of_decimal(text: &str, ns_per_unit: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        // With an exponent: seldom, and exact to some hundred nanoseconds.
        let value = text.parse::<f64>().ok().filter(|value| *value >= 0.0)? * ns_per_unit as f64;
        return (value <= LATEST_NS as f64 / 2.0).then_some(value as u64);
    }
    let mut ns = whole.parse::<u64>().ok()?.checked_mul(ns_per_unit)?;
    let mut place = ns_per_unit;
    for digit in fraction.bytes() {
        place /= 10;
        ns = ns.checked_add(u64::from(digit - b'0') * place)?;
    }
    (ns <= LATEST_NS).then_some(ns)
}

/// Milliseconds since 1970, as Elasticsearch reads numbers.
pub(crate) fn of_milliseconds(text: &str) -> Option<u64> {
    of_decimal(text.trim(), 1_000_000)
}

/// A number of seconds, or of milliseconds, microseconds or nanoseconds, which their size tells apart: seconds of the year 5138 and later
/// are none.
pub(crate) fn of_any_unit(text: &str) -> Option<u64> {
    let text = text.trim();
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    let unit = match whole.len() {
        0..=11 => NS_PER_SECOND,
        12..=14 => 1_000_000,
        15..=17 => 1000,
        _ => 1,
    };
    of_decimal(text, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_with_a_zone_and_without() {
        for (text, expected) in [
            ("1970-01-01T00:00:01Z", Some(1_000_000_000)),
            ("1970-01-01T01:00:01.000000005+01:00", Some(1_000_000_005)),
            ("1970-01-01T01:00:01.5+0100", Some(1_500_000_000)),
            ("1970-01-01T00:00:02", Some(2_000_000_000)),
            ("1970-01-01T00:00:02.001", Some(2_001_000_000)),
            ("1970-01-02", Some(86_400_000_000_000)),
            ("1969-12-31T23:59:59Z", None),
            ("9999-12-31T23:59:59Z", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(of_date(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_exact_and_huge_ones_are_none() {
        assert_eq!(of_any_unit("1433188255.253000001"), Some(1_433_188_255_253_000_001));
        assert_eq!(of_any_unit("1433188255"), Some(1_433_188_255_000_000_000));
        assert_eq!(of_any_unit("1433188255253"), Some(1_433_188_255_253_000_000));
        assert_eq!(of_any_unit("1433188255253001"), Some(1_433_188_255_253_001_000));
        assert_eq!(of_any_unit("1433188255253001002"), Some(1_433_188_255_253_001_002));
        assert_eq!(of_any_unit("1.5e3"), Some(1_500_000_000_000));
        for none in ["-1", "", "x", "1e300", "99999999999999999999", "NaN", "inf", "1.x", "."] {
            assert_eq!(of_any_unit(none), None, "{none}");
        }
        assert_eq!(of_milliseconds("1500.5"), Some(1_500_500_000));
        assert_eq!(of_nanoseconds("9223372036854775807"), Some(LATEST_NS));
        for none in ["9223372036854775808", "+1", "-1", "1.5", "", "1 "] {
            assert_eq!(of_nanoseconds(none), None, "{none}");
        }
        assert_eq!(of_seconds(1, 5), Some(1_000_000_005));
        assert!(of_seconds(u64::MAX, 0).is_none() && of_seconds(1, NS_PER_SECOND).is_none());
    }
}
