//! Messages like those of RFC 3164, behind their priority.
//!
//! ```text
//! Oct 11 22:14:15 host app[12]: text      as the RFC says; the blank may be missing
//! Oct 11 22:14:15 app[12]: text           to /dev/log: syslog(3), `logger -u`, the kernel, nginx with nohostname
//! app: text                               Python's SysLogHandler with an ident
//! 29: host: *Mar  1 18:46:11.000 UTC: %SYS-5-CONFIG_I: text       Cisco IOS, with numbers, a host and a mark, if it is so configured
//! 82: 1d02h: %SYS-5-CONFIG_I: text                                the same with the time since its start
//! 85: host: %SYS-5-CONFIG_I: text                                 the same without a time
//! 123: host RP/0/RSP0/CPU0:Jan 12 12:34:56.123 : pim[1234]: text  Cisco IOS XR, with a host if it is so configured
//! 1 1773141255.123456789 host flows text  Cisco Meraki
//! Oct 11 2026 22:14:15 host : %ASA-6-302013: text                 Cisco ASA
//! : 2026 Oct 11 22:14:15 UTC: %DAEMON-3-SYSTEM_MSG: text          Cisco NX-OS
//! Oct 11 22:14:15 2026 host %%10IFNET/3/LINK_UPDOWN: text         Comware, Aruba
//! 2026-10-11T22:14:15.003Z host app[12]: text                     rsyslog's newer formats, ESXi; also without a zone, or with +0200
//! 2026-10-11 22:14:15 host text                                   switches; also 2026/10/11 or, as Sophos has it, 2026:10:11-22:14:15
//! Oct 11 22:14:15 Message forwarded from host: app[12]: text      AIX
//! ```
//!
//! Behind these times a zone may stand: `zone`. Nothing is guessed: what cannot be read stays in `msg`, blanks included, but for one behind a tag.

use std::net::IpAddr;

use super::fields::SyslogFields;
use super::timestamp::{LocalTime, leading_digits, of_seconds, of_word};
use super::zone;

/// The longest tag. RFC 3164 allows 32 bytes; names of containers are longer.
const TAG_BYTES_MAX: usize = 128;
/// What syslogd writes instead of messages that came again; it is no host.
const REPEATED: &str = "last message repeated ";
/// What AIX writes in front of the host of a message that it passes on.
const FORWARDED: &str = "Message forwarded from ";
/// The tag of Snare. Tabs separate its fields, and some versions write one in front of it.
const OF_SNARE: &str = "\tMSWinEventLog\t";
/// Numbers that Cisco writes in front of a message: one of the sender, one of the message.
const NUMBERS_MAX: usize = 2;

/// Reads what stands behind a priority. `received_ns` is when it came.
pub(super) fn with_priority(text: &str, received_ns: u64) -> SyslogFields {
    if let Some(fields) = dated(text, received_ns) {
        return fields;
    }
    let start = text.trim_start_matches(' ');
    of_meraki(text)
        .or_else(|| of_cisco_without_time(text))
        .or_else(|| tagged(start))
        .or_else(|| numbered(start))
        .unwrap_or_else(|| only_text(text))
}

/// What stands behind the host of a message: a tag and a text, or a text alone.
pub(super) fn behind_host(text: &str) -> SyslogFields {
    // ASA writes a colon between blanks.
    let start = text.trim_start_matches(' ');
    let behind_colon = start.strip_prefix(": ");
    let start = behind_colon.map_or(start, |rest| rest.trim_start_matches(' '));
    if let Some(fields) = tagged_behind_host(start) {
        return fields;
    }
    number_alone(start).unwrap_or_else(|| only_text(behind_colon.unwrap_or(text)))
}

/// Reads a message without a priority. Without a time, too, it has no header.
pub(super) fn without_priority(text: &str, received_ns: u64) -> SyslogFields {
    dated(text, received_ns).unwrap_or_else(|| only_text(text))
}

/// A message with a time, or with Cisco's time since a start.
fn dated(text: &str, received_ns: u64) -> Option<SyslogFields> {
    let start = without_numbers(text.trim_start_matches([' ', ':']));
    if let Some(fields) = dated_here(start, received_ns) {
        return Some(fields);
    }
    let (first, rest) = start.split_once(':')?;
    if is_node(first) {
        return dated_here(rest, received_ns);
    }
    if let Some((host, node)) = first.split_once(' ')
        && is_host(host)
        && is_node(node)
    {
        return Some(SyslogFields { hostname: Some(host.to_owned()), ..dated_here(rest, received_ns)? });
    }
    let (first, rest) = start.split_once(": ")?;
    if is_uptime(first) {
        return tagged(rest).filter(is_of_cisco);
    }
    // Cisco writes its name in front of the time. Without its tag the name may be that of a program, which writes a time.
    if !is_host(first) {
        return None;
    }
    let rest = without_numbers(rest.trim_start_matches(' '));
    let fields = match rest.split_once(": ") {
        Some((uptime, behind)) if is_uptime(uptime) => tagged(behind),
        _ => dated_here(rest, received_ns),
    };
    let fields = fields.filter(is_of_cisco)?;
    Some(SyslogFields { hostname: Some(first.to_owned()), ..fields })
}

