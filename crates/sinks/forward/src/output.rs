//! The bytes that a link writes next.

/// A buffer that a large batch made larger than this is shrunk.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// See the module.
#[derive(Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// How many of them are written. 0 <= sent <= bytes.len().
    sent: usize,
}

impl Output {
    /// An output of these bytes.
    pub(super) fn of(bytes: Vec<u8>) -> Output {
        Output { bytes, sent: 0 }
    }

    pub(super) fn sent(&self) -> usize {
        self.sent
    }

    pub(super) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Notes that some bytes are written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.sent = 0;
    }
}
