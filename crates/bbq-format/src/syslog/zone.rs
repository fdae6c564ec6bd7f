//! What stands behind a time without a zone of its own: the half of the day, the zone, and a year behind the zone.
//!
//! ```text
//! 10:14:15 PM: %SYS-5-CONFIG_I: text          a clock of twelve hours
//! 22:14:15 UTC: %SYS-5-CONFIG_I: text         a name and a colon, as routers write it
//! 22:14:15 CEST host app: text                a known name in front of a host
//! 22:14:15 UTC 2026 host app: text            and a year, as date(1) writes it
//! 22:14:15+02:00 host    22:14:15 +0200 host  an offset
//! ```
//!
//! A name that several zones have, or none that is known, gives no timestamp: it would be a wrong one.

use chrono::{FixedOffset, Timelike as _};

use super::timestamp::{self, LocalTime};

/// Names with one meaning, and their minutes east of UTC. Those of North America are of RFC 5322, section 4.3.
const OFFSETS: [(&str, i32); 26] = [
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("ACST", 570),
    ("AEST", 600),
    ("ACDT", 630),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("EDT", -240),
    ("EST", -300),
    ("CDT", -300),
    ("MDT", -360),
    ("MST", -420),
    ("PDT", -420),
    ("PST", -480),
];
/// Names of several zones: CST is of America and of China.
const AMBIGUOUS: [&str; 3] = ["BST", "CST", "IST"];
/// The longest name that a router writes.
const NAME_BYTES_MAX: usize = 5;

/// The timestamp of a time, in the zone behind it or else that of the server, and what stands behind both. `is_header` tells whether a text
/// is a host with a tag.
pub(super) fn timestamp<'a>(
    time: LocalTime<'a>,
    is_header: impl Fn(&str) -> bool,
) -> (Option<String>, &'a str) {
    let time = with_half_of_day(&time).unwrap_or(time);
    let behind = time.rest.trim_start_matches(' ');
    let is_apart = behind.len() < time.rest.len();
    if let Some((offset, rest)) = offset(behind, is_apart) {
        return (time.east(offset), rest);
    }
    let Some((name, rest)) = name(behind, is_header) else { return (time.of_server(), time.rest) };
    let minutes = OFFSETS.iter().find(|(known, _)| *known == name).map(|(_, minutes)| *minutes);
    let offset = minutes.and_then(|minutes| FixedOffset::east_opt(minutes * 60));
    match timestamp::year_behind_time(rest) {
        Some((year, rest)) => (offset.and_then(|offset| time.with_year(year)?.east(offset)), rest),
        None => (offset.and_then(|offset| time.east(offset)), rest),
    }
}

/// The time behind which `AM` or `PM` stands, and a colon, a fraction or a zone.
fn with_half_of_day<'a>(time: &LocalTime<'a>) -> Option<LocalTime<'a>> {
    let behind = time.rest.strip_prefix(' ')?;
    let (hours, mut rest) = match behind.strip_prefix("AM") {
        Some(rest) => (0, rest),
        None => (12, behind.strip_prefix("PM")?),
    };
    let is_followed = rest.starts_with([':', '.']) || name(rest.trim_start_matches(' '), |_| false).is_some();
    let clock = time.time.time();
    if !is_followed || !(1..=12).contains(&clock.hour()) {
        return None;
    }
    let mut clock = clock.with_hour(clock.hour() % 12 + hours)?;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = timestamp::leading_digits(fraction);
        clock = clock.with_nanosecond(timestamp::nanos_of(digits))?;
        rest = &fraction[digits.len()..];
    }
    Some(LocalTime { time: time.time.date().and_time(clock), rest })
}

/// `+02:00` or `+0200`, and right behind a time also `+02`.
fn offset(text: &str, is_apart: bool) -> Option<(FixedOffset, &str)> {
    let behind = text.strip_prefix(['+', '-'])?;
    let digits = behind.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(behind.len());
    let word = text[..=digits].trim_end_matches(':');
    let rest = &text[word.len()..];
    let is_long_enough = !is_apart || word.len() > "+02".len();
    let is_whole = rest.is_empty() || rest.starts_with([' ', ':']);
    timestamp::offset(word).filter(|_| is_long_enough && is_whole).map(|offset| (offset, rest))
}

/// The name of a zone, and what stands behind it: any in front of Cisco's tag, or one that is known.
fn name(text: &str, is_header: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_uppercase())?;
    let (name, rest) = text.split_at(end);
    if !(1..=NAME_BYTES_MAX).contains(&end) {
        return None;
    }
    let is_known = || AMBIGUOUS.contains(&name) || OFFSETS.iter().any(|(known, _)| *known == name);
    let is_zone = match rest.strip_prefix(' ') {
        None => rest.starts_with(": %") || (rest.starts_with(": ") && is_known()),
        Some(behind) => {
            let is_followed = || {
                behind.starts_with(": ") || timestamp::year_behind_time(rest).is_some() || is_header(behind)
            };
            is_known() && is_followed()
        }
    };
    is_zone.then_some((name, rest))
}
