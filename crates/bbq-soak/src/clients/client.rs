//! The interface of clients, and the data that they share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::book::Book;
use crate::random::Random;

/// The time-out. Anything that takes longer counts as hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The data that all clients share.
pub(crate) struct Field {
    /// The directory for spools and logs.
    pub(crate) directory: PathBuf,
    pub(crate) bbq: PathBuf,
    pub(crate) book: Book,
    pub(crate) stopping: AtomicBool,
    pub(crate) client_kills: AtomicU64,
    /// The most messages that a bbq client sends at a time.
    pub(crate) burst_max: u64,
    /// How often a client begins a round with a new spool, in per cent.
    pub(crate) renews_percent: u64,
    /// Whether the messages of a client with one server come out in order.
    pub(crate) keeps_order: AtomicBool,
}

impl Field {
    pub(crate) fn new(directory: PathBuf, bbq: PathBuf, burst_max: u64, renews_percent: u64) -> Field {
        Field {
            directory,
            bbq,
            book: Book::default(),
            stopping: AtomicBool::new(false),
            client_kills: AtomicU64::new(0),
            burst_max,
            renews_percent,
            keeps_order: AtomicBool::new(true),
        }
    }

    /// Whether the messages of a client with these servers come out in order: over two servers, they go two ways.
    pub(crate) fn keeps_order_over(&self, servers: &[String]) -> bool {
        servers.len() == 1 && self.keeps_order.load(Ordering::Acquire)
    }

    /// About how many messages a bbq client sends in a second: a burst after pauses of 20 ms, on average.
    pub(super) fn messages_per_second(&self) -> u64 {
        self.burst_max / 2 * 50
    }

    /// Whether a client begins with a new spool: then removes this one, in which everything is acknowledged.
    pub(super) fn renews(&self, spool: &Path, random: &mut Random) -> Result<bool, String> {
        let renews = spool.exists() && random.percent(self.renews_percent);
        if renews {
            std::fs::remove_dir_all(spool).map_err(|error| format!("{}: {error}", spool.display()))?;
        }
        Ok(renews)
    }

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

pub(super) fn owned(servers: &[&str]) -> Vec<String> {
    servers.iter().map(|server| (*server).to_owned()).collect()
}

/// Sleeps for a random time.
pub(crate) fn pause(random: &mut Random, milliseconds_max: u64) {
    std::thread::sleep(Duration::from_micros(random.below(milliseconds_max * 1000)));
}
