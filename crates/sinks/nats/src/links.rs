//! What makes the links of a sink.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{Doubts, Links, PendingGroup, Resolver, Settled};
use bbq_spool::LanePlace;
use tokio::sync::mpsc::{Receiver, Sender};

use super::link::NatsLink;
use super::settings::NatsSettings;
use super::shared::{Remembered, Shared};

/// See the module.
pub(super) struct NatsLinks {
    target: Arc<NatsSettings>,
    resolver: Resolver,
    shared: Arc<Shared>,
}

impl NatsLinks {
    pub(super) fn new(target: Arc<NatsSettings>, remembered: Remembered) -> io::Result<NatsLinks> {
        let shared = Arc::new(Shared::new(remembered, target.encoding.format_word())?);
        Ok(NatsLinks { target, resolver: Resolver::start()?, shared })
    }
}

impl Links for NatsLinks {
    /// Several batches when groups are small.
    const GROUPS_MAX: usize = 2048;
    /// Several batches; a lane's largest group may be added to it.
    const BYTES_MAX: usize = 8 * 1024 * 1024;
    /// A stream that is missing is to be told at once, and what the server lost is to be noticed while it is still here.
    const IS_EAGER: bool = true;

    type Link = NatsLink;

    fn link(&self, groups: Receiver<PendingGroup>, settled: Sender<Settled>) -> NatsLink {
        let (target, shared) = (Arc::clone(&self.target), Arc::clone(&self.shared));
        NatsLink::new(target, self.resolver.clone(), shared, groups, settled)
    }

    fn state(&self) -> String {
        self.shared.text()
    }

    /// A server without atomic batches does not say what it has, and would get everything again. One that is away may come back with
    /// less.
    fn keep(&self) -> Duration {
        if self.shared.is_windowed() || self.target.keep.is_zero() {
            Duration::ZERO
        } else if self.shared.is_connected() {
            self.target.keep
        } else {
            Duration::MAX
        }
    }

    fn doubts(&self) -> Option<&Doubts> {
        Some(&self.shared.doubts)
    }

    fn conflict(&self) -> Option<String> {
        Some(format!("{}: {}", self.target.shown, bbq_sink::CONFLICT))
    }

    fn handed_over(&self, until: LanePlace) {
        self.shared.hand_over(until);
    }

    fn committed(&self, places: &[LanePlace]) {
        self.shared.commit(places);
    }

    fn rolled_back(&self) {
        self.shared.roll_back();
    }
}
