//! Names and numbers of DNS messages (RFC 1035, section 4).
//!
//! A name is a row of labels, each a length (1 to 63) and as many bytes, and a zero; at most 255 bytes in all. Letters are
//! compared without regard to case, so names are looked up in lower case.

pub(crate) const HEADER_BYTES: usize = 12;
pub(crate) const NAME_BYTES_MAX: usize = 255;
pub(crate) const LABEL_BYTES_MAX: usize = 63;
pub(crate) const CLASS_IN: u16 = 1;
pub(crate) const CLASS_ANY: u16 = 255;
/// The first name of a message, which is the one that was asked for: a pointer to right behind the header.
pub(crate) const NAME_OF_QUESTION: [u8; 2] = [0xC0, HEADER_BYTES as u8];

/// Record types: those that a zone may have.
pub(crate) mod kind {
    pub(crate) const A: u16 = 1;
    pub(crate) const NS: u16 = 2;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const SOA: u16 = 6;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const MX: u16 = 15;
    pub(crate) const TXT: u16 = 16;
    pub(crate) const AAAA: u16 = 28;
    /// All of them, with the words that zone files have for them.
    pub(crate) const ALL: [(&str, u16); 8] = [
        ("A", A),
        ("AAAA", AAAA),
        ("CNAME", CNAME),
        ("MX", MX),
        ("NS", NS),
        ("PTR", PTR),
        ("SOA", SOA),
        ("TXT", TXT),
    ];
    /// EDNS, RFC 6891; never in a zone.
    pub(crate) const OPT: u16 = 41;
    /// Any type; only in questions.
    pub(crate) const ANY: u16 = 255;
}

/// Response codes.
pub(crate) mod code {
    pub(crate) const NO_ERROR: u8 = 0;
    pub(crate) const FORMAT_ERROR: u8 = 1;
    pub(crate) const NO_SUCH_NAME: u8 = 3;
    pub(crate) const NOT_IMPLEMENTED: u8 = 4;
    pub(crate) const REFUSED: u8 = 5;
}

/// The bytes of a name at `at`, its final zero included; `None` if it is cut, too long or has a pointer in it.
pub(crate) fn plain_name(message: &[u8], at: usize) -> Option<&[u8]> {
    let mut end = at;
    loop {
        let length = usize::from(*message.get(end)?);
        end += 1 + length;
        if length > LABEL_BYTES_MAX || end - at > NAME_BYTES_MAX {
            return None;
        }
        if length == 0 {
            return Some(&message[at..end]);
        }
    }
}

/// Where the name at `at` ends, which may end in a pointer (RFC 1035, section 4.1.4). The pointer is not followed.
pub(crate) fn after_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = *message.get(at)?;
        match length {
            0 => return Some(at + 1),
            1..=63 => at += 1 + usize::from(length),
            0xC0.. => return (at + 2 <= message.len()).then_some(at + 2),
            _ => return None,
        }
    }
}

/// The 16-bit number at `at`.
pub(crate) fn number(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Whether `name` is `apex` or below it. Both in lower case.
pub(crate) fn is_within(name: &[u8], apex: &[u8]) -> bool {
    let mut rest = name;
    loop {
        if rest == apex {
            return true;
        }
        match rest.first() {
            None | Some(0) => return false,
            Some(&length) => rest = rest.get(1 + usize::from(length)..).unwrap_or_default(),
        }
    }
}

/// `name` without its first label.
pub(crate) fn parent(name: &[u8]) -> &[u8] {
    name.first().and_then(|&length| name.get(1 + usize::from(length)..)).unwrap_or_default()
}
