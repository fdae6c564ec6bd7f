//! Reads a zone file: RFC 1035, section 5.
//!
//! The subset: `$ORIGIN`, `$TTL`, `@`, relative names, an owner left out, TTL and class in either order, comments,
//! parentheses, quoted text, escapes; the types of `wire::kind`, class IN. TTLs may have units, as in `1h30m`. Not here:
//! `$INCLUDE`, `$GENERATE`, wildcards (`*` is an ordinary label), delegations (an NS is a record like any other).

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::wire::{LABEL_BYTES_MAX, NAME_BYTES_MAX, kind};

/// Bytes of one piece of text in a TXT record.
const TEXT_BYTES_MAX: usize = 255;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Its owner's name as on the wire, in lower case.
    pub(crate) owner: Vec<u8>,
    pub(crate) kind: u16,
    pub(crate) ttl: u32,
    /// As on the wire, names uncompressed.
    pub(crate) data: Vec<u8>,
    /// Where it stands, from 1.
    pub(crate) line: usize,
}

/// What is wrong with a zone, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ZoneError {
    pub(crate) line: usize,
    pub(crate) problem: String,
}

impl fmt::Display for ZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for ZoneError {}

/// Every record in `text`, in its order.
pub(crate) fn parse(text: &str) -> Result<Vec<Record>, ZoneError> {
    let mut reader = Reader::default();
    for entry in entries(text)? {
        let line = entry.line;
        reader.entry(&entry).map_err(|problem| ZoneError { line, problem })?;
    }
    Ok(reader.records)
}

/// What belongs together: a line, or several within parentheses.
#[derive(Debug, Default)]
struct Entry {
    line: usize,
    /// It begins with white space, so its owner is that of the entry before.
    same_owner: bool,
    words: Vec<String>,
}

/// Cuts the text into entries. Escapes stay as they are, quotes go.
fn entries(text: &str) -> Result<Vec<Entry>, ZoneError> {
    let mut entries = Vec::new();
    let mut entry = Entry { line: 1, ..Entry::default() };
    let mut open = 0; // the line of the parenthesis that is open, 0 if none is
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let refuse = |problem: &str| ZoneError { line: number, problem: problem.to_owned() };
        if open == 0 {
            entry = Entry { line: number, same_owner: line.starts_with([' ', '\t']), words: Vec::new() };
        }
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            match first {
                ';' => break,
                '(' | ')' => {
                    if (first == '(') != (open == 0) {
                        return Err(refuse("parentheses do not match"));
                    }
                    open = if first == '(' { number } else { 0 };
                    rest = &rest[1..];
                }
                '"' => {
                    let end = end_of(&rest[1..], |c| c == '"');
                    let word = &rest[1..=end];
                    rest = rest.get(end + 2..).ok_or_else(|| refuse("a quote has no end on its line"))?;
                    entry.words.push(word.to_owned());
                }
                _ => {
                    let end = end_of(rest, |c| c.is_ascii_whitespace() || "();\"".contains(c));
                    entry.words.push(rest[..end].to_owned());
                    rest = &rest[end..];
                }
            }
            rest = rest.trim_start();
        }
        if open == 0 && !entry.words.is_empty() {
            entries.push(std::mem::take(&mut entry));
        }
    }
    if open != 0 {
        return Err(ZoneError { line: open, problem: "a parenthesis is not closed".to_owned() });
    }
    Ok(entries)
}

/// Where the first character that is `wanted` stands, one behind a backslash not counted.
fn end_of(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    let mut escaped = false;
    text.char_indices()
        .find(|&(_, character)| {
            let found = !escaped && wanted(character);
            escaped = !escaped && character == '\\';
            found
        })
        .map_or(text.len(), |(at, _)| at)
}

#[derive(Debug, Default)]
struct Reader {
    origin: Option<Vec<u8>>,
    ttl: Option<u32>,
    owner: Option<Vec<u8>>,
    records: Vec<Record>,
}

