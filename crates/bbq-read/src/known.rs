//! Streams without a file that is open: entries of the catalog whose file has not been found yet, and files that were left.

use std::collections::HashMap;

use bbq_wire::StreamId;

use crate::catalog::Entry;
use crate::identity::FileKey;

/// Entries by inode and birth time. The device is not a part of the key, as its number can change with a restart of the machine.
#[derive(Default)]
pub(crate) struct Known {
    entries: HashMap<(u64, u64), Vec<Entry>>,
}

impl Known {
    pub(crate) fn add(&mut self, entry: Entry) {
        self.entries.entry((entry.key.inode, entry.key.birth_ns)).or_default().push(entry);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().flatten()
    }

    /// Takes the entries of the file with this identity. Without a birth time, the device has to be the same.
    pub(crate) fn take(&mut self, key: FileKey) -> Vec<Entry> {
        let Some(mut entries) = self.entries.remove(&(key.inode, key.birth_ns)) else { return Vec::new() };
        let has_device = entries.iter().any(|entry| entry.key.device == key.device);
        let taken = entries
            .extract_if(.., |entry| entry.key.device == key.device || (key.birth_ns != 0 && !has_device))
            .collect();
        if !entries.is_empty() {
            self.entries.insert((key.inode, key.birth_ns), entries);
        }
        taken
    }

    /// Removes the entry of a stream.
    pub(crate) fn remove(&mut self, stream: StreamId) {
        self.entries.retain(|_, entries| {
            entries.retain(|entry| entry.stream != stream);
            !entries.is_empty()
        });
    }

    /// Entries in the order of their streams, behind this one.
    pub(crate) fn page(&self, after: Option<StreamId>, entries_max: usize) -> Vec<Entry> {
        let is_behind = |entry: &&Entry| after.is_none_or(|after| entry.stream.0 > after.0);
        let mut entries: Vec<&Entry> = self.iter().filter(is_behind).collect();
        entries.sort_unstable_by_key(|entry| entry.stream.0);
        entries.into_iter().take(entries_max).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::identity::Prefix;

    fn entry(device: u64, birth_ns: u64, stream: u8) -> Entry {
        let key = FileKey { device, inode: 7, birth_ns };
        Entry {
            stream: StreamId([stream; 16]),
            key,
            prefix: Prefix::of(b"a"),
            start: 0,
            path: PathBuf::new(),
        }
    }

    fn taken(entries: &[Entry], device: u64, birth_ns: u64) -> Vec<u8> {
        let mut known = Known::default();
        entries.iter().cloned().for_each(|entry| known.add(entry));
        known.take(FileKey { device, inode: 7, birth_ns }).iter().map(|entry| entry.stream.0[0]).collect()
    }

    #[test]
    fn pages_have_each_entry_once() {
        let mut known = Known::default();
        (1..=7).rev().for_each(|stream| known.add(entry(1, stream.into(), stream)));
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = known.page(after, 3);
            after = page.get(2).map(|last| last.stream);
            seen.extend(page.iter().map(|entry| entry.stream.0[0]));
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_device_may_get_another_number_if_the_birth_time_says_that_it_is_the_file() {
        assert_eq!(taken(&[entry(1, 5, 1), entry(2, 5, 2)], 1, 5), [1]);
        assert_eq!(taken(&[entry(1, 5, 1)], 3, 5), [1]);
        assert_eq!(taken(&[entry(1, 5, 1)], 1, 6), [0; 0]);
        assert_eq!(taken(&[entry(1, 0, 1)], 1, 0), [1]);
        assert_eq!(taken(&[entry(1, 0, 1)], 3, 0), [0; 0]);
    }
}
