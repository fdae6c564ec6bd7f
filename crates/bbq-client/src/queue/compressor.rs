//! Whether the next batch is compressed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use bbq_wire::Compression;

use crate::Compress;

/// This many batches are not compressed after one that hardly shrank.
const SKIPPED: u32 = 63;

#[derive(Debug)]
pub(crate) struct Compressor {
    wanted: Compress,
    /// Whether a server is on another machine: then bytes cost more than processor time.
    remote: AtomicBool,
    /// How many of the next batches are not compressed.
    skip: AtomicU32,
}

impl Compressor {
    pub(crate) fn new(wanted: Compress) -> Compressor {
        Compressor { wanted, remote: AtomicBool::new(false), skip: AtomicU32::new(0) }
    }

    pub(crate) fn connected(&self, remote: bool) {
        self.remote.store(remote, Ordering::Relaxed);
    }

    pub(crate) fn choose(&self) -> Compression {
        match self.wanted {
            Compress::Off => Compression::None,
            Compress::On => Compression::Lz4,
            Compress::Auto if !self.remote.load(Ordering::Relaxed) => Compression::None,
            Compress::Auto => {
                let skip = self.skip.load(Ordering::Relaxed);
                self.skip.store(skip.saturating_sub(1), Ordering::Relaxed);
                if skip == 0 { Compression::Lz4 } else { Compression::None }
            }
        }
    }

    /// Notes how much a batch has shrunk.
    pub(crate) fn outcome(&self, raw_bytes: usize, packed_bytes: usize) {
        if packed_bytes > raw_bytes / 5 * 4 {
            self.skip.store(SKIPPED, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_itself_it_compresses_for_other_machines_what_shrinks() {
        let compressor = Compressor::new(Compress::Auto);
        assert_eq!(compressor.choose(), Compression::None);
        compressor.connected(true);
        assert_eq!(compressor.choose(), Compression::Lz4);
        compressor.outcome(1000, 500);
        assert_eq!(compressor.choose(), Compression::Lz4);
        compressor.outcome(1000, 900);
        let tries = (0..=SKIPPED).filter(|_| compressor.choose() == Compression::Lz4).count();
        assert_eq!(tries, 1, "one in {}", SKIPPED + 1);
    }
}
