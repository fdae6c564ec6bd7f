//! Where in the journal an entry is, and where reading begins.
//!
//! ```text
//! s=<sequence number id>;i=<number>;b=<boot id>;m=<microseconds since boot>;t=<microseconds since 1970>;x=<hash>
//! ```
//!
//! Numbers are hexadecimal. journalctl takes any part of a cursor: it finds the place in a file by the number if the file has the id, else by
//! the boot if the file has the boot, else by the time.

use std::fmt;

/// The cursor of an entry, without its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The sequence number id.
    pub seqnum_id: u128,
    /// The number, from 1.
    pub seqnum: u64,
    /// The boot in which it was written.
    pub boot_id: u128,
    pub(crate) monotonic_us: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub realtime_us: u64,
}

impl Cursor {
    /// Reads a cursor; `None` if a part is missing or wrong.
    pub(crate) fn parse(text: &[u8]) -> Option<Cursor> {
        let Place { seqnum: Some((seqnum_id, seqnum)), boot: Some((boot_id, monotonic_us)), realtime_us } =
            Place::parse(std::str::from_utf8(text).ok()?)?
        else {
            return None;
        };
        (seqnum > 0).then_some(Cursor { seqnum_id, seqnum, boot_id, monotonic_us, realtime_us: realtime_us? })
    }
}

/// Where journalctl begins to read. Without parts: at the first entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seqnum: Option<(u128, u64)>,
    pub(crate) boot: Option<(u128, u64)>,
    pub(crate) realtime_us: Option<u64>,
}

impl Place {
    /// The first entry at or after this time.
    pub(crate) fn at_time(realtime_us: u64) -> Place {
        Place { realtime_us: Some(realtime_us), ..Place::default() }
    }

    /// Reads the parts that are there. Unknown ones are ignored, as newer versions may have more.
    pub(crate) fn parse(text: &str) -> Option<Place> {
        let (mut id, mut number, mut boot_id, mut monotonic, mut realtime) = (None, None, None, None, None);
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=')?;
            let wide = || hexadecimal(value);
            let narrow = || u64::try_from(hexadecimal(value)?).ok();
            match key {
                "s" => id = Some(wide()?),
                "i" => number = Some(narrow()?),
                "b" => boot_id = Some(wide()?),
                "m" => monotonic = Some(narrow()?),
                "t" => realtime = Some(narrow()?),
                _ => {}
            }
        }
        Some(Place { seqnum: id.zip(number), boot: boot_id.zip(monotonic), realtime_us: realtime })
    }

    pub(crate) fn is_first_entry(self) -> bool {
        self == Place::default()
    }
}

impl From<Cursor> for Place {
    fn from(cursor: Cursor) -> Place {
        let Cursor { seqnum_id, seqnum, boot_id, monotonic_us, realtime_us } = cursor;
        Place {
            seqnum: Some((seqnum_id, seqnum)),
            boot: Some((boot_id, monotonic_us)),
            realtime_us: Some(realtime_us),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        let mut part = |text: fmt::Arguments<'_>| {
            let written = write!(f, "{between}{text}");
            between = ";";
            written
        };
        if let Some((id, number)) = self.seqnum {
            part(format_args!("s={id:032x};i={number:x}"))?;
        }
        if let Some((id, monotonic)) = self.boot {
            part(format_args!("b={id:032x};m={monotonic:x}"))?;
        }
        match self.realtime_us {
            Some(time) => part(format_args!("t={time:x}")),
            None => Ok(()),
        }
    }
}

fn hexadecimal(text: &str) -> Option<u128> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "s=eb77cfe1343043ef96f9e7fbcf091121;i=1f;b=0123456789abcdef0123456789abcdef;m=2a;t=60a24181e4001";

    #[test]
    fn a_cursor_comes_back_without_its_hash() {
        let cursor = Cursor::parse(format!("{TEXT};x=112ae500c074b1fa").as_bytes()).unwrap();
        assert_eq!((cursor.seqnum, cursor.monotonic_us, cursor.realtime_us), (31, 42, 0x6_0a24_181e_4001));
        assert_eq!(Place::from(cursor).to_string(), TEXT);
        assert_eq!(Place::parse(TEXT), Some(Place::from(cursor)));
        assert_eq!(Place::at_time(255).to_string(), "t=ff");
        assert!(Place::parse("").unwrap().is_first_entry());
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let cut: Vec<String> = (0..TEXT.len() - 12).map(|end| TEXT[..end].to_owned()).collect();
        let wrong =
            [("1f", "0"), ("1f", "+1"), ("1f", "1ffffffffffffffff"), ("1f", ""), ("=", ""), ("eb77", "xy77")];
        let wrong = wrong.map(|(from, to)| TEXT.replacen(from, to, 1));
        for text in cut.iter().chain(&wrong) {
            assert_eq!(Cursor::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Cursor::parse(b"\xff"), None);
    }
}
