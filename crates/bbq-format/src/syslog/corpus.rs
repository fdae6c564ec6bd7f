//! The headers of the files in `corpus/`: those that programs and devices write, and odd ones. If this fails, a field has a value that other
//! readers do not find in the message, or a part of the message is in no field.
//!
//! A case is three lines, and an empty one behind them:
//!
//! ```text
//! Cisco IOS, msec | both                                           what writes it, and where the value comes from
//! <187>123: Mar 10 11:14:15.123: %LINK-3-UPDOWN: text              the message; \x00 is a byte
//! {"facility":"local7", ... "msg":"text"}                          its fields; a timestamp without a zone is of the machine's
//! ```
//!
//! The source is `both`, `rsyslog` or `syslog-ng`, by which of them finds these fields, or `neither` and a reason. Each message was sent as a
//! datagram to rsyslog 8.2302.0, once with its parsers of RFC 5424 and RFC 3164, once with pmlastmsg, pmaixforwardedfrom, pmsnare,
//! pmcisconames and pmciscoios in front of them, and once with pmciscoios' options for an origin and for IOS XR; and to syslog-ng 3.38.1, with
//! `flags(syslog-protocol)` and with its cisco-parser; they ran in UTC. One blank behind a tag belongs to no field. Where they read what is
//! no header as one, or lose text, the value is what the maker of the sender documents, or the text stays whole in `msg`.
//!
//! An empty line, and one with `#` in front, is no part of a case.

use chrono::{Local, NaiveDateTime, TimeZone as _};
use serde_json::Value;

/// When the messages came: RFC 3164 has no year.
const RECEIVED: &str = "2026-03-10T12:00:00";
const CASES_MIN: usize = 150;
const FILES: [(&str, &str); 5] = [
    ("cisco.txt", include_str!("corpus/cisco.txt")),
    ("network.txt", include_str!("corpus/network.txt")),
    ("hosts.txt", include_str!("corpus/hosts.txt")),
    ("programs.txt", include_str!("corpus/programs.txt")),
    ("odd.txt", include_str!("corpus/odd.txt")),
];

struct Case<'a> {
    line: usize,
    /// What writes it, and behind a bar the source of the fields.
    what: &'a str,
    message: &'a str,
    fields: &'a str,
}

/// The cases of a file. A line that is missing is empty, and its case fails.
fn cases(text: &str) -> Vec<Case<'_>> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    let mut cases = Vec::new();
    while let Some((line, what)) = lines.next() {
        let mut next = || lines.next().map(|(_, text)| text).unwrap_or_default();
        let (message, fields) = (next(), next());
        cases.push(Case { line, what, message, fields });
    }
    cases
}

/// The bytes of a message in which `\x00` stands for a byte.
fn bytes(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.extend(byte);
        bytes.extend(part.as_bytes().get(2..).unwrap_or_default());
    }
    bytes
}

fn local(time: &str) -> Option<chrono::DateTime<Local>> {
    let time = NaiveDateTime::parse_from_str(time, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
    Local.from_local_datetime(&time).earliest()
}

/// The fields of a case, with a timestamp of the machine's zone.
fn expected(fields: &str) -> Value {
    let mut fields: Value = serde_json::from_str(fields).unwrap_or_default();
    if let Some(time) = fields["timestamp"].as_str().and_then(local) {
        fields["timestamp"] = time.fixed_offset().to_rfc3339().into();
    }
    fields
}

#[test]
fn headers_of_programs_and_devices() {
    let received = local(RECEIVED).and_then(|time| time.timestamp_nanos_opt()).unwrap();
    let received = u64::try_from(received).unwrap();
    let (mut count, mut failures) = (0, Vec::new());
    for (file, text) in FILES {
        for Case { line, what, message, fields } in cases(text) {
            count += 1;
            let source = what.rsplit_once(" | ").map(|(_, source)| source).unwrap_or_default();
            let is_known =
                ["both", "rsyslog", "syslog-ng"].contains(&source) || source.starts_with("neither: ");
            assert!(is_known, "{file}:{line}: no source in {what:?}");
            let found = serde_json::to_value(super::read(&bytes(message), received)).unwrap();
            let expected = expected(fields);
            if found != expected {
                failures.push(format!(
                    "{file}:{line}: {what}\n  {message}\n  expected {expected}\n  found    {found}"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= CASES_MIN, "{count} cases are fewer than {CASES_MIN}");
}

/// What is cut out of a header is read, too, and no field has a text that the message does not have.
#[test]
fn the_fields_of_a_part_of_a_header_stand_in_it() {
    for case in FILES.into_iter().flat_map(|(_, text)| cases(text)) {
        let message = bytes(case.message);
        for at in 0..message.len() {
            for part in [&message[..at], &message[at..]] {
                let (fields, text) = (super::read(part, 0), String::from_utf8_lossy(part));
                let whole = text.trim_end_matches('\0');
                let whole = whole.strip_suffix('\n').unwrap_or(whole);
                assert!(whole.ends_with(fields.msg.as_deref().unwrap_or_default()), "{text:?} {fields:?}");
                for field in [&fields.hostname, &fields.appname, &fields.procid, &fields.msgid] {
                    assert!(
                        field.as_ref().is_none_or(|field| text.contains(field.as_str())),
                        "{text:?} {fields:?}"
                    );
                }
            }
        }
    }
}
