//! How many batches are on their way, and how large they are.
//!
//! A batch behind another on its way names the place where that one will be, which is another place if somebody else publishes to the
//! stream in between. Then it is refused, and sent again. So there are fewer then, and more again after many that went well.
//!
//! A batch that the server does not take in time would not be taken in time when it is sent again. So batches are half as large then, and
//! larger again when the server is quick. Where a batch ends is free: each says how far the stream is with it.

use std::io;
use std::time::Duration;

/// At 200 ms of round trip they are 100,000 messages a second, if messages are small enough for the window of the sink. The server has one
/// of them at a time that it did not commit: they come after each other.
pub(super) const BATCHES_MAX: usize = 24;
/// So many batches must go well before there is one more ..
const GOOD_MIN: u32 = 32;
/// .. and at most so many, after others got in between again and again.
const GOOD_MAX: u32 = 2048;
/// Bytes of a batch, unless one message is larger: in a cluster a batch is one proposal.
const BYTES_MAX: usize = 1024 * 1024;
/// So few get through to a cluster at 4 KB a second; in smaller batches, progress would cost as much as small messages.
const BYTES_MIN: usize = 16 * 1024;
/// A server is quick if it responds in this part of the time that it has: twice as much then takes half of the time at most.
const QUICK_PART: u32 = 4;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipeline {
    pub(super) batches: usize,
    /// Of a batch, unless one message is larger.
    pub(super) bytes: usize,
    good: u32,
    needed: u32,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        Pipeline { batches: BATCHES_MAX, bytes: BYTES_MAX, good: 0, needed: GOOD_MIN }
    }
}

impl Pipeline {
    /// For batches of so many bytes, if an earlier link of the sink has learned that.
    pub(super) fn of_bytes(learned: Option<usize>) -> Pipeline {
        let pipeline = Pipeline::default();
        Pipeline { bytes: learned.unwrap_or(pipeline.bytes), ..pipeline }
    }

    /// The stream has a batch.
    pub(super) fn committed(&mut self) {
        self.good = self.good.saturating_add(1);
        if self.good >= self.needed && self.batches < BATCHES_MAX {
            self.batches += 1;
            self.good = 0;
            self.needed = (self.needed / 2).max(GOOD_MIN);
        }
    }

    /// The server has taken so many bytes together after some of the time that it had. Few bytes say nothing of more.
    pub(super) fn taken(&mut self, bytes: usize, after: Duration, patience: Duration) {
        if bytes > self.bytes / 2 && after < patience / QUICK_PART {
            self.bytes = (self.bytes * 2).min(BYTES_MAX);
        }
    }

    /// The server does not let this user publish marks, as far as this link sees: a new one tries again.
    pub(super) fn forbidden(&mut self) {
        *self = Pipeline { batches: 1, good: 0, needed: u32::MAX, ..*self };
    }

    /// A batch was refused because of its place.
    pub(super) fn refused(&mut self) {
        if self.good < self.needed {
            self.needed = self.needed.saturating_mul(2).min(GOOD_MAX);
        }
        self.batches = (self.batches / 2).max(1);
        self.good = 0;
    }

    /// A connection ended with so many batches on their way, the largest of so many bytes.
    pub(super) fn ended_in_doubt(&mut self, error: &io::Error, batches: usize, bytes: usize) {
        if batches > 1 {
            // They may have been too many for the server.
            self.refused();
        }
        if error.kind() == io::ErrorKind::TimedOut {
            self.bytes = self.bytes.min((bytes / 2).max(BYTES_MIN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_in_the_stream_make_it_careful() {
        let mut pipeline = Pipeline::default();
        (0..4).for_each(|_| pipeline.refused());
        assert_eq!(pipeline.batches, 1);
        let mut needed = 0;
        while pipeline.batches == 1 {
            pipeline.committed();
            needed += 1;
        }
        assert_eq!(needed, 16 * GOOD_MIN);
        (0..BATCHES_MAX as u32 * GOOD_MAX).for_each(|_| pipeline.committed());
        assert_eq!(pipeline.batches, BATCHES_MAX);
    }

    #[test]
    fn batches_that_are_late_are_halved_and_grow_again_when_the_server_is_quick() {
        const PATIENCE: Duration = Duration::from_secs(5);
        let (quick, slow) = (Duration::from_secs(1), Duration::from_secs(2));
        let (late, other) =
            (io::Error::from(io::ErrorKind::TimedOut), io::Error::other("the connection ended"));
        let mut pipeline = Pipeline::default();
        pipeline.ended_in_doubt(&other, 2, BYTES_MAX);
        assert_eq!((pipeline.batches, pipeline.bytes), (BATCHES_MAX / 2, BYTES_MAX));
        pipeline.ended_in_doubt(&late, 1, BYTES_MAX);
        assert_eq!((pipeline.batches, pipeline.bytes), (BATCHES_MAX / 2, BYTES_MAX / 2));
        // What was late was full of messages, not of bytes.
        pipeline.ended_in_doubt(&late, 2, 200_000);
        assert_eq!((pipeline.batches, pipeline.bytes), (BATCHES_MAX / 4, 100_000));
        pipeline.taken(100_000, slow, PATIENCE);
        pipeline.taken(100, quick, PATIENCE);
        assert_eq!(pipeline.bytes, 100_000);
        pipeline.taken(100_000, quick, PATIENCE);
        assert_eq!(pipeline.bytes, 200_000);
        pipeline.forbidden();
        assert_eq!((pipeline.batches, pipeline.bytes), (1, 200_000));
        (0..20).for_each(|_| pipeline.ended_in_doubt(&late, 1, pipeline.bytes));
        assert_eq!(pipeline.bytes, BYTES_MIN);
        (0..20).for_each(|_| pipeline.taken(pipeline.bytes, quick, PATIENCE));
        assert_eq!(pipeline.bytes, BYTES_MAX);
    }
}
