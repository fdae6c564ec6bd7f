//! How much longer a record may get.

/// How long a record may become: less than the limits of listeners allow by default, so that the next server takes it.
pub(super) const GROWN_BYTES_MAX: usize = 64 * 1024;

/// How many bytes more a record may get.
pub(super) struct Growth(usize);

impl Growth {
    /// For a record of so many bytes.
    pub(super) fn of(record_bytes: usize) -> Growth {
        Growth(GROWN_BYTES_MAX.saturating_sub(record_bytes))
    }

    /// Whether so many bytes may become so many. Bytes that are saved can be used later.
    pub(super) fn allows(&mut self, before: usize, after: usize) -> bool {
        let room = self.0.saturating_add(before);
        let is_allowed = after <= room;
        self.0 = if is_allowed { room - after } else { room };
        is_allowed
    }
}
