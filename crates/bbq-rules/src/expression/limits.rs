//! Bounds of an expression.

/// How deep operators nest: more than anybody writes, and little of a stack.
pub(super) const DEPTH_MAX: u32 = 64;
/// Memory of a compiled pattern; some classes of Unicode such as `\w` fit.
pub(super) const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Memory of what was learnt of it, which makes it fast, for each thread.
pub(super) const PATTERN_CACHE_BYTES_MAX: usize = 1 << 20;
