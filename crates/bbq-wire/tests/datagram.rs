//! Messages of one datagram. If these fail, UDP senders get trailers in their messages, or lose the last line.

#[expect(dead_code, reason = "shared with the other framing tests")]
mod common;

use bbq_wire::SourceKind;
use bbq_wire::framing::{Frame, FramingRules, OnOversize, datagram};
use common::{Told, is_lent, message, rules};

fn told_by(rules: &FramingRules, source: SourceKind, bytes: &[u8]) -> Vec<Told> {
    let mut told = Vec::new();
    datagram(source, rules, bytes, &mut |frame| {
        if let Frame::Message(message) = frame {
            assert!(is_lent(message, bytes), "nothing is copied");
        }
        told.push(Told::from(frame));
    });
    told
}

fn told(source: SourceKind, bytes: &[u8]) -> Vec<Told> {
    told_by(&rules(9), source, bytes)
}

#[test]
fn lines_need_no_last_lf() {
    assert_eq!(told(SourceKind::Lines, b"a\r\n\nb"), [message("a"), message(""), message("b")]);
    assert_eq!(told(SourceKind::Lines, b"a\nb\n"), [message("a"), message("b")]);
    assert_eq!(told(SourceKind::Lines, b"a\r"), [message("a\r")]);
    assert_eq!(told(SourceKind::Lines, b""), []);
}

#[test]
fn syslog_loses_one_trailer() {
    for sent in ["<1>a", "<1>a\n", "<1>a\r\n", "<1>a\0"] {
        assert_eq!(told(SourceKind::Syslog, sent.as_bytes()), [message("<1>a")], "{sent:?}");
    }
    assert_eq!(told(SourceKind::Syslog, b"<1>a\n\n"), [message("<1>a\n")]);
    assert_eq!(told(SourceKind::Syslog, b"<1>a\r\0"), [message("<1>a\r")]);
    assert_eq!(told(SourceKind::Syslog, b"<1>a\nb"), [message("<1>a\nb")]);
    assert_eq!(told(SourceKind::Syslog, b"\n"), []);
    assert_eq!(told(SourceKind::Syslog, b""), []);
}

#[test]
fn whole_is_as_it_is() {
    assert_eq!(told(SourceKind::Whole, b"a\r\n\0"), [message("a\r\n\0")]);
    assert_eq!(told(SourceKind::Whole, b""), []);
}

#[test]
fn over_the_limit() {
    let cut = FramingRules { on_oversize: OnOversize::Cut, ..rules(9) };
    for source in [SourceKind::Lines, SourceKind::Syslog, SourceKind::Whole] {
        assert_eq!(told(source, b"0123456789"), [Told::Oversize(10)]);
        assert_eq!(told_by(&cut, source, b"0123456789"), [Told::Cut(b"012345678".to_vec(), 1)]);
    }
    assert_eq!(told(SourceKind::Lines, b"0123456789\na\n"), [Told::Oversize(10), message("a")]);
    assert_eq!(told(SourceKind::Syslog, b"012345678\n"), [message("012345678")]);
}
