//! The parameters of the adaptive reconnect.

use std::time::Duration;

/// How often and how fast servers that do not answer are tried again. Each delivery that fails lowers the attempts by one and
/// doubles the wait, each success takes one step back. The present values are in bbq_progress.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Reconnect {
    /// Attempts that make a delivery: so many in a row must fail until the values change. At least 1.
    pub attempts: u32,
    /// The attempts never fall below. 1 to `attempts`.
    pub attempts_min: u32,
    /// The wait between two attempts; half of it is by chance.
    pub wait_ms: u64,
    /// The wait never grows beyond.
    pub wait_max_ms: u64,
}

impl Reconnect {
    pub(crate) fn to_client(self) -> bbq_client::Reconnect {
        bbq_client::Reconnect {
            attempts: self.attempts,
            attempts_min: self.attempts_min,
            wait: Duration::from_millis(self.wait_ms),
            wait_max: Duration::from_millis(self.wait_max_ms),
        }
    }

    pub(crate) fn from_client(reconnect: bbq_client::Reconnect) -> Reconnect {
        Reconnect {
            attempts: reconnect.attempts,
            attempts_min: reconnect.attempts_min,
            wait_ms: whole_ms(reconnect.wait),
            wait_max_ms: whole_ms(reconnect.wait_max),
        }
    }
}

pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
