//! The interface of clients, and the data that they share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::book::Book;
use crate::random::Random;
use crate::settings::Places;

/// The time-out. Anything that takes longer counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The data that all clients share.
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

    /// Sends until the field stops, and then waits for acknowledgements. An error is a broken promise.
    fn work(&mut self, field: &Field) -> Result<(), String>;
}

/// Sleeps for a random time.
pub(crate) fn pause(random: &mut Random, milliseconds_max: u64) {
    std::thread::sleep(Duration::from_micros(random.below(milliseconds_max * 1000)));
}
