//! Syslog over a connection (RFC 6587). If these fail, rsyslog, syslog-ng or Python's handler lose or merge messages, or
//! one sender's broken count makes garbage of more than its message.

mod common;

use bbq_wire::framing::{Frame, FramingRules, OnIncomplete, OnOversize, Syslog};
use common::{Told, any_rules, any_text, ended, is_lent, message, pieces, rules, unended};
use proptest::prelude::*;

/// All frames of a connection that comes in these pieces and then ends.
fn told(rules: &FramingRules, pieces: &[&[u8]]) -> Vec<Told> {
    let mut syslog = Syslog::new();
    let mut told = Vec::new();
    for piece in pieces {
        let before = told.len();
        syslog.push(rules, piece, &mut |frame| {
            if let Frame::Message(message) = frame {
                let copied = !is_lent(message, piece);
                assert!(!copied || told.len() == before, "only the first one may have begun earlier");
            }
            told.push(Told::from(frame));
        });
        assert!(syslog.held_bytes() <= rules.message_bytes_max as usize + 1, "holds {}", syslog.held_bytes());
    }
    syslog.finish(rules, &mut |frame| told.push(Told::from(frame)));
    assert_eq!(syslog.held_bytes(), 0);
    told
}

/// The messages, which do not depend on the pieces.
fn messages(input: &[u8]) -> Vec<Told> {
    let whole = told(&rules(1000), &[input]);
    assert_eq!(told(&rules(1000), &input.chunks(1).collect::<Vec<_>>()), whole);
    whole
}

/// What the framing is, on all of the input at once.
fn reference(rules: &FramingRules, input: &[u8]) -> Vec<Told> {
    let (mut told, mut rest) = (Vec::new(), input);
    let (mut is_behind_delimited, mut is_behind_counted) = (false, false);
    while let Some(first) = rest.first() {
        if is_behind_counted && matches!(first, b'\n' | b'\r' | 0) {
            rest = &rest[1..];
            continue;
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_number = (1..=10).contains(&digits) && *first != b'0';
        let is_count = match (rest.get(digits), rest.get(digits + 1)) {
            (Some(b' '), next) => !is_behind_delimited || next == Some(&b'<'),
            (None, _) => !is_behind_delimited,
            _ => false,
        };
        if !is_number || !is_count {
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | 0)).map_or(rest.len(), |at| at + 1);
            told.extend(delimited(rules, &rest[..end]));
            (rest, is_behind_delimited, is_behind_counted) = (&rest[end..], true, false);
            continue;
        }
        let count = std::str::from_utf8(&rest[..digits]).map_or(0, |text| text.parse::<u64>().unwrap_or(0));
        rest = rest.get(digits + 1..).unwrap_or_default();
        if (rest.len() as u64) < count {
            told.push(match rules.on_oversize {
                _ if rest.is_empty() => Told::Incomplete(0),
                OnOversize::Refuse if count > u64::from(rules.message_bytes_max) => {
                    Told::Oversize(rest.len() as u64)
                }
                _ => unended(rules, rest),
            });
            return told;
        }
        let (bytes, behind) = rest.split_at(count as usize);
        told.push(ended(rules, bytes));
        (rest, is_behind_delimited, is_behind_counted) = (behind, false, true);
    }
    told
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

#[test]
fn octet_counting() {
    let wanted = [message("<34>1 a\nb"), message("x"), message("<13>c\0")];
    assert_eq!(messages(b"9 <34>1 a\nb1 x6 <13>c\0"), wanted);
}

#[test]
fn trailers_between_counted_messages_are_passed_over() {
    assert_eq!(messages(b"3 abc\n3 def\r\n\x003 ghi\n"), [message("abc"), message("def"), message("ghi")]);
}

#[test]
fn a_count_over_the_limit_is_skipped_by_its_count() {
    let input: &[u8] = b"3 abc12 abcdef 3 ghi3 xyz";
    for pieces in [vec![input], input.chunks(1).collect()] {
        assert_eq!(told(&rules(3), &pieces), [message("abc"), Told::Oversize(12), message("xyz")]);
        let cut = FramingRules { on_oversize: OnOversize::Cut, ..rules(3) };
        let wanted = [message("abc"), Told::Cut(b"abc".to_vec(), 9), message("xyz")];
        assert_eq!(told(&cut, &pieces), wanted);
    }
}

#[test]
fn nothing_is_held_of_a_count_that_is_refused() {
    let mut syslog = Syslog::new();
    syslog.push(&rules(1000), b"9999999999 abc", &mut |frame| panic!("{frame:?}"));
    assert_eq!(syslog.held_bytes(), 0);
}

#[test]
fn a_count_reserves_no_memory() {
    let cut = FramingRules { on_oversize: OnOversize::Cut, ..rules(1_000_000) };
    let mut syslog = Syslog::new();
    syslog.push(&cut, b"1000000 abc", &mut |frame| panic!("{frame:?}"));
    assert_eq!(syslog.held_bytes(), 3);
}

