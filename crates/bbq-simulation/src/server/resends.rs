//! The thread of a sink while it sends dead letters again: its time, what the server has in mind, and kills.

use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{Meantime, Now, SinkDriver};

use crate::disk::{Cut, SimDisk};
use crate::random::Random;
use crate::receiver::Receiver;

/// How long a step takes the sink.
const STEP: Duration = Duration::from_millis(1);
/// Steps after which the server has other plans at the latest. The longest time-out takes as many.
const STEPS_MAX: u64 = 20_000;
/// The server ends or has other plans once in so many steps.
const ONE_IN_STEPS_MAX: u64 = 200;

/// See the module.
pub(super) struct Resends {
    begun: Now,
    receiver: Arc<Receiver>,
    disk: SimDisk,
    /// Steps until the server ends, or has other plans.
    left: u64,
    cut: Option<Cut>,
}

impl Resends {
    pub(super) fn new(begun: Now, receiver: Arc<Receiver>, disk: SimDisk, mut draws: Random) -> Resends {
        let left = if draws.one_in(3) { draws.between(1, ONE_IN_STEPS_MAX) } else { STEPS_MAX };
        let cut = match draws.below(3) {
            0 if left < STEPS_MAX => Some(Cut::Kill),
            1 if left < STEPS_MAX => Some(Cut::Power),
            _ => None,
        };
        Resends { begun, receiver, disk, left, cut }
    }
}

impl Meantime for Resends {
    fn now(&self) -> Now {
        self.receiver.pass(STEP);
        Now { monotonic: self.receiver.present(), ..self.begun }
    }

    fn goes_on(&self) -> bool {
        self.left > 0
    }

    fn wait(&mut self, _: &mut SinkDriver, patience: Duration) {
        self.receiver.pass(patience);
        self.left = self.left.saturating_sub(1);
        if let (0, Some(cut)) = (self.left, self.cut) {
            self.disk.cut(cut);
        }
    }
}
