//! Lines of a connection. If these fail, newline senders lose, merge or split messages, or one connection can hold more
//! memory than its limit.

mod common;

use bbq_wire::framing::{Frame, FramingRules, Lines, OnIncomplete, OnOversize};
use common::{Told, any_rules, any_text, ended, is_lent, message, pieces, rules, unended};
use proptest::prelude::*;

/// All frames of a connection that comes in these pieces and then ends.
fn told(rules: &FramingRules, pieces: &[&[u8]]) -> Vec<Told> {
    let mut lines = Lines::new();
    let mut told = Vec::new();
    for piece in pieces {
        let before = told.len();
        lines.push(rules, piece, &mut |frame| {
            if let Frame::Message(message) = frame {
                let copied = !is_lent(message, piece);
                assert!(!copied || told.len() == before, "only the first one may have begun earlier");
            }
            told.push(Told::from(frame));
        });
        assert!(lines.held_bytes() <= rules.message_bytes_max as usize + 1, "holds {}", lines.held_bytes());
        if piece.ends_with(b"\n") {
            assert_eq!(lines.held_bytes(), 0, "an idle connection holds nothing");
        }
    }
    lines.finish(rules, &mut |frame| told.push(Told::from(frame)));
    assert_eq!(lines.held_bytes(), 0);
    told
}

/// What lines are, on all of the input at once.
fn reference(rules: &FramingRules, input: &[u8]) -> Vec<Told> {
    let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    let rest = lines.pop().unwrap_or_default();
    let mut told: Vec<Told> =
        lines.iter().map(|line| ended(rules, line.strip_suffix(b"\r").unwrap_or(line))).collect();
    if !rest.is_empty() {
        told.push(unended(rules, rest));
    }
    told
}

#[test]
fn lf_ends_a_message_and_one_cr_before_it_is_dropped() {
    let input = b"one\ntwo\r\nthree\r\r\n\n\r\nfo\rur\n\0\xff\n";
    let wanted: [&[u8]; 7] = [b"one", b"two", b"three\r", b"", b"", b"fo\rur", b"\0\xff"];
    assert_eq!(told(&rules(100), &[input]), wanted.map(message));
}

#[test]
fn a_cr_and_its_lf_may_come_apart() {
    assert_eq!(told(&rules(3), &[b"abc\r", b"\nx", b"\r", b"", b"\n"]), [message("abc"), message("x")]);
}

#[test]
fn a_line_over_the_limit_costs_only_itself() {
    let input: &[u8] = b"abc\nabcdef\r\nabc\n";
    for pieces in [vec![input], input.chunks(1).collect()] {
        assert_eq!(told(&rules(3), &pieces), [message("abc"), Told::Oversize(6), message("abc")]);
        let cut = FramingRules { on_oversize: OnOversize::Cut, ..rules(3) };
        assert_eq!(told(&cut, &pieces), [message("abc"), Told::Cut(b"abc".to_vec(), 3), message("abc")]);
    }
}

#[test]
fn the_limit_is_the_messages_not_the_lines() {
    assert_eq!(told(&rules(3), &[b"abc\r\n"]), [message("abc")]);
    assert_eq!(told(&rules(3), &[b"ab", b"c", b"\r", b"\n"]), [message("abc")]);
    assert_eq!(told(&rules(3), &[b"ab", b"c", b"d", b"\n"]), [Told::Oversize(4)]);
}

#[test]
fn the_last_line_without_lf() {
    let keep = FramingRules { on_incomplete: OnIncomplete::Keep, ..rules(9) };
    assert_eq!(told(&rules(9), &[b"one\ntwo"]), [message("one"), Told::Incomplete(3)]);
    assert_eq!(told(&keep, &[b"one\ntwo\r"]), [message("one"), message("two\r")]);
    assert_eq!(told(&keep, &[b"one\n"]), [message("one")]);
    assert_eq!(told(&keep, &[]), []);
}

#[test]
fn an_endless_line_is_let_go() {
    let mut lines = Lines::new();
    let rules = rules(1000);
    for _ in 0..100 {
        lines.push(&rules, &[b'x'; 600], &mut |frame| panic!("{frame:?}"));
        assert!(lines.held_bytes() <= 1001);
    }
    assert_eq!(lines.held_bytes(), 0, "a refused line is not held");
    let mut told = Vec::new();
    lines.finish(&rules, &mut |frame| told.push(Told::from(frame)));
    assert_eq!(told, [Told::Oversize(60_000)]);
}

#[test]
fn rules_may_change_under_an_open_line() {
    let cut = |max| FramingRules { on_oversize: OnOversize::Cut, ..rules(max) };
    let after = |steps: &[(FramingRules, &[u8])]| {
        let (mut lines, mut told) = (Lines::new(), Vec::new());
        for (rules, input) in steps {
            lines.push(rules, input, &mut |frame| told.push(Told::from(frame)));
        }
        told
    };
    assert_eq!(after(&[(rules(9), b"abcdef"), (rules(3), b"\n")]), [Told::Oversize(6)]);
    assert_eq!(after(&[(rules(9), b"abcdef"), (cut(3), b"gh\n")]), [Told::Cut(b"abc".to_vec(), 5)]);
    assert_eq!(after(&[(rules(3), b"abcdef"), (cut(3), b"gh\n")]), [Told::Oversize(8)]);
    assert_eq!(after(&[(cut(3), b"abcdef"), (cut(99), b"gh\n")]), [Told::Cut(b"abcd".to_vec(), 4)]);
    assert_eq!(after(&[(cut(3), b"abcdef"), (rules(3), b"gh\n")]), [Told::Oversize(8)]);
}

#[test]
fn a_hundred_thousand_of_them_are_small() {
    assert!(size_of::<Lines>() <= 64, "{}", size_of::<Lines>());
}

proptest! {
    #[test]
    fn pieces_do_not_change_the_lines(
        rules in any_rules(), input in any_text(), sizes in proptest::collection::vec(0usize..20, 0..30),
    ) {
        let wanted = reference(&rules, &input);
        prop_assert_eq!(told(&rules, &[&input]), wanted.clone());
        prop_assert_eq!(told(&rules, &pieces(&input, &sizes)), wanted.clone());
        prop_assert_eq!(told(&rules, &input.chunks(1).collect::<Vec<_>>()), wanted);
    }
}
