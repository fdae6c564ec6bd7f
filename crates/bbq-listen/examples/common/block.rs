//! Blocks a worker when a client requests it, to show what happens to the connections behind it.

use std::time::Duration;

/// The longest block.
const BLOCK_MS_MAX: u64 = 10_000;

/// Blocks the thread for `digits` milliseconds; not at all if they are no number.
pub(crate) fn block(digits: &[u8]) {
    let milliseconds = str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    if let Some(milliseconds) = milliseconds {
        #[expect(clippy::disallowed_methods, reason = "blocking the thread is what was asked for")]
        std::thread::sleep(Duration::from_millis(milliseconds.min(BLOCK_MS_MAX)));
    }
}
