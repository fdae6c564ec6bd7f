//! The parameters of the adaptive reconnect.

use std::time::Duration;

/// How often and how fast a sender connects again. When `attempts` attempts in a row have failed, there is one attempt less and the wait
/// doubles; each acknowledgement takes one step back. The current values are in bbq_progress.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Reconnect {
    /// This many attempts must fail in a row before the values change. At least 1.
    pub attempts: u32,
    /// The lowest number of attempts: 1 to `attempts`.
    pub attempts_min: u32,
    /// The wait between two attempts; half of it is random.
    pub wait_ms: u64,
    /// The longest wait.
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
