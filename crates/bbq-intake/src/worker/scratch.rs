//! Memory for the bodies of compressed batches, used by one batch after another.

use std::cell::RefCell;

use bbq_wire::Batch;
use bbq_wire::batch::{BatchError, BatchLimits};

/// Memory kept between batches: only a batch that is larger than usual needs more.
const BYTES_KEPT: usize = 512 * 1024;

/// The decompression buffer of one worker.
#[derive(Debug, Default)]
pub struct Scratch(RefCell<Vec<u8>>);

impl Scratch {
    /// Verifies a batch and passes it to `look`.
    pub(crate) fn verified<T>(
        &self,
        bytes: &[u8],
        limits: BatchLimits,
        look: impl FnOnce(&Batch<'_>) -> T,
    ) -> Result<T, BatchError> {
        let mut scratch = self.0.borrow_mut();
        let outcome = Batch::verify(bytes, limits, &mut scratch).map(|batch| look(&batch));
        if scratch.capacity() > BYTES_KEPT {
            *scratch = Vec::new();
        }
        outcome
    }
}
