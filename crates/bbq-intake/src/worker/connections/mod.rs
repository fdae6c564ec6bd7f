//! What connections of all sources have in common: how many may be open, which are idle, and the set in which they wait.

pub(crate) mod budget;
pub(crate) mod idle;
pub(crate) mod open;
pub(crate) mod slots;
pub(crate) mod watched;