impl Reader {
    fn entry(&mut self, entry: &Entry) -> Result<(), String> {
        let mut words = entry.words.iter().map(String::as_str);
        let mut next = || words.next().ok_or_else(|| "something is missing at the end".to_owned());
        if entry.words[0].starts_with('$') && !entry.same_owner {
            match next()?.to_ascii_uppercase().as_str() {
                "$ORIGIN" => self.origin = Some(self.name(next()?)?),
                "$TTL" => self.ttl = Some(ttl(next()?).ok_or("$TTL takes seconds, or units as in 1h30m")?),
                other => return Err(format!("{other} is not supported; only $ORIGIN and $TTL are")),
            }
            return words.next().map_or(Ok(()), |word| Err(format!("{word:?} is too much")));
        }
        if !entry.same_owner {
            self.owner = Some(self.name(next()?)?.to_ascii_lowercase());
        }
        let owner = self.owner.clone().ok_or("the first record must have an owner")?;
        let mut own_ttl = None;
        let kind = loop {
            let word = next()?;
            if word.eq_ignore_ascii_case("IN") {
                continue;
            }
            if let Some((_, kind)) = kind::ALL.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)) {
                break *kind;
            }
            own_ttl = Some(ttl(word).ok_or_else(|| {
                let known: Vec<&str> = kind::ALL.iter().map(|(name, _)| *name).collect();
                format!("{word:?} is no type that is supported: {} (class IN only)", known.join(", "))
            })?);
        };
        let fields: Vec<&str> = words.collect();
        let data = self.data(kind, &fields)?;
        let ttl =
            own_ttl.or(self.ttl).ok_or("there is no TTL; begin the file with one, for example $TTL 3600")?;
        // RFC 1035, section 5.1: left out, it is that of the record before.
        self.ttl.get_or_insert(ttl);
        self.records.push(Record { owner, kind, ttl, data, line: entry.line });
        Ok(())
    }

    fn data(&self, kind: u16, fields: &[&str]) -> Result<Vec<u8>, String> {
        let number = |text: &str, what: &str| {
            text.parse::<u16>().map_err(|_| format!("{what} {text:?} is not a number from 0 to 65535"))
        };
        match (kind, fields) {
            (kind::A, [address]) => {
                let parsed: Ipv4Addr =
                    address.parse().map_err(|_| format!("{address:?} is not an IPv4 address"))?;
                Ok(parsed.octets().to_vec())
            }
            (kind::AAAA, [address]) => {
                let parsed: Ipv6Addr =
                    address.parse().map_err(|_| format!("{address:?} is not an IPv6 address"))?;
                Ok(parsed.octets().to_vec())
            }
            (kind::NS | kind::CNAME | kind::PTR, [name]) => self.name(name),
            (kind::MX, [preference, name]) => {
                let mut data = number(preference, "the preference")?.to_be_bytes().to_vec();
                data.extend(self.name(name)?);
                Ok(data)
            }
            (kind::TXT, [_, ..]) => fields.iter().try_fold(Vec::new(), |mut data, field| {
                let text = unescape(field)?;
                if text.len() > TEXT_BYTES_MAX {
                    return Err(format!("a text of {} bytes, at most {TEXT_BYTES_MAX}", text.len()));
                }
                data.push(text.len() as u8);
                data.extend(text);
                Ok(data)
            }),
            (kind::SOA, [primary, mailbox, serial, times @ ..]) if times.len() == 4 => {
                let mut data = self.name(primary)?;
                data.extend(self.name(mailbox)?);
                let serial: u32 =
                    serial.parse().map_err(|_| format!("the serial {serial:?} is not a number"))?;
                data.extend(serial.to_be_bytes());
                for time in times {
                    data.extend(ttl(time).ok_or_else(|| format!("{time:?} is no time"))?.to_be_bytes());
                }
                Ok(data)
            }
            _ => Err(format!("{} fields of data are too few or too many for this type", fields.len())),
        }
    }

    /// A name as on the wire: absolute with a dot at its end, otherwise below the origin.
    fn name(&self, text: &str) -> Result<Vec<u8>, String> {
        let origin = || self.origin.clone().ok_or_else(|| no_origin(text));
        let mut name = Vec::new();
        match text {
            "@" => return origin(),
            "." => return Ok(vec![0]),
            _ => {}
        }
        let mut rest = text;
        loop {
            let end = end_of(rest, |character| character == '.');
            let label = unescape(&rest[..end])?;
            if label.is_empty() || label.len() > LABEL_BYTES_MAX {
                return Err(format!("a label of {text:?} has {} bytes, not 1 to 63", label.len()));
            }
            name.push(label.len() as u8);
            name.extend(label);
            match rest.get(end + 1..) {
                None => {
                    name.extend(origin()?);
                    break;
                }
                Some("") => {
                    name.push(0);
                    break;
                }
                Some(more) => rest = more,
            }
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(format!("{text:?} is longer than {NAME_BYTES_MAX} bytes on the wire"));
        }
        Ok(name)
    }
}

fn no_origin(text: &str) -> String {
    format!("{text:?} is relative, and to nothing: begin the file with $ORIGIN example.org.")
}

/// `\.` is the character itself, `\032` the byte of that number.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        let number = str::from_utf8(&rest[..digits]).ok().and_then(|digits| digits.parse::<u8>().ok());
        match (digits, number, rest.first()) {
            (3, Some(byte), _) => {
                bytes.push(byte);
                rest = &rest[3..];
            }
            (0, _, Some(&byte)) => {
                bytes.push(byte);
                rest = &rest[1..];
            }
            _ => return Err(format!("{text:?}: a backslash takes one character, or three digits up to 255")),
        }
    }
    Ok(bytes)
}

/// Seconds, or numbers with units: `3600`, `1h`, `1h30m`. RFC 2181, section 8: at most 2^31 - 1.
fn ttl(text: &str) -> Option<u32> {
    let (mut total, mut number) = (0_u64, None::<u64>);
    for byte in text.bytes() {
        let unit = match byte.to_ascii_lowercase() {
            digit @ b'0'..=b'9' => {
                let so_far = number.unwrap_or(0).checked_mul(10)?;
                number = Some(so_far.checked_add(u64::from(digit - b'0'))?);
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    let total = total.checked_add(number.unwrap_or(0))?;
    (!text.is_empty() && total <= i32::MAX as u64).then_some(total as u32)
}
