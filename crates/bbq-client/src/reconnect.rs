//! How often and how fast a sender connects again: seed 002's adaptive reconnect. Attempts on a flooded server become fewer until it
//! recovers, and its clients do not all return at once.
//!
//! ```text
//! attempts 5, wait 20 ms --5 failed--> 4, 40 ms --4--> 3, 80 ms --3--> 2, 160 ms --2--> 1, 320 ms --1--> 1, 640 ms ...
//!                        <--- each acknowledgement takes one step back, down to the set values ---
//! ```
//!
//! Invariant: no clock and no randomness of the system: the same seed gives the same waits, so tests run in virtual time.

use std::time::Duration;

/// The set values, at which the current ones begin. When `attempts` attempts in a row have failed, there is one attempt less and the wait
/// doubles; each acknowledgement takes one step back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// This many attempts must fail in a row before the values change. At least 1.
    pub attempts: u32,
    /// The lowest number of attempts: 1 to `attempts`.
    pub attempts_min: u32,
    /// The wait between two attempts; half of it is random.
    pub wait: Duration,
    /// The longest wait.
    pub wait_max: Duration,
}

impl Default for Reconnect {
    /// A server that restarts is found again within 50 ms of its return, a server that was down for long within a second.
    fn default() -> Reconnect {
        Reconnect {
            attempts: 5,
            attempts_min: 1,
            wait: Duration::from_millis(20),
            wait_max: Duration::from_secs(1),
        }
    }
}

/// Parameters that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReconnectError {
    /// Attempts out of order.
    #[error(
        "reconnect attempts {attempts} with a minimum of {attempts_min}: use a minimum from 1 to the attempts"
    )]
    Attempts {
        /// The set attempts.
        attempts: u32,
        /// Their set minimum.
        attempts_min: u32,
    },
    /// Waits out of order, or none at all.
    #[error(
        "reconnect wait {wait:?} with a maximum of {wait_max:?}: use a wait from 1 ms to the maximum, which is 1 h at most"
    )]
    Wait {
        /// The set wait.
        wait: Duration,
        /// Its set maximum.
        wait_max: Duration,
    },
}

/// A client without a wait would itself flood the server.
const WAIT_LEAST: Duration = Duration::from_millis(1);
/// A longer wait is probably in the wrong unit.
const WAIT_MOST: Duration = Duration::from_secs(3600);

impl Reconnect {
    pub(crate) fn check(&self) -> Result<(), ReconnectError> {
        let Reconnect { attempts, attempts_min, wait, wait_max } = *self;
        if attempts_min == 0 || attempts_min > attempts {
            return Err(ReconnectError::Attempts { attempts, attempts_min });
        }
        if wait < WAIT_LEAST || wait > wait_max || wait_max > WAIT_MOST {
            return Err(ReconnectError::Wait { wait, wait_max });
        }
        Ok(())
    }
}

/// The current values, between the set values and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReconnectNow {
    /// This many attempts must fail in a row before the values change.
    pub attempts: u32,
    /// The wait between two attempts.
    pub wait: Duration,
}

/// The set values and the current ones.
#[derive(Debug)]
pub struct AdaptiveReconnect {
    set: Reconnect,
    now: ReconnectNow,
    /// Failed attempts since the last change; < `now.attempts`.
    failed: u32,
    /// State of a xorshift generator; never 0.
    random: u64,
}

impl AdaptiveReconnect {
    /// Begins at the set values, which must be valid. Each client has its own `seed`.
    #[must_use]
    pub fn new(set: Reconnect, seed: u64) -> AdaptiveReconnect {
        let now = ReconnectNow { attempts: set.attempts, wait: set.wait };
        AdaptiveReconnect { set, now, failed: 0, random: seed | 1 }
    }

    /// The set values.
    #[must_use]
    pub fn set(&self) -> Reconnect {
        self.set
    }

    /// The current values.
    #[must_use]
    pub fn now(&self) -> ReconnectNow {
        self.now
    }

    /// Changes the set values; the current values are clamped to them.
    pub fn change(&mut self, set: Reconnect) {
        self.set = set;
        self.now.attempts = self.now.attempts.clamp(set.attempts_min, set.attempts);
        self.now.wait = self.now.wait.clamp(set.wait, set.wait_max);
        self.failed = 0;
    }

