//! Syslog over a connection (RFC 6587). If these fail, rsyslog, syslog-ng or Python's handler lose or merge messages, or
//! one sender's broken count makes garbage of what follows.

mod common;

use bbq_wire::framing::{Frame, FramingError, FramingRules, OnIncomplete, OnOversize, Syslog};
use common::{Told, any_rules, any_text, ended, is_lent, message, pieces, rules, unended};
use proptest::prelude::*;

type Outcome = (Vec<Told>, Option<FramingError>);

/// All frames of a connection that comes in these pieces and then ends, and the error that ended it earlier.
fn told(rules: &FramingRules, pieces: &[&[u8]]) -> Outcome {
    let mut syslog = Syslog::new();
    let mut told = Vec::new();
    for piece in pieces {
        let before = told.len();
        let outcome = syslog.push(rules, piece, &mut |frame| {
            if let Frame::Message(message) = frame {
                let copied = !is_lent(message, piece);
                assert!(!copied || told.len() == before, "only the first one may have begun earlier");
            }
            told.push(Told::from(frame));
        });
        if let Err(error) = outcome {
            let again = syslog.push(rules, b"5 hello", &mut |frame| panic!("{frame:?} behind an error"));
            assert_eq!(again, Err(error));
            syslog.finish(rules, &mut |frame| panic!("{frame:?} behind an error"));
            return (told, Some(error));
        }
        assert!(syslog.held_bytes() <= rules.message_bytes_max as usize + 1, "holds {}", syslog.held_bytes());
    }
    syslog.finish(rules, &mut |frame| told.push(Told::from(frame)));
    assert_eq!(syslog.held_bytes(), 0);
    (told, None)
}

fn messages(pieces: &[&[u8]]) -> Vec<Told> {
    let (told, error) = told(&rules(1000), pieces);
    assert_eq!(error, None);
    told
}

/// What the framing is, on all of the input at once.
fn reference(rules: &FramingRules, input: &[u8]) -> Outcome {
    match input.first() {
        Some(b'1'..=b'9') => counted(rules, input),
        _ => (delimited(rules, input), None),
    }
}

fn delimited(rules: &FramingRules, input: &[u8]) -> Vec<Told> {
    let mut frames: Vec<&[u8]> = input.split_inclusive(|byte| matches!(byte, b'\n' | 0)).collect();
    let open = frames.pop_if(|frame| !matches!(frame.last(), Some(b'\n' | 0)));
    let trimmed = frames.iter().map(|frame| {
        let without_lf = frame.strip_suffix(b"\r\n").or_else(|| frame.strip_suffix(b"\n"));
        without_lf.or_else(|| frame.strip_suffix(b"\0")).unwrap_or(frame)
    });
    let mut told: Vec<Told> =
        trimmed.filter(|frame| !frame.is_empty()).map(|frame| ended(rules, frame)).collect();
    told.extend(open.map(|frame| unended(rules, frame)));
    told
}

fn counted(rules: &FramingRules, input: &[u8]) -> Outcome {
    let mut told = Vec::new();
    let mut rest = input;
    loop {
        while let Some((b'\n' | b'\r' | 0, behind)) = rest.split_first() {
            rest = behind;
        }
        if rest.is_empty() {
            return (told, None);
        }
        let digits = rest.iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        let digits = if rest[0] == b'0' { 0 } else { digits };
        match rest.get(digits) {
            Some(b' ') if digits > 0 => {}
            Some(found) => {
                return (told, Some(FramingError::OctetCount { digits: digits as u8, found: *found }));
            }
            None => {
                told.push(Told::Incomplete(0));
                return (told, None);
            }
        }
        let count: u64 = std::str::from_utf8(&rest[..digits]).map_or(0, |text| text.parse().unwrap_or(0));
        rest = &rest[digits + 1..];
        if (rest.len() as u64) < count {
            told.push(match rules.on_oversize {
                _ if rest.is_empty() => Told::Incomplete(0),
                OnOversize::Refuse if count > u64::from(rules.message_bytes_max) => {
                    Told::Oversize(rest.len() as u64)
                }
                _ => unended(rules, rest),
            });
            return (told, None);
        }
        let (bytes, behind) = rest.split_at(count as usize);
        told.push(ended(rules, bytes));
        rest = behind;
    }
}

#[test]
fn octet_counting() {
    let wanted = [message("<34>1 a\nb"), message("x"), message("<13>c\0")];
    assert_eq!(messages(&[b"9 <34>1 a\nb1 x6 <13>c\0"]), wanted);
    assert_eq!(messages(&b"9 <34>1 a\nb1 x6 <13>c\0".chunks(1).collect::<Vec<_>>()), wanted);
}

#[test]
fn trailers_between_counted_messages_are_passed_over() {
    assert_eq!(messages(&[b"3 abc\n3 def\r\n\x003 ghi\n"]), [message("abc"), message("def"), message("ghi")]);
}

#[test]
fn a_count_over_the_limit_is_skipped_by_its_count() {
    let input: &[u8] = b"3 abc12 abcdef 3 ghi3 xyz";
    for pieces in [vec![input], input.chunks(1).collect()] {
        assert_eq!(told(&rules(3), &pieces).0, [message("abc"), Told::Oversize(12), message("xyz")]);
        let cut = FramingRules { on_oversize: OnOversize::Cut, ..rules(3) };
        let wanted = [message("abc"), Told::Cut(b"abc".to_vec(), 9), message("xyz")];
        assert_eq!(told(&cut, &pieces).0, wanted);
    }
}

