//! Messages like those of RFC 3164, behind their priority.
//!
//! ```text
//! Oct 11 22:14:15 host app[12]: text      as the RFC says
//! Oct 11 22:14:15 app[12]: text           to /dev/log: syslog(3), `logger -u`, the kernel, nginx with nohostname
//! app: text                               Python's SysLogHandler with an ident
//! 29: host: *Mar  1 18:46:11.000 UTC: %SYS-5-CONFIG_I: text       Cisco IOS, with a number, a host and a mark, if it is so configured
//! Oct 11 2026 22:14:15 host : %ASA-6-302013: text                 Cisco ASA
//! : 2026 Oct 11 22:14:15 UTC: %DAEMON-3-SYSTEM_MSG: text          Cisco NX-OS
//! 2026-10-11T22:14:15.003Z host app[12]: text                     rsyslog's newer formats, ESXi
//! ```

use super::fields::SyslogFields;
use super::timestamp::{LocalTime, rfc3339};

/// The longest tag. RFC 3164 allows 32 bytes; names of containers are longer.
const TAG_BYTES_MAX: usize = 128;
/// Names that a router writes for the zone of its clock when it is that of the world.
const UTC_NAMES: [&str; 3] = ["UTC", "GMT", "Z"];
/// What syslogd writes instead of messages that came again; it is no host.
const REPEATED: &str = "last message repeated ";

/// Reads what stands behind a priority.
pub(super) fn with_priority(text: &str) -> SyslogFields {
    dated(text).unwrap_or_else(|| {
        let text = text.trim_start_matches(' ');
        tagged(text).unwrap_or_else(|| only_text(text))
    })
}

/// Reads a message without a priority. Without a time, too, it has no header.
pub(super) fn without_priority(text: &str) -> SyslogFields {
    dated(text).unwrap_or_else(|| only_text(text))
}

/// A message with a time.
fn dated(text: &str) -> Option<SyslogFields> {
    let start = without_number(text.trim_start_matches([' ', ':']));
    if let Some(fields) = dated_here(start) {
        return Some(fields);
    }
    // Cisco writes its name in front of the time. Without its tag the name may be that of a program, which writes a time.
    let (host, rest) = start.split_once(": ").filter(|(host, _)| is_host(host))?;
    let fields = dated_here(rest.trim_start_matches(' '))?;
    let is_cisco = fields.appname.as_ref().is_some_and(|name| name.starts_with('%'));
    is_cisco.then(|| SyslogFields { hostname: Some(host.to_owned()), ..fields })
}

/// Cisco's number of the message.
fn without_number(text: &str) -> &str {
    match text.split_once(": ") {
        Some((number, rest)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            rest.trim_start_matches(' ')
        }
        _ => text,
    }
}

fn dated_here(text: &str) -> Option<SyslogFields> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    if let Some(timestamp) = rfc3339(first.trim_end_matches(':')) {
        return Some(SyslogFields { timestamp: Some(timestamp), ..behind_time(rest) });
    }
    // Cisco's marks of a clock that is not set, or not in step.
    let time = LocalTime::read(text.trim_start_matches(['*', '.']))?;
    let rest = time.rest.trim_start_matches(' ');
    // A zone: a word with a colon in front of Cisco's tag. Of which zone is known for some alone.
    let zone = rest.split_once(": %").map(|(zone, _)| zone);
    let zone = zone.filter(|zone| zone.len() <= 5 && zone.bytes().all(|byte| byte.is_ascii_uppercase()));
    let (timestamp, rest) = match zone {
        Some(zone) if !zone.is_empty() => {
            (UTC_NAMES.contains(&zone).then(|| time.utc()), &rest[zone.len()..])
        }
        _ => (time.of_server(), rest),
    };
    Some(SyslogFields { timestamp, ..behind_time(rest) })
}

/// A host and a tag, a tag, a host, or nothing.
fn behind_time(text: &str) -> SyslogFields {
    let text = text.trim_start_matches([' ', ':']);
    if let Some(fields) = tagged(text) {
        return fields;
    }
    let Some((host, rest)) = text.split_once(' ').filter(|(host, _)| is_host(host)) else {
        return only_text(text);
    };
    if text.starts_with(REPEATED) {
        return only_text(text);
    }
    // ASA writes a colon between blanks.
    let rest = rest.trim_start_matches(' ');
    let rest = rest.strip_prefix(": ").unwrap_or(rest).trim_start_matches(' ');
    let fields = tagged(rest).unwrap_or_else(|| only_text(rest));
    SyslogFields { hostname: Some(host.to_owned()), ..fields }
}

/// `app: text` or `app[12]: text`.
fn tagged(text: &str) -> Option<SyslogFields> {
    let word = text.split(' ').next().unwrap_or(text);
    let (appname, procid, length) = match word.split_once('[') {
        Some((name, rest)) => {
            let (id, behind) = rest.split_once(']')?;
            // A blank may stand here instead of the colon.
            if !matches!(behind, "" | ":") || id.is_empty() {
                return None;
            }
            (name, Some(id), word.len())
        }
        None => (word.strip_suffix(':')?, None, word.len()),
    };
    let fits = (1..=TAG_BYTES_MAX).contains(&appname.len());
    let is_name = |c: char| !c.is_whitespace() && !c.is_control() && !":[]<>\"'=,;{}".contains(c);
    (fits && appname.chars().all(is_name)).then(|| SyslogFields {
        appname: Some(appname.to_owned()),
        procid: procid.map(str::to_owned),
        ..only_text(text[length..].trim_start_matches(' '))
    })
}

fn only_text(text: &str) -> SyslogFields {
    SyslogFields { msg: Some(text.to_owned()), ..SyslogFields::default() }
}

/// A name or an address.
fn is_host(word: &str) -> bool {
    let fits = (1..=255).contains(&word.len()) && word.starts_with(|c: char| c.is_alphanumeric() || c == ':');
    fits && word.chars().all(|c| c.is_alphanumeric() || "-._:%/".contains(c))
}
