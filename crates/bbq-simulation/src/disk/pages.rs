//! The bytes of a file, page by page. A page that was never written has zeros and takes no memory.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit that a disk writes atomically.
pub(super) const SECTOR: u64 = 512;
/// The unit of the page cache.
pub(super) const PAGE: u64 = 4096;
const PAGE_BYTES: usize = PAGE as usize;

type Page = [u8; PAGE_BYTES];

/// Sparse contents without a length.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages(BTreeMap<u64, Arc<Page>>);

impl Pages {
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        each_page(offset, buffer.len(), |number, within, at| {
            let part = &mut buffer[at..at + within.len()];
            match self.0.get(&number) {
                Some(page) => part.copy_from_slice(&page[within]),
                None => part.fill(0),
            }
        });
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        each_page(offset, bytes.len(), |number, within, at| {
            let part = &bytes[at..at + within.len()];
            let page = self.0.entry(number).or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[within].copy_from_slice(part);
        });
    }

    /// Whether the contents have these bytes at `offset` already.
    pub(super) fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut there = vec![0; bytes.len()];
        self.read(offset, &mut there);
        there == bytes
    }

    /// Copies a sector from `other`.
    pub(super) fn copy_sector(&mut self, other: &Pages, sector: u64) {
        let mut bytes = [0; SECTOR as usize];
        other.read(sector * SECTOR, &mut bytes);
        if self.0.contains_key(&(sector * SECTOR / PAGE)) || bytes.iter().any(|byte| *byte != 0) {
            self.write(sector * SECTOR, &bytes);
        }
    }

    /// Shares a page of `other` without a copy.
    pub(super) fn share_page(&mut self, other: &Pages, number: u64) {
        match other.0.get(&number) {
            Some(page) => self.0.insert(number, Arc::clone(page)),
            None => self.0.remove(&number),
        };
    }

    /// Makes everything behind `bytes` zeros.
    pub(super) fn cut(&mut self, bytes: u64) {
        let within = bytes % PAGE;
        if within > 0
            && let Some(page) = self.0.get_mut(&(bytes / PAGE))
        {
            Arc::make_mut(page)[within as usize..].fill(0);
        }
        self.0.retain(|number, _| *number < bytes.div_ceil(PAGE));
    }

    /// Whether the page was ever written.
    pub(super) fn has(&self, number: u64) -> bool {
        self.0.contains_key(&number)
    }

    /// Numbers of the pages that were written.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }
}

/// Calls `each` for each page of a range: the number of the page, the range within the page, and the offset in the range.
fn each_page(offset: u64, bytes: usize, mut each: impl FnMut(u64, std::ops::Range<usize>, usize)) {
    let mut at = 0;
    while at < bytes {
        let position = offset + at as u64;
        let within = (position % PAGE) as usize;
        let part = (PAGE_BYTES - within).min(bytes - at);
        each(position / PAGE, within..within + part, at);
        at += part;
    }
}