/// `1 1773141255.123456789 host text`.
fn of_meraki(text: &str) -> Option<SyslogFields> {
    let (time, rest) = text.strip_prefix("1 ")?.split_once(' ')?;
    Some(SyslogFields { timestamp: Some(of_seconds(time)?), ..behind_time(rest) })
}

/// Cisco's tag behind its numbers, or behind its name: `85: router1: %SYS-5-CONFIG_I: text`, `router1 : %ASA-6-302013: text`.
fn of_cisco_without_time(text: &str) -> Option<SyslogFields> {
    if !text.contains('%') {
        return None;
    }
    let start = without_numbers(text.trim_start_matches([' ', ':']));
    if is_tag_of_cisco(start) {
        return tagged(start);
    }
    let (host, rest) = start.split_once(": ")?;
    let host = host.trim_end_matches(' ');
    let rest = without_numbers(rest.trim_start_matches(' '));
    if !is_tag_of_cisco(rest) || !is_host(host) {
        return None;
    }
    Some(SyslogFields { hostname: Some(host.to_owned()), ..tagged(rest)? })
}

/// `%SYS-5-CONFIG_I`: a severity stands between a facility and a name.
fn is_tag_of_cisco(text: &str) -> bool {
    let word = text.split([' ', ':']).next().unwrap_or(text);
    let is_severity = |part: &str| part.len() == 1 && part.bytes().all(|byte| byte.is_ascii_digit());
    word.starts_with('%') && word.split('-').skip(1).any(is_severity)
}

fn is_of_cisco(fields: &SyslogFields) -> bool {
    fields.appname.as_ref().is_some_and(|name| name.starts_with('%'))
}

/// What stands behind Cisco's numbers of the message.
fn without_numbers(mut text: &str) -> &str {
    for _number in 0..NUMBERS_MAX {
        let number = leading_digits(text);
        match text[number.len()..].strip_prefix(": ") {
            Some(rest) if !number.is_empty() => text = rest.trim_start_matches(' '),
            _ => break,
        }
    }
    text
}

/// The node of a router that wrote the message: `RP/0/RSP0/CPU0`.
fn is_node(word: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    word.split('/').count() == 4 && word.split('/').all(is_part)
}

/// Cisco's time since its start: `00:20:10`, `1d02h`, `3w4d` or `1y05w`.
fn is_uptime(word: &str) -> bool {
    let is_clock = word.split(':').count() == 3
        && word.split(':').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = word.split_inclusive(|c| "ywdhms".contains(c));
    let is_duration = word.len() > 2
        && parts.all(|part| part.strip_suffix(|c| "ywdhms".contains(c)).is_some_and(is_number));
    is_clock || is_duration
}

fn dated_here(text: &str, received_ns: u64) -> Option<SyslogFields> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    if let Some(timestamp) = of_word(first.trim_end_matches(':')) {
        return Some(SyslogFields { timestamp: Some(timestamp), ..behind_time(rest) });
    }
    // Cisco's marks of a clock that is not set, or not in step.
    let time = LocalTime::read(text.trim_start_matches(['*', '.']), received_ns)
        .or_else(|| LocalTime::read_iso(text))?;
    let (timestamp, rest) = zone::timestamp(time, is_host_and_tag);
    Some(SyslogFields { timestamp, ..behind_time(rest) })
}

fn is_host_and_tag(text: &str) -> bool {
    text.split_once(' ').is_some_and(|(host, rest)| is_host(host) && tagged_behind_host(rest).is_some())
}

/// A host and a tag, a tag, a host, or nothing.
fn behind_time(text: &str) -> SyslogFields {
    let start = without_colon(text);
    if let Some(fields) = tagged(start) {
        return with_address(fields);
    }
    if let Some((address, rest)) = start.strip_prefix('[').and_then(|start| start.split_once("] "))
        && is_address(address)
    {
        return SyslogFields { hostname: Some(address.to_owned()), ..behind_host(rest) };
    }
    if let Some(fields) = number_alone(start) {
        return fields;
    }
    let Some((host, rest)) = start.split_once(' ').filter(|_| !start.starts_with(REPEATED)) else {
        return only_text(start);
    };
    if is_host(host) {
        let forwarded = start.strip_prefix(FORWARDED).and_then(|rest| rest.split_once(": "));
        let (host, rest) = forwarded.filter(|(host, _)| is_host(host)).unwrap_or((host, rest));
        return SyslogFields { hostname: Some(host.to_owned()), ..behind_host(rest) };
    }
    // Such words are hosts only in front of a tag.
    let fields = if is_origin(host) { tagged(rest) } else { None };
    if let Some(fields) = fields {
        return SyslogFields { hostname: Some(host.to_owned()), ..fields };
    }
    match start.split_once(OF_SNARE) {
        Some((host, _)) if is_host(host) => {
            SyslogFields { hostname: Some(host.to_owned()), ..only_text(&start[host.len() + 1..]) }
        }
        _ => only_text(start),
    }
}

