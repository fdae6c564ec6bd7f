//! How many batches are on their way.
//!
//! A batch behind another on its way names the place where that one will be, which is another place if somebody else publishes to the
//! stream in between. Then it is refused, and sent again. So there are fewer then, and more again after many that went well.

/// At 200 ms of round trip they are 100,000 messages a second, if messages are small enough for the window of the sink. The server has one of them at a time that it did not commit: they come
/// after each other.
pub(super) const BATCHES_MAX: usize = 24;
/// So many batches must go well before there is one more ..
const GOOD_MIN: u32 = 32;
/// .. and at most so many, after others got in between again and again.
const GOOD_MAX: u32 = 2048;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipeline {
    pub(super) batches: usize,
    good: u32,
    needed: u32,
}

impl Default for Pipeline {
    fn default() -> Pipeline {
        Pipeline { batches: BATCHES_MAX, good: 0, needed: GOOD_MIN }
    }
}

impl Pipeline {
    /// The stream has a batch.
    pub(super) fn committed(&mut self) {
        self.good = self.good.saturating_add(1);
        if self.good >= self.needed && self.batches < BATCHES_MAX {
            self.batches += 1;
            self.good = 0;
            self.needed = (self.needed / 2).max(GOOD_MIN);
        }
    }

    /// The server does not let this user publish marks, as far as this link sees: a new one tries again.
    pub(super) fn forbidden(&mut self) {
        *self = Pipeline { batches: 1, good: 0, needed: u32::MAX };
    }

    /// A batch was refused because of its place.
    pub(super) fn refused(&mut self) {
        if self.good < self.needed {
            self.needed = self.needed.saturating_mul(2).min(GOOD_MAX);
        }
        self.batches = (self.batches / 2).max(1);
        self.good = 0;
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
}
