//! The times in front of syslog messages. Those of RFC 3164 have neither a year nor a zone: the year is the present one, and the zone
//! that of the server, as senders and server mostly share it.

use chrono::{DateTime, Datelike as _, Local, NaiveDate, NaiveDateTime, NaiveTime, Utc};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time without a zone, and what stands behind it.
pub(super) struct LocalTime<'a> {
    time: NaiveDateTime,
    pub(super) rest: &'a str,
}

impl<'a> LocalTime<'a> {
    /// `Oct 11 22:14:15`, with a year in front of the month or behind the day, and a fraction of the second, if there are any.
    pub(super) fn read(text: &'a str) -> Option<LocalTime<'a>> {
        let (first, rest) = word(text)?;
        let (year_in_front, month, rest) = match year(first) {
            Some(year) => {
                let (month, rest) = word(rest)?;
                (Some(year), month, rest)
            }
            None => (None, first, rest),
        };
        let month = (1..).zip(MONTHS).find(|(_, name)| name.eq_ignore_ascii_case(month))?.0;
        let (day, rest) = word(rest)?;
        let day = day.parse().ok()?;
        let (next, after) = word(rest)?;
        let (year_behind, rest) = match year(next) {
            Some(year) => (Some(year), after),
            None => (None, rest),
        };
        let (time, rest) = clock(rest.trim_start_matches(' '))?;
        let year = year_in_front.or(year_behind).unwrap_or_else(|| year_of(month));
        Some(LocalTime { time: NaiveDate::from_ymd_opt(year, month, day)?.and_time(time), rest })
    }

    /// In the zone of the server; `None` if its clock skipped this time.
    pub(super) fn of_server(&self) -> Option<String> {
        Some(self.time.and_local_timezone(Local).earliest()?.fixed_offset().to_rfc3339())
    }

    pub(super) fn utc(&self) -> String {
        self.time.and_utc().fixed_offset().to_rfc3339()
    }
}

/// A time of RFC 3339, as RFC 5424 and the newer formats of rsyslog have it.
pub(super) fn rfc3339(text: &str) -> Option<String> {
    // Without the letter between date and time it would be another field.
    let has_letter = text.as_bytes().get(10).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'T'));
    let time = DateTime::parse_from_rfc3339(text).ok().filter(|_| has_letter)?;
    Some(time.to_rfc3339())
}

/// The first word, and what stands behind it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches(' ');
    Some(text.split_once(' ').unwrap_or((text, ""))).filter(|(word, _)| !word.is_empty())
}

fn year(word: &str) -> Option<i32> {
    let is_year = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_year)
}

/// `22:14:15` or `22:14:15.003`, and what stands behind it.
fn clock(text: &str) -> Option<(NaiveTime, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !":.".contains(c)).unwrap_or(text.len());
    // Cisco writes a colon behind the time.
    let time = text.get(..end)?.trim_end_matches([':', '.']);
    let time_read = NaiveTime::parse_from_str(time, "%H:%M:%S%.f").ok()?;
    Some((time_read, text.get(time.len()..)?))
}

/// RFC 3164 has no year: takes the current year, or the last one for a message from December that comes in January.
fn year_of(month: u32) -> i32 {
    let now = Utc::now();
    if month == 12 && now.month() == 1 { now.year() - 1 } else { now.year() }
}
