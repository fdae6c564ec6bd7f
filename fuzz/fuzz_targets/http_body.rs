//! Any bytes are a compressed body, or are none; the same in any pieces, and no step of the decoder adds much. The first two bytes are the
//! coding and the size of the pieces.
#![no_main]

use bbq_intake::fuzzing::decoded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [coding, piece, bytes @ ..] = data else { return };
    let piece = usize::from(*piece).max(1);
    let whole = decoded(*coding, bytes, usize::MAX);
    assert_eq!(decoded(*coding, bytes, piece), whole);
});
