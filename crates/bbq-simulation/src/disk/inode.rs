//! A file: the page cache, which programs read, and the disk, which is left after a power failure.
//!
//! Invariant: the two differ only in sectors that are dirty or abandoned. A sync writes dirty sectors. No sync writes abandoned
//! sectors: the sync that should have written them failed, and left their pages clean.
//!
//! After a failed sync, pages that the disk never had may be stuck, as on ext4 since Linux 6.15: what is written to the same cached
//! page later, and synced with success, does not reach the disk either. This ends when the page is dropped or cut off.

use std::collections::{BTreeMap, BTreeSet};

use super::pages::{PAGE, Pages, SECTOR};
use crate::random::Random;

const SECTORS_PER_PAGE: u64 = PAGE / SECTOR;

/// What happens to unsynced sectors at a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settling {
    /// Each sector is kept or lost by itself: torn and out of order.
    EachSector,
    /// Everything reached the disk in time.
    All,
    /// Nothing reached the disk.
    Nothing,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    live: Pages,
    live_bytes: u64,
    durable: Pages,
    durable_bytes: u64,
    dirty: BTreeSet<u64>,
    abandoned: BTreeSet<u64>,
    /// Pages of which no sync writes anything.
    stuck: BTreeSet<u64>,
    /// Allocated space.
    allocated: u64,
    /// Unreadable sectors, each with the number of reads that will fail.
    unreadable: BTreeMap<u64, u32>,
    /// Open handles.
    pub(super) opens: u32,
    /// The handle that holds the lock.
    pub(super) locked_by: Option<u64>,
    /// The time of the last write, on the wall clock.
    pub(super) modified_ns: u64,
}

impl Inode {
    pub(super) fn len(&self) -> u64 {
        self.live_bytes
    }

    /// The file's space on disk.
    pub(super) fn space(&self) -> u64 {
        self.live_bytes.max(self.allocated).next_multiple_of(PAGE)
    }

    /// The file's space on disk with this many bytes.
    pub(super) fn space_with(&self, bytes: u64) -> u64 {
        self.space().max(bytes.next_multiple_of(PAGE))
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let bytes = self.live_bytes.saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.live.read(offset, &mut buffer[..bytes]);
        bytes
    }

    /// Whether a sector of the range cannot be read now.
    pub(super) fn read_fails(&mut self, offset: u64, bytes: usize) -> bool {
        if self.unreadable.is_empty() {
            return false;
        }
        let sectors = sectors(offset, bytes as u64);
        let Some((sector, times)) = self.unreadable.range_mut(sectors).next() else { return false };
        let sector = *sector;
        *times = times.saturating_sub(1);
        if *times == 0 {
            self.unreadable.remove(&sector);
        }
        true
    }

    /// Makes a sector unreadable for `times` reads. An earlier temporary fault ends.
    pub(super) fn make_unreadable(&mut self, sector: u64, times: u32) {
        self.unreadable.retain(|_, times| *times > u32::MAX / 2);
        self.unreadable.insert(sector, times);
    }

    pub(super) fn set_unreadable(&mut self, offset: u64, bytes: u64) {
        self.unreadable = sectors(offset, bytes).map(|sector| (sector, u32::MAX)).collect();
    }

