//! The times in front of syslog messages.
//!
//! Those of RFC 3164 have neither a year nor a zone. The year is the one that puts the message nearest to its receipt, and the zone that of
//! the server, as senders and server mostly share it.

use std::cell::Cell;

use chrono::{
    DateTime, Datelike as _, FixedOffset, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta,
    TimeZone as _, Timelike as _,
};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// `2026-10-11`.
pub(super) const DATE_BYTES: usize = 10;
/// `2026-10-11T22:14:15`.
const DATE_AND_TIME_BYTES: usize = 19;
/// Of seconds since 1970, until the year 2286.
const SECONDS_DIGITS: usize = 10;
/// A time that is no further from another one than this is nearer than the same day of any other year, in every zone.
const NEAR: TimeDelta = TimeDelta::days(180);
/// A year that stands behind the time, and is no name of a host.
const YEARS: std::ops::Range<i32> = 1970..2100;

/// A time without a zone, and what stands behind it.
pub(super) struct LocalTime<'a> {
    pub(super) time: NaiveDateTime,
    pub(super) rest: &'a str,
}

impl<'a> LocalTime<'a> {
    /// `Oct 11 22:14:15`, if there is one, with a day of the week or a year in front of the month, a year behind the day or behind the time,
    /// and a fraction of the second. `received_ns` is when the message came.
    pub(super) fn read(text: &'a str, received_ns: u64) -> Option<LocalTime<'a>> {
        let (first, rest) = word(text)?;
        let (year_in_front, month, rest) = match year(first) {
            Some(year) => {
                let (month, rest) = word(rest)?;
                (Some(year), month, rest)
            }
            None if WEEKDAYS.contains(&first.strip_suffix(',').unwrap_or(first)) => {
                let (month, rest) = word(rest)?;
                (None, month, rest)
            }
            None => (None, first, rest),
        };
        let month = (1..).zip(MONTHS).find(|(_, name)| name.eq_ignore_ascii_case(month))?.0;
        let (day, rest) = word(rest)?;
        let day = day.parse().ok()?;
        let (next, after) = word(rest)?;
        let (year_behind_day, rest) = match year(next) {
            Some(year) => (Some(year), after),
            None => (None, rest),
        };
        let (time, mut rest) = clock(rest.trim_start_matches(' '))?;
        let mut year = year_in_front.or(year_behind_day);
        if year.is_none()
            && let Some((found, behind)) = year_behind_time(rest)
        {
            (year, rest) = (Some(found), behind);
        }
        let date = |year| NaiveDate::from_ymd_opt(year, month, day).map(|date| date.and_time(time));
        let time = match year {
            Some(year) => date(year),
            None => nearest(date, received_ns),
        };
        Some(LocalTime { time: time?, rest })
    }

    /// `2026-10-11 22:14:15`, `2026/10/11 22:14:15`, `2026:10:11-22:14:15` or with a letter between them, and what stands behind it.
    pub(super) fn read_iso(text: &'a str) -> Option<LocalTime<'a>> {
        let date = date(text.get(..DATE_BYTES)?)?;
        let behind = text[DATE_BYTES..].strip_prefix([' ', 'T', 't', '-'])?;
        let (time, rest) = clock(behind)?;
        Some(LocalTime { time: date.and_time(time), rest })
    }

    /// In the zone of the server; `None` if its clock skipped this time.
    pub(super) fn of_server(&self) -> Option<String> {
        self.east(offset_of_server(self.time)?)
    }

    /// In the zone of this offset.
    pub(super) fn east(&self, offset: FixedOffset) -> Option<String> {
        Some(offset.from_local_datetime(&self.time).earliest()?.to_rfc3339())
    }

    /// The same day of this year, if it has one.
    pub(super) fn with_year(&self, year: i32) -> Option<LocalTime<'a>> {
        Some(LocalTime { time: self.time.with_year(year)?, rest: self.rest })
    }
}

/// A time in a word: of RFC 3339, or with a zone as in `+0200`, without one, or with a comma in front of the fraction.
pub(super) fn of_word(text: &str) -> Option<String> {
    // Without the letter between date and time it would be another field.
    let has_letter = text.as_bytes().get(DATE_BYTES).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'T'));
    if !has_letter {
        return None;
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_rfc3339());
    }
    let zone = text.get(DATE_AND_TIME_BYTES..)?.find(['+', '-', 'Z', 'z']);
    let (time, zone) = text.split_at(zone.map_or(text.len(), |at| DATE_AND_TIME_BYTES + at));
    let time = LocalTime::read_iso(time).filter(|time| time.rest.is_empty())?;
    match zone {
        "" => time.of_server(),
        "Z" | "z" => Some(utc(time.time)),
        zone => time.east(offset(zone)?),
    }
}

/// Seconds since 1970 with a fraction, as in `1773141255.123456789`.
pub(super) fn of_seconds(text: &str) -> Option<String> {
    let (seconds, fraction) = text.split_once('.')?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = seconds.len() == SECONDS_DIGITS && (1..=9).contains(&fraction.len());
    if !fits || !is_number(seconds) || !is_number(fraction) {
        return None;
    }
    Some(utc(DateTime::from_timestamp(seconds.parse().ok()?, nanos_of(fraction))?.naive_utc()))
}

