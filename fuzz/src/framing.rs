//! What every framer promises.

use bbq_wire::framing::{FramingRules, OnIncomplete, OnOversize};

/// The first three bytes of `data` are the limit, the rules and the size of the pieces. `told` cuts the rest into messages, piece
/// by piece, and says which; it must say the same in any pieces.
pub fn same_in_any_pieces(data: &[u8], told: impl Fn(&FramingRules, &[u8], usize) -> Vec<String>) {
    let [limit, choices, piece, input @ ..] = data else { return };
    let rules = FramingRules {
        message_bytes_max: u32::from(*limit),
        on_oversize: if choices & 1 == 0 { OnOversize::Refuse } else { OnOversize::Cut },
        on_incomplete: if choices & 2 == 0 { OnIncomplete::Drop } else { OnIncomplete::Keep },
    };
    assert_eq!(told(&rules, input, usize::from(*piece).max(1)), told(&rules, input, usize::MAX));
}
