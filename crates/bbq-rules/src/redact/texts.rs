//! All replacements, as they are applied to one text.

use super::growth::Growth;
use super::substitution::Substitution;

/// The replacements, in their order.
#[derive(Clone, Debug)]
pub(super) struct Texts(pub(super) Vec<Substitution>);

impl Texts {
    /// Appends a text with its matches replaced. Returns `false`, and appends nothing, if nothing matches.
    pub(super) fn apply(&self, text: &[u8], growth: &mut Growth, out: &mut Vec<u8>) -> bool {
        let from = out.len();
        let mut is_changed = false;
        // Allocated once, and only if two of them match.
        let mut next = Vec::new();
        for substitution in &self.0 {
            if !is_changed {
                is_changed = substitution.apply(text, growth, out);
                continue;
            }
            if substitution.apply(&out[from..], growth, &mut next) {
                out.truncate(from);
                out.append(&mut next);
            }
        }
        is_changed
    }
}