fn utc(time: NaiveDateTime) -> String {
    time.and_utc().fixed_offset().to_rfc3339()
}

/// `2026-10-11`, also with two other marks between the numbers.
fn date(text: &str) -> Option<NaiveDate> {
    let mark = *text.as_bytes().get(4)?;
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u32>().ok()
    };
    let has_marks = b"-/:".contains(&mark) && text.as_bytes().get(7) == Some(&mark);
    let year = number(0..4).filter(|_| has_marks)?;
    NaiveDate::from_ymd_opt(year.try_into().ok()?, number(5..7)?, number(8..10)?)
}

/// `+02`, `+0200` or `+02:00`.
pub(super) fn offset(text: &str) -> Option<FixedOffset> {
    let digits = text.get(1..)?.replace(':', "");
    let number = |range: std::ops::Range<usize>| {
        digits
            .get(range)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?
            .parse::<i32>()
            .ok()
    };
    let (hours, minutes) = match digits.len() {
        2 => (number(0..2)?, 0),
        4 => (number(0..2)?, number(2..4)?),
        _ => return None,
    };
    let seconds = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
    if text.starts_with('-') { FixedOffset::west_opt(seconds) } else { FixedOffset::east_opt(seconds) }
}

/// The time of the year that is nearest to the time of receipt, in the zone of the server.
fn nearest(date: impl Fn(i32) -> Option<NaiveDateTime>, received_ns: u64) -> Option<NaiveDateTime> {
    let to = DateTime::from_timestamp_nanos(i64::try_from(received_ns).unwrap_or(i64::MAX));
    let of_this_year = date(to.year()).filter(|time| (*time - to.naive_utc()).abs() <= NEAR);
    if of_this_year.is_some() {
        return of_this_year;
    }
    let to = to.with_timezone(&Local).naive_local();
    let years = (to.year() - 1)..=(to.year() + 1);
    years.filter_map(date).min_by_key(|time| (*time - to).abs())
}

/// The offset of the server at this local time; `None` if its clock skipped it. To ask the system reads the clock, as the zone may have
/// changed: so the last answer holds for all messages of its minute, as offsets change between minutes.
fn offset_of_server(time: NaiveDateTime) -> Option<FixedOffset> {
    thread_local! {
        static LAST: Cell<Option<(NaiveDateTime, FixedOffset)>> = const { Cell::new(None) };
    }
    let minute = time.with_second(0)?.with_nanosecond(0)?;
    match LAST.get() {
        Some((last, offset)) if last == minute => Some(offset),
        _ => {
            let offset = *minute.and_local_timezone(Local).earliest()?.offset();
            LAST.set(Some((minute, offset)));
            Some(offset)
        }
    }
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

/// The year in `22:14:15 2026 host`, and what stands behind it.
pub(super) fn year_behind_time(text: &str) -> Option<(i32, &str)> {
    let (word, rest) = text.strip_prefix(' ')?.split_once(' ')?;
    year(word.strip_suffix(':').unwrap_or(word)).filter(|year| YEARS.contains(year)).map(|year| (year, rest))
}

/// `22:14:15`, `22:14:15.003`, `22:14:15,003` or `22:14:15:003`, and what stands behind it: also the colon that Cisco writes there.
fn clock(text: &str) -> Option<(NaiveTime, &str)> {
    let (hour, rest) = two_digits(text)?;
    let (minute, rest) = two_digits(rest.strip_prefix(':')?)?;
    let (second, mut rest) = two_digits(rest.strip_prefix(':')?)?;
    let mut nanos = 0;
    if let Some(digits) =
        rest.strip_prefix(['.', ',', ':']).map(leading_digits).filter(|digits| !digits.is_empty())
    {
        let is_colon = rest.starts_with(':');
        nanos = nanos_of(digits);
        rest = &rest[1 + digits.len()..];
        if rest.starts_with(['.', ',']) || (is_colon && (digits.len() != 3 || rest.starts_with(':'))) {
            return None;
        }
    }
    // A second that is inserted is one with more than a thousand million nanoseconds.
    let (second, nanos) = if second == 60 { (59, nanos + 1_000_000_000) } else { (second, nanos) };
    Some((NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)?, rest))
}

/// A number of one or two digits, and what stands behind it.
fn two_digits(text: &str) -> Option<(u32, &str)> {
    let digit = |at: usize| text.as_bytes().get(at).filter(|byte| byte.is_ascii_digit());
    let first = u32::from(digit(0)? - b'0');
    Some(match digit(1) {
        Some(second) => (first * 10 + u32::from(second - b'0'), &text[2..]),
        None => (first, &text[1..]),
    })
}

pub(super) fn leading_digits(text: &str) -> &str {
    &text[..text.bytes().take_while(u8::is_ascii_digit).count()]
}

/// The nanoseconds of the digits behind the point of a second. Digits behind the ninth one are left out.
pub(super) fn nanos_of(digits: &str) -> u32 {
    let digits = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    digits.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'))
}
