//! The clock, read per batch.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970-01-01 UTC.
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Seconds since 1970-01-01 UTC.
pub fn unix_seconds() -> u64 {
    unix_ns() / 1_000_000_000
}
