//! Blocks a worker when a client asks for it: to see what becomes of those who wait behind it.

use std::time::Duration;

/// A worker is blocked for no longer, whatever the client says.
const BLOCK_MS_MAX: u64 = 10_000;

/// Blocks the thread for as many milliseconds as `digits` say; not at all if they are no number.
pub(crate) fn block(digits: &[u8]) {
    let milliseconds = str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    if let Some(milliseconds) = milliseconds {
        #[expect(clippy::disallowed_methods, reason = "blocking the thread is what was asked for")]
        std::thread::sleep(Duration::from_millis(milliseconds.min(BLOCK_MS_MAX)));
    }
}