#[test]
fn nothing_is_held_of_a_count_that_is_refused() {
    let mut syslog = Syslog::new();
    let outcome = syslog.push(&rules(1000), b"9999999999 abc", &mut |frame| panic!("{frame:?}"));
    assert_eq!((outcome, syslog.held_bytes()), (Ok(()), 0));
}

#[test]
fn a_count_reserves_no_memory() {
    let cut = FramingRules { on_oversize: OnOversize::Cut, ..rules(1_000_000) };
    let mut syslog = Syslog::new();
    let outcome = syslog.push(&cut, b"1000000 abc", &mut |frame| panic!("{frame:?}"));
    assert_eq!((outcome, syslog.held_bytes()), (Ok(()), 3));
}

#[test]
fn a_broken_count_ends_the_connection_after_what_came_whole() {
    let broken = |input: &[u8]| {
        let (told, error) = told(&rules(100), &[input]);
        assert_eq!(told, [message("abc")], "what came whole before it");
        error
    };
    let error = |digits, found| Some(FramingError::OctetCount { digits, found });
    assert_eq!(broken(b"3 abc<34>1 x\n"), error(0, b'<'));
    assert_eq!(broken(b"3 abc03 abc"), error(0, b'0'));
    assert_eq!(broken(b"3 abc 3 abc"), error(0, b' '));
    assert_eq!(broken(b"3 abc3\nabc"), error(1, b'\n'));
    assert_eq!(broken(b"3 abc12345678901 abc"), error(10, b'1'));
    assert_eq!(broken(b"3 abc1234567890:"), error(10, b':'));
    let text = FramingError::OctetCount { digits: 2, found: b'x' }.to_string();
    assert!(text.contains("0x78 after 2 digits"), "{text}");
}

#[test]
fn lf_or_nul_ends_a_message_without_count() {
    let wanted = [message("<34>a"), message("<34>b"), message("<34>c\r"), message("<34>d")];
    let input: &[u8] = b"<34>a\n<34>b\r\n<34>c\r\0<34>d\0";
    assert_eq!(messages(&[input]), wanted);
    assert_eq!(messages(&input.chunks(1).collect::<Vec<_>>()), wanted);
}

#[test]
fn empty_messages_without_count_are_passed_over() {
    let input: &[u8] = b"<34>a\n\0<34>b\0\n\n\r\n<34>c\r\n\0\r\n";
    let wanted = [message("<34>a"), message("<34>b"), message("<34>c")];
    assert_eq!(messages(&[input]), wanted);
    assert_eq!(messages(&input.chunks(1).collect::<Vec<_>>()), wanted);
    assert_eq!(messages(&[b"\n<34>a\n"]), [message("<34>a")], "an empty line may come first");
}

#[test]
fn the_first_byte_decides_for_the_connection() {
    assert_eq!(messages(&[b"", b"<34>a\n5 abcde\n"]), [message("<34>a"), message("5 abcde")]);
    assert_eq!(messages(&[b"0 abc\n"]), [message("0 abc")]);
}

#[test]
fn a_connection_that_ends_early() {
    let keep = FramingRules { on_incomplete: OnIncomplete::Keep, ..rules(9) };
    let both = |input: &[u8]| (told(&rules(9), &[input]).0, told(&keep, &[input]).0);
    assert_eq!(both(b"<1>a"), (vec![Told::Incomplete(4)], vec![message("<1>a")]));
    assert_eq!(both(b"5 abc"), (vec![Told::Incomplete(3)], vec![message("abc")]));
    assert_eq!(both(b"5 "), (vec![Told::Incomplete(0)], vec![Told::Incomplete(0)]));
    assert_eq!(both(b"5"), (vec![Told::Incomplete(0)], vec![Told::Incomplete(0)]));
    assert_eq!(both(b"50 abc"), (vec![Told::Oversize(3)], vec![Told::Oversize(3)]));
    assert_eq!(both(b"3 abc\n"), (vec![message("abc")], vec![message("abc")]));
}

#[test]
fn a_hundred_thousand_of_them_are_small() {
    assert!(size_of::<Syslog>() <= 64, "{}", size_of::<Syslog>());
}

/// Frames as a sender would count them, sometimes wrongly, with what may stand between them.
fn counted_text() -> impl Strategy<Value = Vec<u8>> {
    let frame = (any_text(), -1i64..40, proptest::sample::select(vec!["", "", "\n", "\0", "\r\n"])).prop_map(
        |(mut text, error, between)| {
            text.truncate(30);
            text.push(b'.');
            // Most counts are right.
            let count = text.len() as i64 + if error > 1 { 0 } else { error };
            [format!("{count} ").as_bytes(), &text, between.as_bytes()].concat()
        },
    );
    proptest::collection::vec(frame, 1..8).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn pieces_do_not_change_the_messages(
        rules in any_rules(),
        input in prop_oneof![any_text(), counted_text()],
        sizes in proptest::collection::vec(0usize..20, 0..30),
    ) {
        let wanted = reference(&rules, &input);
        prop_assert_eq!(told(&rules, &[&input]), wanted.clone());
        prop_assert_eq!(told(&rules, &pieces(&input, &sizes)), wanted.clone());
        prop_assert_eq!(told(&rules, &input.chunks(1).collect::<Vec<_>>()), wanted);
    }
}
