//! The files that a reader knows, and the queue of those that may have something to read.

use std::collections::{HashMap, VecDeque};

use bbq_wire::StreamId;

use crate::identity::FileKey;
use crate::tracked::{Phase, Tracked};
use crate::watch::FileIndex;

/// Files by index, identity and stream. An index is used again when its file is removed.
#[derive(Default)]
pub(crate) struct Files {
    /// Boxed, as a list that grows has up to twice the room.
    slots: Vec<Option<Box<Tracked>>>,
    free: Vec<FileIndex>,
    by_key: HashMap<FileKey, FileIndex>,
    by_stream: HashMap<StreamId, FileIndex>,
    queue: VecDeque<FileIndex>,
}

impl Files {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn get(&mut self, index: FileIndex) -> Option<&mut Tracked> {
        self.slots.get_mut(index)?.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileIndex, &Tracked)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.as_deref()?)))
    }

    /// Whether the stream of a file is to be decided in its next turn.
    pub(crate) fn is_new(&self, index: FileIndex) -> bool {
        self.slots.get(index).and_then(Option::as_ref).is_some_and(|file| file.phase == Phase::New)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tracked> {
        self.slots.iter_mut().filter_map(Option::as_deref_mut)
    }

    pub(crate) fn indices(&self) -> Vec<FileIndex> {
        self.iter().map(|(index, _)| index).collect()
    }

    pub(crate) fn of_key(&self, key: FileKey) -> Option<FileIndex> {
        self.by_key.get(&key).copied()
    }

    pub(crate) fn of_stream(&self, stream: StreamId) -> Option<FileIndex> {
        self.by_stream.get(&stream).copied()
    }

    pub(crate) fn add(&mut self, file: Tracked) -> FileIndex {
        let key = file.key;
        let index = self.free.pop().unwrap_or(self.slots.len());
        let file = Some(Box::new(file));
        match self.slots.get_mut(index) {
            Some(slot) => *slot = file,
            None => self.slots.push(file),
        }
        self.by_key.insert(key, index);
        index
    }

    /// Notes which stream a file is.
    pub(crate) fn set_stream(&mut self, index: FileIndex, stream: StreamId) {
        self.by_stream.insert(stream, index);
    }

    /// Notes that a stream is no longer that of a file.
    pub(crate) fn end_stream(&mut self, stream: StreamId) {
        self.by_stream.remove(&stream);
    }

    pub(crate) fn remove(&mut self, index: FileIndex) -> Option<Box<Tracked>> {
        let file = self.slots.get_mut(index)?.take()?;
        self.free.push(index);
        if self.by_key.get(&file.key) == Some(&index) {
            self.by_key.remove(&file.key);
        }
        if self.by_stream.get(&file.stream) == Some(&index) {
            self.by_stream.remove(&file.stream);
        }
        self.queue.retain(|queued| *queued != index);
        Some(file)
    }

    /// Puts a file at the end of the queue, unless it is in it.
    pub(crate) fn enqueue(&mut self, index: FileIndex) {
        if let Some(file) = self.get(index)
            && !std::mem::replace(&mut file.is_queued, true)
        {
            self.queue.push_back(index);
        }
    }

    /// Puts a file at the front of the queue.
    pub(crate) fn enqueue_first(&mut self, index: FileIndex) {
        if let Some(file) = self.get(index) {
            if std::mem::replace(&mut file.is_queued, true) {
                self.queue.retain(|queued| *queued != index);
            }
            self.queue.push_front(index);
        }
    }

    /// Takes the file that has waited longest.
    pub(crate) fn dequeue(&mut self) -> Option<FileIndex> {
        let index = self.queue.pop_front()?;
        if let Some(file) = self.get(index) {
            file.is_queued = false;
        }
        Some(index)
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }
}
