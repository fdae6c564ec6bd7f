//! Messages of RFC 5424, behind their priority and version.
//!
//! ```text
//! 2026-10-11T22:14:15.003Z host app 12 ID47 [data@32473 key="value"] text
//! time                     host app procid msgid  structured data    msg; - in place of each but the last
//! ```
//!
//! Nothing is guessed. A message whose fields are not separated by one blank each, or whose structured data are not valid, keeps what is not
//! understood in `msg`. Valid are data whose names have any length and whose values have a `]` that is not escaped, as many senders write them.

use super::fields::SyslogFields;
use super::structured_data::StructuredData;
use super::timestamp::{self, DATE_BYTES, LocalTime};
use super::{rfc3164, zone};

/// Some senders write it in front of UTF-8: of the text (RFC 5424, section 6.4), or of the whole message.
pub(super) const BYTE_ORDER_MARK: char = '\u{feff}';

/// A field without a value.
const NIL: &str = "-";
/// Names of programs have none of these. Where one stands in such a name and the data are not valid, a tag of RFC 3164 or a text begins.
const OF_TEXT: [char; 4] = [':', '|', '=', '"'];

/// Reads a message behind `<34>1 `; `None` if it has no such header.
pub(super) fn read(text: &str) -> Option<SyslogFields> {
    let (timestamp, rest) = time(text)?;
    // A time tells that this is a header at all, also where it is cut off or its data are not valid.
    let has_time = timestamp.is_some() || text.starts_with("- ") || text == NIL;
    let (hostname, behind_host) = field(rest)?;
    let (appname, rest) = field(behind_host)?;
    let (procid, rest) = field(rest)?;
    let (msgid, rest) = field(rest)?;
    let (structured_data, msg) = match rest.and_then(StructuredData::read) {
        Some(read) => read,
        None if !has_time => return None,
        None if appname.is_some_and(|name| name.contains(OF_TEXT)) => {
            let fields = rfc3164::behind_host(behind_host.unwrap_or_default());
            return Some(SyslogFields { timestamp, hostname: hostname.map(str::to_owned), ..fields });
        }
        None => (StructuredData::default(), rest.unwrap_or_default()),
    };
    let msg = msg.strip_prefix(BYTE_ORDER_MARK).unwrap_or(msg);
    Some(SyslogFields {
        timestamp,
        hostname: hostname.map(str::to_owned),
        appname: appname.map(str::to_owned),
        procid: procid.map(str::to_owned),
        msgid: msgid.map(str::to_owned),
        structured_data: structured_data.0,
        msg: Some(msg.to_owned()),
        ..SyslogFields::default()
    })
}

/// The time, if it can be read, and what stands behind it and a blank. Some senders write a blank within it.
fn time(text: &str) -> Option<(Option<String>, Option<&str>)> {
    let (word, rest) = text.split_once(' ').map_or((text, None), |(word, rest)| (word, Some(rest)));
    if word.len() == DATE_BYTES
        && let Some(time) = LocalTime::read_iso(text)
    {
        let (timestamp, rest) = zone::timestamp(time, |_| true);
        return rest.strip_prefix(' ').map(|rest| (timestamp, Some(rest)));
    }
    (!word.is_empty()).then(|| (timestamp::of_word(word), rest))
}

/// The next field, and what stands behind it and a blank; `None` if two blanks follow each other.
fn field(text: Option<&str>) -> Option<(Option<&str>, Option<&str>)> {
    let Some(text) = text else { return Some((None, None)) };
    let (word, rest) = text.split_once(' ').map_or((text, None), |(word, rest)| (word, Some(rest)));
    (!word.is_empty()).then(|| (Some(word).filter(|word| *word != NIL), rest))
}
