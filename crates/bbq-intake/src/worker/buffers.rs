//! The buffers of a worker, and the memory of what is unfinished.

use std::cell::RefCell;

use super::limits::{IntakeLimits, READ_BYTES, SPARE_BUFFER_BYTES};
use super::memory_budget::MemoryBudget;
use super::scratch::Scratch;

/// Size of a buffer that is allocated while memory is scarce: still enough for a read that is worth its system call.
const SMALL_BUFFER_BYTES: usize = READ_BYTES / 4;

/// The buffers of a worker.
pub(crate) struct Buffers {
    pub(crate) limits: IntakeLimits,
    pub(crate) memory: MemoryBudget,
    /// For compressed bodies.
    pub(crate) scratch: Scratch,
    /// Text connections are read into this buffer.
    pub(super) buffer: RefCell<Box<[u8]>>,
    spare: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    pub(super) fn new(limits: IntakeLimits) -> Buffers {
        Buffers {
            limits,
            memory: MemoryBudget::new(limits.unfinished_bytes_max),
            scratch: Scratch::default(),
            buffer: RefCell::new(vec![0; READ_BYTES].into_boxed_slice()),
            spare: RefCell::default(),
        }
    }

    /// An empty buffer for unfinished batches.
    pub(crate) fn spare_buffer(&self) -> Vec<u8> {
        if self.memory.is_scarce() || self.limits.has_little_memory {
            return Vec::with_capacity(SMALL_BUFFER_BYTES);
        }
        self.spare.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(SPARE_BUFFER_BYTES))
    }

    /// Keeps a buffer as a spare if it has the usual size and a spare is missing.
    pub(crate) fn give_back(&self, mut buffer: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if buffer.capacity() == SPARE_BUFFER_BYTES && spare.len() < self.limits.spare_buffers_max {
            buffer.clear();
            spare.push(buffer);
        }
    }
}
