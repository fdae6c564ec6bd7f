//! What the framing tests share: frames that can be kept, and the two rules for a message that stands alone.

use bbq_wire::framing::{Frame, FramingRules, OnIncomplete, OnOversize};
use proptest::prelude::*;

/// A frame that owns its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Message(Vec<u8>),
    Cut(Vec<u8>, u64),
    Oversize(u64),
    Incomplete(u64),
}

impl From<Frame<'_>> for Told {
    fn from(frame: Frame<'_>) -> Told {
        match frame {
            Frame::Message(message) => Told::Message(message.to_vec()),
            Frame::Cut { message, lost_bytes } => Told::Cut(message.to_vec(), lost_bytes),
            Frame::Oversize { bytes } => Told::Oversize(bytes),
            Frame::Incomplete { bytes } => Told::Incomplete(bytes),
        }
    }
}

pub(crate) fn message(bytes: impl AsRef<[u8]>) -> Told {
    Told::Message(bytes.as_ref().to_vec())
}

pub(crate) fn rules(message_bytes_max: u32) -> FramingRules {
    FramingRules {
        message_bytes_max,
        on_oversize: OnOversize::default(),
        on_incomplete: OnIncomplete::default(),
    }
}

/// Reference: a message that has its end.
pub(crate) fn ended(rules: &FramingRules, bytes: &[u8]) -> Told {
    let most = rules.message_bytes_max as usize;
    match rules.on_oversize {
        _ if bytes.len() <= most => message(bytes),
        OnOversize::Refuse => Told::Oversize(bytes.len() as u64),
        OnOversize::Cut => Told::Cut(bytes[..most].to_vec(), (bytes.len() - most) as u64),
    }
}

/// Reference: a message that has none.
pub(crate) fn unended(rules: &FramingRules, bytes: &[u8]) -> Told {
    match (ended(rules, bytes), rules.on_incomplete) {
        (Told::Oversize(bytes), _) => Told::Oversize(bytes),
        (_, OnIncomplete::Drop) => Told::Incomplete(bytes.len() as u64),
        (told, OnIncomplete::Keep) => told,
    }
}

pub(crate) fn any_rules() -> impl Strategy<Value = FramingRules> {
    (0u32..12, any::<bool>(), any::<bool>()).prop_map(|(message_bytes_max, cut, keep)| FramingRules {
        message_bytes_max,
        on_oversize: if cut { OnOversize::Cut } else { OnOversize::Refuse },
        on_incomplete: if keep { OnIncomplete::Keep } else { OnIncomplete::Drop },
    })
}

/// Bytes that are delimiters, digits and a few letters, so that each rule is met often.
pub(crate) fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        4 => proptest::sample::select(b"abc<".to_vec()),
        3 => proptest::sample::select(b"\n\r\0 ".to_vec()),
        1 => proptest::sample::select(b"0123456789".to_vec()),
        1 => any::<u8>(),
    ];
    proptest::collection::vec(byte, 0..120)
}

/// Splits `input` into pieces of these sizes, the last one being the rest.
pub(crate) fn pieces<'a>(input: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = input;
    let mut out = Vec::new();
    for size in sizes {
        let (piece, behind) = rest.split_at(rest.len().min(*size));
        out.push(piece);
        rest = behind;
    }
    out.push(rest);
    out
}

/// Whether `part` lies in `whole`, as memory.
pub(crate) fn is_lent(part: &[u8], whole: &[u8]) -> bool {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    whole.start <= part.start && part.end <= whole.end
}
