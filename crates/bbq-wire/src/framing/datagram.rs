//! Datagrams: the kernel has kept the boundaries, so no state is needed.

use memchr::memchr_iter;

use super::lines::without_cr;
use super::{Frame, FramingRules};
use crate::SourceKind;

/// Emits the messages of one datagram:
///
/// - lines: what LF separates; the last line needs none, and one CR before an LF is dropped;
/// - syslog: one message (RFC 5426), without one NUL or one LF (or CR LF) at its end, which some senders add; nothing if
///   it is empty then;
/// - whole, and any other kind: the datagram as it is, nothing if it is empty.
///
/// The end of a datagram is its message's end: [`Frame::Incomplete`] is never emitted.
pub fn datagram(source: SourceKind, rules: &FramingRules, bytes: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
    match source {
        SourceKind::Lines => {
            let mut from = 0;
            for at in memchr_iter(b'\n', bytes) {
                rules.emit_whole(without_cr(&bytes[from..at]), emit);
                from = at + 1;
            }
            emit_if_any(rules, &bytes[from..], emit);
        }
        SourceKind::Syslog => {
            let message = match bytes.split_last() {
                Some((0, message)) => message,
                Some((b'\n', message)) => without_cr(message),
                _ => bytes,
            };
            emit_if_any(rules, message, emit);
        }
        SourceKind::Whole | SourceKind::Bbq | SourceKind::Http | SourceKind::Otlp | SourceKind::Other(_) => {
            emit_if_any(rules, bytes, emit);
        }
    }
}

fn emit_if_any(rules: &FramingRules, message: &[u8], emit: &mut impl FnMut(Frame<'_>)) {
    if !message.is_empty() {
        rules.emit_whole(message, emit);
    }
}
