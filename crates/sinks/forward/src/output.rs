//! The bytes that a link writes next: copied ones, then records of a large batch, which stay in the memory of their group, and then what
//! stands behind them.
//!
//! A batch of some size is so written without a copy of its records, and without a checksum over them: both would cost as much as the system
//! call.

use std::io::IoSlice;
use std::ops::Range;

/// A buffer that a large batch made larger than this is shrunk.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// See the module.
#[derive(Default)]
pub(super) struct Output {
    pub(super) copied: Vec<u8>,
    pub(super) in_place: Option<InPlace>,
    /// Empty without bytes in place.
    pub(super) tail: Vec<u8>,
    /// How many bytes are written. 0 <= sent <= len.
    sent: usize,
}

/// Bytes in the memory of a group.
pub(super) struct InPlace {
    /// Which group of the link it is.
    pub(super) group: u64,
    pub(super) place: Range<usize>,
}

impl Output {
    /// An output of these bytes.
    pub(super) fn of(copied: Vec<u8>) -> Output {
        Output { copied, ..Output::default() }
    }

    pub(super) fn len(&self) -> usize {
        let in_place = self.in_place.as_ref().map_or(0, |bytes| bytes.place.len());
        self.copied.len() + in_place + self.tail.len()
    }

    pub(super) fn sent(&self) -> usize {
        self.sent
    }

    /// Whether everything is written.
    pub(super) fn is_written(&self) -> bool {
        self.sent == self.len()
    }

    /// Notes that some bytes are written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        (self.in_place, self.sent) = (None, 0);
        for bytes in [&mut self.copied, &mut self.tail] {
            bytes.clear();
            bytes.shrink_to(KEPT_BYTES_MAX);
        }
    }

    /// The bytes to write, in their order. `in_place` are those in the memory of a group.
    pub(super) fn unsent<'a>(&'a self, in_place: &'a [u8]) -> [IoSlice<'a>; 3] {
        let mut skip = self.sent;
        [&self.copied, in_place, &self.tail].map(|bytes| {
            let skipped = skip.min(bytes.len());
            skip -= skipped;
            IoSlice::new(&bytes[skipped..])
        })
    }
}
