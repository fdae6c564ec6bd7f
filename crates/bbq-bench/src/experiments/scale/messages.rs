//! What is sent in every row.

pub(super) const MESSAGE_BYTES: usize = 100;
/// Messages of a batch: as the clients of a busy server have them, not as one that sends alone.
pub(super) const RECORDS: u32 = 100;
/// Batches on their way, of all connections together, or one each.
pub(super) const WINDOW: usize = 1_000;