/// What stands behind the colon that Cisco writes behind a time. Two of them begin an address.
fn without_colon(text: &str) -> &str {
    let start = text.trim_start_matches(' ');
    match start.strip_prefix(':') {
        Some(rest) if !rest.starts_with(':') => rest.trim_start_matches(' '),
        _ => start,
    }
}

/// Cisco's `192.0.2.1: %ACE-3-251010: text`: an address in front of Cisco's tag is no program.
fn with_address(fields: SyslogFields) -> SyslogFields {
    match (&fields.appname, &fields.msg) {
        (Some(name), Some(msg)) if is_tag_of_cisco(msg) && is_address(name) => {
            let behind = tagged(msg).unwrap_or_else(|| only_text(msg));
            SyslogFields { hostname: fields.appname, ..behind }
        }
        _ => fields,
    }
}

fn is_address(word: &str) -> bool {
    word.parse::<IpAddr>().is_ok()
}

/// `[12]: text`: the number of a process without its name.
fn number_alone(text: &str) -> Option<SyslogFields> {
    let (id, rest) = text.strip_prefix('[')?.split_once("]: ")?;
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| SyslogFields { procid: Some(id.to_owned()), ..only_text(rest) })
}

/// `app: text` or `app[12]: text`.
fn tagged(text: &str) -> Option<SyslogFields> {
    let word = text.split(' ').next().unwrap_or(text);
    let (appname, procid) = match word.split_once('[') {
        Some((name, rest)) => {
            let (id, behind) = rest.split_once(']')?;
            // A blank may stand here instead of the colon.
            if !matches!(behind, "" | ":") || id.is_empty() {
                return None;
            }
            (name, Some(id))
        }
        None => (word.strip_suffix(':')?, None),
    };
    with_tag(appname, procid, &text[word.len()..])
}

/// `app[12]:text`, where there was no host.
fn numbered(text: &str) -> Option<SyslogFields> {
    let (appname, rest) = text.split_once('[')?;
    let (id, rest) = rest.split_once("]:")?;
    if id.is_empty() || id.contains([' ', '[']) { None } else { with_tag(appname, Some(id), rest) }
}

/// A tag behind a host: the text may follow without a blank.
fn tagged_behind_host(text: &str) -> Option<SyslogFields> {
    if let Some(fields) = tagged(text) {
        return Some(fields);
    }
    let end = text.find([' ', '[', ':'])?;
    let (appname, rest) = text.split_at(end);
    let (procid, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
        Some((id, rest)) if !id.is_empty() && !id.contains([' ', '[']) => (Some(id), rest),
        Some(_) => return None,
        // `http://host` is no tag, and neither is `22:14`.
        None => (None, rest.strip_prefix(':').filter(|rest| !rest.starts_with(['/', ':']))?),
    };
    let begins_as_name = appname.starts_with(|c: char| !c.is_ascii_digit());
    if begins_as_name || procid.is_some() { with_tag(appname, procid, rest) } else { None }
}

/// A name that may be one of a program, and the text behind it and one blank.
fn with_tag(appname: &str, procid: Option<&str>, text: &str) -> Option<SyslogFields> {
    let fits = (1..=TAG_BYTES_MAX).contains(&appname.len());
    // Behind a name with a comma, the number of a process tells that it is one.
    let is_name = |c: char| match c {
        ':' | '[' | ']' | '<' | '>' | '"' | '\'' | '=' | ';' | '{' | '}' => false,
        ',' => procid.is_some(),
        _ => !c.is_whitespace() && !c.is_control(),
    };
    (fits && appname.chars().all(is_name)).then(|| SyslogFields {
        appname: Some(appname.to_owned()),
        procid: procid.map(str::to_owned),
        ..only_text(text.strip_prefix(' ').unwrap_or(text))
    })
}

fn only_text(text: &str) -> SyslogFields {
    SyslogFields { msg: Some(text.to_owned()), ..SyslogFields::default() }
}

/// A name or an address. systemd calls the next router `_gateway`.
fn is_host(word: &str) -> bool {
    let fits = (1..=255).contains(&word.len())
        && word.starts_with(|c: char| c.is_alphanumeric() || ":_".contains(c));
    fits && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '_' | ':' | '%' | '/'))
}

/// A host with its source, as syslog-ng chains them (`src@host/relay`), or with its number in a cluster (`host(2)`).
fn is_origin(word: &str) -> bool {
    let fits = (1..=255).contains(&word.len()) && word.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    fits && word.chars().all(|c| c.is_alphanumeric() || "-._/@()".contains(c))
}
