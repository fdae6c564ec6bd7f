//! What a sender is to the soak, and what all senders share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::book::Book;
use crate::random::Random;
use crate::settings::Places;

/// Nothing takes longer unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What all clients share.
pub(crate) struct Field {
    pub(crate) places: Places,
    pub(crate) bbq: PathBuf,
    pub(crate) book: Book,
    pub(crate) stopping: AtomicBool,
    pub(crate) client_kills: AtomicU64,
}

impl Field {
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

/// One sender.
pub(crate) trait Client: Send {
    fn name(&self) -> String;

    /// Sends until the field stops, and then until nothing is left to wait for. `Err` says what was promised and did not
    /// happen.
    fn work(&mut self, field: &Field) -> Result<(), String>;
}

/// Lets the others have the processor.
pub(crate) fn pause(random: &mut Random, milliseconds_max: u64) {
    std::thread::sleep(Duration::from_micros(random.below(milliseconds_max * 1000)));
}
