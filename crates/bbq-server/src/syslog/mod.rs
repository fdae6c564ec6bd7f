//! The header of a syslog message, as senders really write it: RFC 5424, RFC 3164, and what looks like one of them.
//!
//! It reads what it can, and leaves out what it cannot read: no message is refused, and none is changed.
//!
//! ```text
//! <165>1 2026-10-11T22:14:15Z host app 12 ID [data] text      RFC 5424: syslog_loose, or field by field if its data are not valid
//! <34>Oct 11 22:14:15 host app[12]: text                      RFC 3164: `rfc3164`
//! ```

mod fields;
mod rfc3164;
mod timestamp;

use std::borrow::Cow;

use serde_json::Value;
use syslog_loose::{ProcId, Variant, decompose_pri};

pub(crate) use fields::SyslogFields;

/// Some senders write it in front of UTF-8 (RFC 5424, section 6.4).
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Reads a message. Of one that is not UTF-8, the fields that are.
pub(crate) fn read(message: &[u8]) -> SyslogFields {
    let text = String::from_utf8_lossy(message);
    let mut fields = of_text(&text);
    if let Cow::Owned(_) = text {
        fields.leave_out_damaged();
    }
    fields
}

fn of_text(text: &str) -> SyslogFields {
    let text = text.trim_end_matches('\0');
    let Some((priority, rest)) = priority(text) else { return rfc3164::without_priority(text) };
    let fields = match rest.strip_prefix("1 ") {
        Some(header) => rfc5424(text).unwrap_or_else(|| field_by_field(header)),
        None => rfc3164::with_priority(rest),
    };
    let (facility, severity) = decompose_pri(priority);
    SyslogFields {
        facility: facility.map(|facility| facility.as_str()),
        severity: severity.map(|severity| severity.as_str()),
        ..fields
    }
}

/// `<34>` and what is behind it.
fn priority(text: &str) -> Option<(u8, &str)> {
    let (priority, rest) = text.trim_start().strip_prefix('<')?.split_once('>')?;
    let is_number = (1..=3).contains(&priority.len()) && priority.bytes().all(|byte| byte.is_ascii_digit());
    // RFC 5424 section 6.2.1: facility * 8 + severity, 0 to 191.
    let priority = priority.parse().ok().filter(|priority| is_number && *priority <= 191)?;
    Some((priority, rest))
}

/// A message of RFC 5424 whose structured data are valid.
fn rfc5424(text: &str) -> Option<SyslogFields> {
    let parsed = syslog_loose::parse_message_with_year(text, |_| 0, Variant::RFC5424);
    parsed.facility?;
    let structured_data = parsed.structured_data.iter().map(|element| {
        let params = element.params().map(|(name, value)| (name.to_string(), value.into())).collect();
        (element.id.to_string(), Value::Object(params))
    });
    Some(SyslogFields {
        timestamp: parsed.timestamp.map(|time| time.to_rfc3339()),
        hostname: parsed.hostname.map(str::to_owned),
        appname: parsed.appname.map(str::to_owned),
        procid: parsed.procid.map(|id| match id {
            ProcId::PID(pid) => procid_as_written(text, pid),
            ProcId::Name(name) => name.to_owned(),
        }),
        msgid: parsed.msgid.map(str::to_owned),
        structured_data: structured_data.collect(),
        msg: Some(parsed.msg.strip_prefix(BYTE_ORDER_MARK).unwrap_or(parsed.msg).to_owned()),
        ..SyslogFields::default()
    })
}

/// The number of a process with the zeros that its sender writes in front of it.
fn procid_as_written(text: &str, pid: i32) -> String {
    // Behind the priority with the version, the time, the host and the program.
    let word = text.split_ascii_whitespace().nth(4).filter(|word| word.parse() == Ok(pid));
    word.map_or_else(|| pid.to_string(), str::to_owned)
}

/// The fields of RFC 5424 behind the version; the rest is the message, with data that are not valid.
fn field_by_field(mut header: &str) -> SyslogFields {
    let mut field = || {
        let (field, rest) = header.split_once(' ').unwrap_or((header, ""));
        header = rest;
        Some(field).filter(|field| !field.is_empty() && *field != "-")
    };
    let timestamp = field().and_then(timestamp::rfc3339);
    let [hostname, appname, procid, msgid] = std::array::from_fn(|_| field().map(str::to_owned));
    let msg = Some(header.to_owned());
    SyslogFields { timestamp, hostname, appname, procid, msgid, msg, ..SyslogFields::default() }
}

#[cfg(test)]
mod tests;
