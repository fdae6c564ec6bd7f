//! Which connections are accepted, and which are closed to make room.

pub(crate) mod eviction;
pub(crate) mod listener;
