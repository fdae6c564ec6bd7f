//! The objects of a lane: the one that is filled, and the one that is being written.

use super::open_object::{CutObject, OpenObject};

/// See the module.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) open: Option<OpenObject>,
    /// Cut, and not in the store as far as is known.
    pub(super) cut: Option<CutObject>,
    /// A task writes `cut`.
    pub(super) is_writing: bool,
    /// An upload of the next object's name has failed, or was given up: the object may be in the store. Until the chain goes on.
    pub(super) is_repeated: bool,
    /// To be cut when the object before it is in the store.
    pub(super) is_due: bool,
}

impl Lane {
    /// Forgets all that was submitted. Returns whether something is left to know.
    pub(super) fn roll_back(&mut self) -> bool {
        let is_repeated = self.is_repeated || self.is_writing;
        *self = Lane { is_repeated, ..Lane::default() };
        is_repeated
    }

    pub(super) fn open_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, OpenObject::bytes)
    }

    pub(super) fn bytes(&self) -> usize {
        self.open_bytes() + self.cut.as_ref().map_or(0, |cut| cut.bytes.len())
    }

    pub(super) fn open_groups(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.groups.len())
    }
}
