//! Any bytes are cut into the same messages in any pieces, and no more is held than the limit and one. The first three
//! bytes are the limit, the rules and the size of the pieces.
#![no_main]

use bbq_fuzz::same_in_any_pieces;
use bbq_wire::framing::{Frame, FramingRules, Syslog};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| same_in_any_pieces(data, told));

fn told(rules: &FramingRules, input: &[u8], piece: usize) -> Vec<String> {
    let (mut framer, mut told) = (Syslog::new(), Vec::new());
    let mut emit = |frame: Frame<'_>| told.push(format!("{frame:?}"));
    for input in input.chunks(piece) {
        framer.push(rules, input, &mut emit);
        assert!(framer.held_bytes() <= rules.message_bytes_max as usize + 1);
    }
    framer.finish(rules, &mut emit);
    assert_eq!(framer.held_bytes(), 0);
    told
}