#[test]
fn what_is_no_count_is_text() {
    for text in
        ["<34>1 x", "03 abc", " 3 abc", "3", "12345678901 abc", "1234567890:", "2026-10-11 22:14:15 host"]
    {
        let text_alone = message(text);
        assert_eq!(messages(format!("3 abc{text}\n").as_bytes()), [message("abc"), text_alone.clone()]);
        let [first, last] = ["<34>a", "<34>b"].map(message);
        assert_eq!(messages(format!("<34>a\n{text}\n<34>b\n").as_bytes()), [first, text_alone, last]);
    }
    assert_eq!(messages(b"2026-10-11 22:14:15 host\n"), [message("2026-10-11 22:14:15 host")]);
}

/// As relays pass them on.
#[test]
fn each_message_has_its_own_framing() {
    let all = ["<14>app: m1", "<14>app: m2", "<14>app: m3", "<14>app: m4"].map(message);
    assert_eq!(messages(b"11 <14>app: m1<14>app: m2\n11 <14>app: m3"), all[..3]);
    assert_eq!(messages(b"<14>app: m1\n11 <14>app: m211 <14>app: m3\n<14>app: m4\n"), all);
    // A count of characters, of which one has two bytes: the rest is a message, and the next ones are whole.
    let found = messages("12 <14>app: m1\u{fc}\n11 <14>app: m2\n11 <14>app: m3\n".as_bytes());
    assert_eq!((found.len(), &found[2..]), (4, &all[1..3]));
}

/// Of delimited messages nobody knows how they begin.
#[test]
fn behind_a_delimited_message_a_count_stands_in_front_of_a_priority() {
    assert_eq!(messages(b"<34>a\n5 abcde\n"), [message("<34>a"), message("5 abcde")]);
    assert_eq!(messages(b"<34>a\n5 <34>b5 <34>c\n"), [message("<34>a"), message("<34>b"), message("<34>c")]);
    assert_eq!(messages(b"0 abc\n"), [message("0 abc")]);
}

#[test]
fn lf_or_nul_ends_a_message_without_count() {
    let wanted = [message("<34>a"), message("<34>b"), message("<34>c\r"), message("<34>d")];
    let input: &[u8] = b"<34>a\n<34>b\r\n<34>c\r\0<34>d\0";
    assert_eq!(messages(input), wanted);
}

#[test]
fn empty_messages_without_count_are_passed_over() {
    let input: &[u8] = b"<34>a\n\0<34>b\0\n\n\r\n<34>c\r\n\0\r\n";
    let wanted = [message("<34>a"), message("<34>b"), message("<34>c")];
    assert_eq!(messages(input), wanted);
    assert_eq!(messages(b"\n<34>a\n"), [message("<34>a")], "an empty line may come first");
}

#[test]
fn a_connection_that_ends_early() {
    let keep = FramingRules { on_incomplete: OnIncomplete::Keep, ..rules(9) };
    let both = |input: &[u8]| (told(&rules(9), &[input]), told(&keep, &[input]));
    assert_eq!(both(b"<1>a"), (vec![Told::Incomplete(4)], vec![message("<1>a")]));
    assert_eq!(both(b"5 abc"), (vec![Told::Incomplete(3)], vec![message("abc")]));
    assert_eq!(both(b"5 "), (vec![Told::Incomplete(0)], vec![Told::Incomplete(0)]));
    assert_eq!(both(b"5"), (vec![Told::Incomplete(0)], vec![Told::Incomplete(0)]));
    assert_eq!(both(b"50 abc"), (vec![Told::Oversize(3)], vec![Told::Oversize(3)]));
    assert_eq!(both(b"3 abc\n"), (vec![message("abc")], vec![message("abc")]));
    assert_eq!(both(b"a\n12"), (vec![message("a"), Told::Incomplete(2)], vec![message("a"), message("12")]));
    assert_eq!(
        both(b"a\n12 "),
        (vec![message("a"), Told::Incomplete(3)], vec![message("a"), message("12 ")])
    );
}

#[test]
fn a_hundred_thousand_of_them_are_small() {
    assert!(size_of::<Syslog>() <= 64, "{}", size_of::<Syslog>());
}

/// Frames as a sender would count them, sometimes wrongly or not at all, with what may stand between them.
fn counted_text() -> impl Strategy<Value = Vec<u8>> {
    let frame = (any_text(), -1i64..40, proptest::sample::select(vec!["", "", "\n", "\0", "\r\n"])).prop_map(
        |(mut text, error, between)| {
            text.truncate(30);
            text.push(b'.');
            // Most counts are right.
            let priority: &[u8] = if error % 3 == 0 { b"<14>" } else { b"" };
            let text = [priority, &text].concat();
            let count = text.len() as i64 + if error > 1 { 0 } else { error };
            let count = if error > 30 { String::new() } else { format!("{count} ") };
            [count.as_bytes(), &text, between.as_bytes()].concat()
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
