//! Times as RFC 3339 writes them, in UTC.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_OF_DAY: u64 = 86_400;

/// Appends `2026-11-20T11:33:49.175038Z`. Times before 1970 are written as its beginning.
pub(super) fn write(out: &mut String, time: SystemTime) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / SECONDS_OF_DAY, since.as_secs() % SECONDS_OF_DAY);
    let (year, month, day) = date(days);
    let (hour, minute, second, micros) =
        (second / 3600, second / 60 % 60, second % 60, since.subsec_micros());
    // Writing to a String cannot fail.
    let _written =
        write!(out, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z");
}

/// Year, month and day of a number of days since 1970: `civil_from_days` of Howard Hinnant's "chrono-Compatible Low-Level Date
/// Algorithms". Its years begin in March, and its eras have 400 of them.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn as_date_prints_them() {
        // By `date --utc --date=@SECONDS`.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000007Z"),
            (951_782_399, "2000-02-28T23:59:59.000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000007Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000007Z"),
        ] {
            let mut out = String::new();
            write(&mut out, UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(7));
            assert_eq!(out, expected, "{seconds}");
        }
    }
}
