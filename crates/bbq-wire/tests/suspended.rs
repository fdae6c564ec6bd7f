//! If this fails, a connection that is handed to another process or taken over by a reload loses or garbles the message
//! that was half received.

#[expect(dead_code, reason = "this file uses a part of it")]
mod common;

use bbq_wire::framing::{
    Frame, FramingRules, Gelf, Lines, OnIncomplete, OnOversize, Suspended, Syslog, Whole,
};
use common::{Told, any_rules, any_text};
use proptest::prelude::*;

/// Frames of one connection, by a framer that changes hands before these bytes.
macro_rules! told {
    ($framer:ident, $rules:expr, $input:expr, $changes:expr) => {{
        let mut told = Vec::new();
        let mut framer = Some($framer::new());
        for (at, byte) in $input.iter().enumerate() {
            if $changes.contains(&at) {
                // None behind a broken count, where nothing is emitted any more.
                framer = framer.and_then(|framer| $framer::resume(framer.suspend()));
            }
            if let Some(framer) = &mut framer {
                let _ = framer.push($rules, &[*byte], &mut |frame| told.push(Told::from(frame)));
            }
        }
        if let Some(mut framer) = framer {
            framer.finish($rules, &mut |frame| told.push(Told::from(frame)));
        }
        told
    }};
}

#[test]
fn a_message_that_was_given_up_is_skipped_to_its_end_and_the_next_one_is_whole() {
    let rules = FramingRules {
        message_bytes_max: 100,
        on_oversize: OnOversize::Cut,
        on_incomplete: OnIncomplete::Keep,
    };
    macro_rules! told_after {
        ($framer:ident, $front:expr, $rest:expr) => {{
            let mut told = Vec::new();
            let mut framer = $framer::new();
            let _ = framer.push(&rules, $front, &mut |frame| told.push(Told::from(frame)));
            framer.give_up();
            assert_eq!(framer.held_bytes(), 0);
            let mut framer = $framer::resume(framer.suspend()).unwrap();
            let _ = framer.push(&rules, $rest, &mut |frame| told.push(Told::from(frame)));
            framer.finish(&rules, &mut |frame| told.push(Told::from(frame)));
            told
        }};
    }
    let expected = [Told::from(Frame::Message(b"one")), Told::from(Frame::Message(b"two"))];
    assert_eq!(told_after!(Lines, b"one\nabc", b"def\r\ntwo\n"), expected);
    assert_eq!(told_after!(Syslog, b"one\nabc", b"def\0two\n"), expected);
    assert_eq!(told_after!(Syslog, b"3 one6 abc", b"def3 two"), expected);
    assert_eq!(told_after!(Lines, b"one\nabc", b"def"), expected[..1]);
    assert_eq!(told_after!(Syslog, b"3 one6 abc", b"d"), expected[..1]);
    assert_eq!(told_after!(Whole, b"abc", b"def"), []);
    assert_eq!(told_after!(Lines, b"one\n", b"two\n"), expected, "nothing was unfinished");
}

proptest! {
    #[test]
    fn a_change_of_hands_changes_no_message(
        rules in any_rules(),
        input in any_text(),
        changes in proptest::collection::vec(0usize..60, 0..8),
    ) {
        prop_assert_eq!(told!(Lines, &rules, input, changes), told!(Lines, &rules, input, [0usize; 0]));
        prop_assert_eq!(told!(Whole, &rules, input, changes), told!(Whole, &rules, input, [0usize; 0]));
        prop_assert_eq!(told!(Gelf, &rules, input, changes), told!(Gelf, &rules, input, [0usize; 0]));
        let counted = [format!("{} ", input.len() + 1).as_bytes(), &input, b".", b"3 abc"].concat();
        for input in [&input, &counted] {
            prop_assert_eq!(told!(Syslog, &rules, input, changes), told!(Syslog, &rules, input, [0usize; 0]));
        }
    }
}

#[test]
fn what_no_framer_said_is_refused() {
    for (mode, digits, number) in [(2, 11, 1), (2, 1, u64::MAX), (3, 0, 0), (4, 1, 0), (9, 0, 0)] {
        let suspended = Suspended { mode, digits, number, ..Suspended::default() };
        assert!(Syslog::resume(suspended.clone()).is_none(), "{suspended:?}");
        assert!(Gelf::resume(suspended.clone()).is_none());
        assert!(Lines::resume(suspended).is_none());
    }
}
