//! A mistake in an expression, and its place.

/// What is wrong with an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mistake {
    /// The byte at which it is.
    pub(super) at: usize,
    pub(super) problem: String,
}

impl Mistake {
    /// With line and column, which people count from 1.
    pub(super) fn shown(&self, text: &str) -> String {
        let before = text.get(..self.at).unwrap_or(text);
        let lines = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let line = if lines > 0 { format!("line {}, ", lines + 1) } else { String::new() };
        format!("{line}column {column}: {}", self.problem)
    }
}