    pub(super) fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        offset + bytes.len() as u64 <= self.live_bytes && self.live.holds(offset, bytes)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.live.write(offset, bytes);
        self.live_bytes = self.live_bytes.max(offset + bytes.len() as u64);
        for sector in sectors(offset, bytes.len() as u64) {
            self.dirty.insert(sector);
            self.abandoned.remove(&sector);
            // The disk writes the sector to another place.
            self.unreadable.remove(&sector);
        }
    }

    pub(super) fn allocate(&mut self, bytes: u64) {
        self.allocated = self.allocated.max(bytes);
        self.live_bytes = self.live_bytes.max(bytes);
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        if bytes < self.live_bytes {
            self.live.cut(bytes);
            self.allocated = bytes;
            // If the file grows again, the new part reads as zeros, not as the bytes that the disk has there.
            let end = self.live_bytes.max(self.durable_bytes);
            let gone: Vec<u64> = self.durable.numbers().filter(|page| (page + 1) * PAGE > bytes).collect();
            for sector in gone.into_iter().flat_map(|page| sectors(page * PAGE, PAGE)) {
                if (sector + 1) * SECTOR > bytes && sector * SECTOR < end {
                    self.dirty.insert(sector);
                }
            }
            self.dirty.retain(|sector| sector * SECTOR < end);
            self.abandoned.retain(|sector| sector * SECTOR < bytes);
            self.stuck.retain(|page| page * PAGE < bytes);
        }
        self.live_bytes = bytes;
    }

    /// A sync that succeeds.
    pub(super) fn sync(&mut self) {
        let mut page = None;
        for sector in std::mem::take(&mut self.dirty) {
            let number = sector / SECTORS_PER_PAGE;
            if page == Some(number) {
                continue;
            }
            if self.stuck.contains(&number) {
                self.abandoned.insert(sector);
                continue;
            }
            let has_abandoned = self
                .abandoned
                .range(number * SECTORS_PER_PAGE..(number + 1) * SECTORS_PER_PAGE)
                .next()
                .is_some();
            if has_abandoned {
                self.durable.copy_sector(&self.live, sector);
            } else {
                self.durable.share_page(&self.live, number);
                page = Some(number);
            }
        }
        self.durable_bytes = self.live_bytes;
    }

    /// A failed sync: a part was written, and all pages are clean from now on.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        let settling = if random.one_in(2) { Settling::Nothing } else { Settling::EachSector };
        if random.one_in(2) {
            let new: BTreeSet<u64> = self.dirty.iter().map(|sector| sector / SECTORS_PER_PAGE).collect();
            // What was cut off has no pages.
            let new =
                new.into_iter().filter(|page| !self.durable.has(*page) && page * PAGE < self.live_bytes);
            self.stuck.extend(new.filter(|_| settling == Settling::Nothing || random.one_in(2)));
        }
        let lost = self.settle(settling, random);
        self.abandoned.extend(lost);
        if random.one_in(2) {
            self.durable_bytes = self.live_bytes;
        }
    }

    /// Dirty sectors reach the disk or do not; returns those that did not.
    fn settle(&mut self, settling: Settling, random: &mut Random) -> Vec<u64> {
        let mut lost = Vec::new();
        for sector in std::mem::take(&mut self.dirty) {
            let kept = match settling {
                _ if self.stuck.contains(&(sector / SECTORS_PER_PAGE)) => false,
                Settling::All => true,
                Settling::Nothing => false,
                Settling::EachSector => random.one_in(2),
            };
            if kept {
                self.durable.copy_sector(&self.live, sector);
            } else {
                lost.push(sector);
            }
        }
        lost
    }

    /// Power fails and comes back.
    pub(super) fn lose_power(&mut self, settling: Settling, random: &mut Random) {
        let _lost = self.settle(settling, random);
        if settling == Settling::All || (settling == Settling::EachSector && random.one_in(2)) {
            self.durable_bytes = self.live_bytes;
        }
        self.abandoned.clear();
        self.stuck.clear();
        self.durable.cut(self.durable_bytes);
        self.live = self.durable.clone();
        self.live_bytes = self.durable_bytes;
        self.allocated = self.allocated.min(self.durable_bytes);
        (self.opens, self.locked_by) = (0, None);
    }

    /// Drops clean pages, which are read from the disk again.
    pub(super) fn evict(&mut self) {
        let dirty: BTreeSet<u64> = self.dirty.iter().map(|sector| sector / SECTORS_PER_PAGE).collect();
        let durable = self.durable.clone();
        self.abandoned.retain(|sector| {
            let stays = dirty.contains(&(sector / SECTORS_PER_PAGE));
            if !stays {
                self.live.copy_sector(&durable, *sector);
            }
            stays
        });
        self.stuck.retain(|page| dirty.contains(page));
    }

    /// Flips a bit of a sector on the disk, and in the cache.
    pub(super) fn rot(&mut self, sector: u64, bit: u64) -> bool {
        let offset = sector * SECTOR + bit / 8 % SECTOR;
        if offset >= self.live_bytes || self.dirty.contains(&sector) || self.abandoned.contains(&sector) {
            return false;
        }
        let mut byte = [0];
        self.live.read(offset, &mut byte);
        byte[0] ^= 1 << (bit % 8);
        self.live.write(offset, &byte);
        self.durable.write(offset, &byte);
        true
    }
}

fn sectors(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    offset / SECTOR..(offset + bytes).div_ceil(SECTOR)
}
