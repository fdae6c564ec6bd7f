//! One message per connection. If these fail, such messages come in parts, or a reset one passes for whole.

#[expect(dead_code, reason = "shared with the other framing tests")]
mod common;

use bbq_wire::framing::{Frame, FramingRules, OnOversize, Whole};
use common::{Told, any_rules, any_text, ended, is_lent, message, pieces, rules};
use proptest::prelude::*;

/// The frames of a connection whose last piece comes with its end.
fn told(rules: &FramingRules, pieces: &[&[u8]]) -> Vec<Told> {
    let mut whole = Whole::new();
    let mut told = Vec::new();
    let (tail, front) = pieces.split_last().map_or((&[][..], pieces), |(tail, front)| (*tail, front));
    for piece in front {
        whole.push(rules, piece, &mut |frame| panic!("{frame:?} before the end"));
        assert!(whole.held_bytes() <= rules.message_bytes_max as usize + 1, "holds {}", whole.held_bytes());
    }
    whole.finish_with(rules, tail, &mut |frame| told.push(Told::from(frame)));
    assert_eq!(whole.held_bytes(), 0);
    told
}

#[test]
fn all_of_a_connection_is_one_message() {
    assert_eq!(told(&rules(20), &[b"one\n", b"", b"two\r\n", b""]), [message("one\ntwo\r\n")]);
}

#[test]
fn no_bytes_are_no_message() {
    assert_eq!(told(&rules(20), &[]), []);
    assert_eq!(told(&rules(20), &[b"", b""]), []);
}

#[test]
fn what_comes_with_the_end_is_not_copied() {
    let input = b"all at once";
    let mut lent = false;
    Whole::new().finish_with(&rules(20), input, &mut |frame| {
        lent = matches!(frame, Frame::Message(message) if is_lent(message, input));
    });
    assert!(lent);
}

#[test]
fn over_the_limit() {
    let cut = FramingRules { on_oversize: OnOversize::Cut, ..rules(3) };
    for pieces in [&[&b"abcdef"[..]][..], &[b"ab", b"cdef"], &[b"abcdef", b""], &[b"abc", b"def"]] {
        assert_eq!(told(&rules(3), pieces), [Told::Oversize(6)]);
        assert_eq!(told(&cut, pieces), [Told::Cut(b"abc".to_vec(), 3)]);
    }
    assert_eq!(told(&rules(3), &[b"ab", b"\r"]), [message("ab\r")]);
    assert_eq!(told(&rules(3), &[b"abc", b"\r"]), [Told::Oversize(4)], "a CR is content here");
}

#[test]
fn a_reset_connection_is_incomplete() {
    let aborted = |input: &[u8]| {
        let (mut whole, mut told) = (Whole::new(), Vec::new());
        whole.push(&rules(3), input, &mut |frame| panic!("{frame:?}"));
        whole.abort(&mut |frame| told.push(Told::from(frame)));
        assert_eq!(whole.held_bytes(), 0);
        told
    };
    assert_eq!(aborted(b"abc"), [Told::Incomplete(3)]);
    assert_eq!(aborted(b"abcdef"), [Told::Incomplete(6)]);
    assert_eq!(aborted(b""), []);
}

#[test]
fn a_hundred_thousand_of_them_are_small() {
    assert!(size_of::<Whole>() <= 64, "{}", size_of::<Whole>());
}

proptest! {
    #[test]
    fn pieces_do_not_change_the_message(
        rules in any_rules(), input in any_text(), sizes in proptest::collection::vec(0usize..20, 0..30),
    ) {
        let wanted: Vec<Told> = if input.is_empty() { vec![] } else { vec![ended(&rules, &input)] };
        prop_assert_eq!(told(&rules, &[&input]), wanted.clone());
        prop_assert_eq!(told(&rules, &pieces(&input, &sizes)), wanted);
    }
}