    /// An attempt has failed. Returns how long to wait before the next: half to all of the current wait.
    pub fn failed(&mut self) -> Duration {
        self.failed += 1;
        if self.failed >= self.now.attempts {
            self.failed = 0;
            self.now.attempts = self.now.attempts.saturating_sub(1).max(self.set.attempts_min);
            self.now.wait = self.now.wait.saturating_mul(2).min(self.set.wait_max);
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let half = self.now.wait / 2;
        half + half.mul_f64((self.random % 1024) as f64 / 1024.0)
    }

    /// An acknowledgement: one step back.
    pub fn delivered(&mut self) {
        self.failed = 0;
        self.now.attempts = self.now.attempts.saturating_add(1).min(self.set.attempts);
        self.now.wait = (self.now.wait / 2).max(self.set.wait);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_drawing_above() {
        let mut reconnect = AdaptiveReconnect::new(Reconnect::default(), 7);
        let mut steps = vec![reconnect.now()];
        for _ in 0..100 {
            reconnect.failed();
            if steps.last() != Some(&reconnect.now()) {
                steps.push(reconnect.now());
            }
        }
        let drawn: Vec<(u32, u128)> = steps.iter().map(|now| (now.attempts, now.wait.as_millis())).collect();
        assert_eq!(drawn, [(5, 20), (4, 40), (3, 80), (2, 160), (1, 320), (1, 640), (1, 1000)]);
    }

    #[test]
    fn contradictions_are_refused() {
        let good = Reconnect::default();
        good.check().unwrap();
        for bad in [
            Reconnect { attempts: 0, attempts_min: 0, ..good },
            Reconnect { attempts_min: 6, ..good },
            Reconnect { wait: Duration::ZERO, ..good },
            Reconnect { wait_max: Duration::from_millis(1), ..good },
            Reconnect { wait_max: Duration::from_secs(86_400), ..good },
        ] {
            bad.check().unwrap_err();
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Failed,
        Delivered,
        Changed(u32, u64),
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            4 => Just(Event::Failed),
            2 => Just(Event::Delivered),
            1 => (1_u32..9, 1_u64..500).prop_map(|(attempts, wait)| Event::Changed(attempts, wait)),
        ];
        proptest::collection::vec(event, 1..200)
    }

    proptest! {
        /// The current values stay within the set ones, waits are between half and all of the current wait, and as many
        /// acknowledgements as failures bring the set values back.
        #[test]
        fn stays_within_its_parameters_and_comes_back(events in events(), seed in any::<u64>()) {
            let mut reconnect = AdaptiveReconnect::new(Reconnect::default(), seed);
            for event in &events {
                match *event {
                    Event::Failed => {
                        let before = reconnect.now();
                        let wait = reconnect.failed();
                        let now = reconnect.now();
                        prop_assert!(now.attempts <= before.attempts && now.wait >= before.wait);
                        prop_assert!(wait >= now.wait / 2 && wait <= now.wait);
                    }
                    Event::Delivered => {
                        let before = reconnect.now();
                        reconnect.delivered();
                        let now = reconnect.now();
                        prop_assert!(now.attempts >= before.attempts && now.wait <= before.wait);
                    }
                    Event::Changed(attempts, wait) => {
                        let wait = Duration::from_millis(wait);
                        reconnect.change(Reconnect { attempts, attempts_min: 1, wait, wait_max: wait * 8 });
                    }
                }
                let (set, now) = (reconnect.set(), reconnect.now());
                prop_assert!((set.attempts_min..=set.attempts).contains(&now.attempts));
                prop_assert!((set.wait..=set.wait_max).contains(&now.wait));
            }
            for _ in 0..events.len() + 16 {
                reconnect.delivered();
            }
            let (set, now) = (reconnect.set(), reconnect.now());
            prop_assert_eq!(now, ReconnectNow { attempts: set.attempts, wait: set.wait });
        }

        /// A thousand clients of a server that is down for a minute: in the last ten seconds each connects at most twice a second,
        /// and at most a twentieth of them in the same 10 ms.
        #[test]
        fn a_flooded_server_is_left_alone(seed in any::<u64>()) {
            const CLIENTS: u64 = 1000;
            let mut asked = vec![0_u32; 6000];
            for client in 0..CLIENTS {
                let mut reconnect =
                    AdaptiveReconnect::new(Reconnect::default(), seed.wrapping_add(client.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
                let mut now = Duration::ZERO;
                while let Some(count) = asked.get_mut((now.as_millis() / 10) as usize) {
                    *count += 1;
                    now += reconnect.failed();
                }
            }
            let late = &asked[5000..];
            prop_assert!(late.iter().sum::<u32>() <= 2 * 10 * CLIENTS as u32);
            prop_assert!(late.iter().all(|&count| u64::from(count) <= CLIENTS / 20), "{:?}", late.iter().max());
        }
    }
}
