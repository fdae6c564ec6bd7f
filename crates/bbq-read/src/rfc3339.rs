//! Times as container runtimes write them: RFC 3339 with up to nine digits of a second.

/// Nanoseconds since 1970-01-01 UTC; `None` if it is no such time, or one before 1970.
pub(crate) fn parse(text: &[u8]) -> Option<u64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })
    };
    let has = |at: usize, byte: u8| text.get(at) == Some(&byte);
    if !(has(4, b'-') && has(7, b'-') && has(10, b'T') && has(13, b':') && has(16, b':')) {
        return None;
    }
    let days = days_since_1970(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
    let seconds = ((days * 24 + number(11, 13)?) * 60 + number(14, 16)?) * 60 + number(17, 19)?;
    let mut at = 19;
    let mut nanoseconds = 0;
    if has(at, b'.') {
        let digits = text[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > 9 {
            return None;
        }
        nanoseconds = number(at + 1, at + 1 + digits)? * 10_i64.pow(9 - digits as u32);
        at += 1 + digits;
    }
    let offset = match text.get(at..)? {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let minutes = number(at + 1, at + 3)? * 60 + number(at + 4, at + 6)?;
            if *sign == b'+' { minutes * 60 } else { -minutes * 60 }
        }
        _ => return None,
    };
    u64::try_from((seconds - offset).checked_mul(1_000_000_000)?.checked_add(nanoseconds)?).ok()
}

/// By Howard Hinnant's `days_from_civil`, where the year begins in March.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1970 {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn times_of_runtimes_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-01-01T00:00:00Z", Some(1_767_225_600_000_000_000)),
            ("2024-02-29T23:59:59.5Z", Some(1_709_251_199_500_000_000)),
            ("2016-10-06T00:17:09.669794202Z", Some(1_475_713_029_669_794_202)),
            ("2026-01-01T02:30:00.000000001+02:30", Some(1_767_225_600_000_000_001)),
            ("2025-12-31T23:00:00-01:00", Some(1_767_225_600_000_000_000)),
            ("2026-13-01T00:00:00Z", None),
            ("2026-01-01 00:00:00Z", None),
            ("2026-01-01T00:00:00.Z", None),
            ("2026-01-01T00:00:00", None),
            ("", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
    }
}
