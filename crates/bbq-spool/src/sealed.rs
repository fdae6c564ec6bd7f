//! Small text files with a checksum: a first line with the kind, its version and the checksum, then the text.
//!
//! ```text
//! bbq <kind> 1 <CRC-32C of everything behind this line, 8 hex digits>
//! ```

use bbq_wire::batch::crc32c;

/// The contents of a file of this kind with this text.
#[must_use]
pub fn seal(kind: &str, body: &str) -> String {
    format!("bbq {kind} 1 {:08x}\n{body}", crc32c(body.as_bytes()))
}

/// The text in a file of this kind; `None` if the file is of another kind, or damaged.
#[must_use]
pub fn open<'a>(kind: &str, contents: &'a str) -> Option<&'a str> {
    let (first, body) = contents.split_once('\n')?;
    let crc = first.strip_prefix("bbq ")?.strip_prefix(kind)?.strip_prefix(" 1 ")?;
    (u32::from_str_radix(crc, 16).ok()? == crc32c(body.as_bytes())).then_some(body)
}
