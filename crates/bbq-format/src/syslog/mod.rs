//! The header of a syslog message, as senders really write it: RFC 5424, RFC 3164, and what looks like one of them.
//!
//! It reads what it can, and leaves the rest in `msg`: no message is refused, and none is changed.
//!
//! ```text
//! <165>1 2026-10-11T22:14:15Z host app 12 ID [data] text      RFC 5424: `rfc5424`
//! <34>Oct 11 22:14:15 host app[12]: text                      RFC 3164: `rfc3164`
//! ```

mod fields;
mod rfc3164;
mod rfc5424;
mod structured_data;
mod timestamp;
mod zone;

pub use fields::SyslogFields;

/// RFC 5424, section 6.2.1: facility * 8 + severity.
const PRIORITY_MAX: u8 = 191;
/// As `logger` and rsyslog call them.
const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp",
    "ntp", "audit", "alert", "clockd", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];
const SEVERITIES: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Reads a message. Of one that is not UTF-8, the fields that are. `received_ns` is when it came, since 1970-01-01 UTC.
#[must_use]
pub fn read(message: &[u8], received_ns: u64) -> SyslogFields {
    // Nearly all are UTF-8, and to check that is cheaper than to look for what is not.
    if let Ok(text) = std::str::from_utf8(message) {
        return of_text(text, received_ns);
    }
    let mut fields = of_text(&String::from_utf8_lossy(message), received_ns);
    fields.leave_out_damaged();
    fields
}

/// The words for the facility and the severity of a message, as [`read`] finds them, without reading more of it.
#[must_use]
pub fn priority_words(message: &[u8]) -> (Option<&'static str>, Option<&'static str>) {
    priority_of(message).map_or((None, None), words_of)
}

/// The numbers of the facility (0 to 23) and of the severity (0 to 7), as [`read`] finds them, without reading more of the message.
#[must_use]
pub fn priority_of(message: &[u8]) -> Option<(u8, u8)> {
    let text = match message {
        // `<191>` is the longest priority, and the only form of nearly every message.
        [b'<', ..] => String::from_utf8_lossy(&message[..message.len().min(5)]),
        _ => String::from_utf8_lossy(message),
    };
    let (priority, _) = priority(text.trim_end_matches('\0'))?;
    Some((priority / 8, priority % 8))
}

/// The words for the numbers of a facility and a severity, as `logger` has them.
#[must_use]
pub fn words_of((facility, severity): (u8, u8)) -> (Option<&'static str>, Option<&'static str>) {
    words(facility.saturating_mul(8).saturating_add(severity))
}

/// The word for a severity that is written as a number.
pub(crate) fn severity_word(number: &str) -> Option<&'static str> {
    SEVERITIES.get(number.parse::<usize>().ok()?).copied()
}

/// The word for a facility that is written as a number.
pub(crate) fn facility_word(number: &str) -> Option<&'static str> {
    FACILITIES.get(number.parse::<usize>().ok()?).copied()
}

fn words(priority: u8) -> (Option<&'static str>, Option<&'static str>) {
    let word = |words: &[&'static str], number: u8| words.get(usize::from(number)).copied();
    (word(&FACILITIES, priority / 8), word(&SEVERITIES, priority % 8))
}

fn of_text(text: &str, received_ns: u64) -> SyslogFields {
    // Python's SysLogHandler ends its messages with a zero byte, and Perl's Sys::Syslog with a line feed in front of it.
    let text = text.trim_end_matches('\0');
    let text = text.strip_suffix('\n').unwrap_or(text);
    let Some((priority, rest)) = priority(text) else { return rfc3164::without_priority(text, received_ns) };
    let fields = rest.strip_prefix("1 ").and_then(rfc5424::read);
    let fields = fields.unwrap_or_else(|| rfc3164::with_priority(rest, received_ns));
    let (facility, severity) = words(priority);
    SyslogFields { facility, severity, ..fields }
}

/// `<34>` and what is behind it. A number has no zeros in front (RFC 5424, section 6.2.1).
fn priority(text: &str) -> Option<(u8, &str)> {
    let behind = text
        .strip_prefix('<')
        .or_else(|| text.trim_start_matches(rfc5424::BYTE_ORDER_MARK).trim_start().strip_prefix('<'));
    let (digits, rest) = behind?.split_once('>')?;
    let is_number =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    let priority = digits.parse().ok().filter(|priority| is_number && *priority <= PRIORITY_MAX)?;
    Some((priority, rest))
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
