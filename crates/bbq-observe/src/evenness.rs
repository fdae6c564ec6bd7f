//! Whether the workers get even shares of a listener's connections: counted, judged in windows of time, and logged when the
//! result changes.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bbq_intake::ListenSpec;
use bbq_listen::{Distribution, Evenness, Steering};
use tracing::{info, warn};

use crate::status::EvennessStatus;

/// The least length of a window, so that a burst of one client changes little.
const WINDOW: Duration = Duration::from_secs(10);
/// The least number of connections in a window: fewer prove nothing.
const CONNECTIONS_MIN: u64 = 200;
/// Shares are uneven below this probability. With 8,640 windows a day, chance alone causes one such window in a hundred days.
const UNEVEN_P: f64 = 1e-6;
/// Shares count as even again only well above that probability, so that the log does not alternate.
const EVEN_P: f64 = 1e-3;
/// Shares are uneven if the largest is over this many times the mean: with very many connections the test finds harmless differences.
const UNEVEN_FACTOR: f64 = 1.25;

/// Judges the shares of one listener.
#[derive(Debug)]
pub(crate) struct EvennessWatch(Mutex<Windows>);

#[derive(Debug)]
struct Windows {
    began: Instant,
    /// The shares when the current window began.
    before: Vec<u64>,
    last: Option<EvennessStatus>,
}

/// What a complete window has changed.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Uneven,
    EvenAgain,
}

impl EvennessWatch {
    /// Begins a window; `taken` is what each worker has taken so far.
    pub(crate) fn new(taken: Vec<u64>) -> EvennessWatch {
        EvennessWatch(Mutex::new(Windows { began: Instant::now(), before: taken, last: None }))
    }

    /// Closes the window if it is complete. To be called about once a second.
    pub(crate) fn check(&self, spec: &ListenSpec, distribution: Distribution, taken: Vec<u64>) {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let change = windows
            .check(taken, Instant::now())
            .filter(|_| is_meant_to_be_even(distribution, &spec.steering));
        let listener = &spec.source;
        let Some(last) = windows.last.as_ref() else { return };
        let (connections, smallest, largest) = (last.connections, last.smallest, last.largest);
        match change {
            Some(Change::Uneven) => warn!(
                listener,
                %distribution,
                connections,
                smallest,
                largest,
                p = last.p,
                "the workers' shares of the connections are uneven, and not by chance"
            ),
            Some(Change::EvenAgain) => {
                info!(listener, %distribution, connections, smallest, largest, "the workers' shares are even again");
            }
            None => {}
        }
    }

    /// Begins the window anew: something else than the distribution decided who got what.
    pub(crate) fn begin_again(&self, taken: Vec<u64>) {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *windows = Windows { began: Instant::now(), before: taken, last: None };
    }

    /// The last complete window.
    pub(crate) fn last(&self) -> Option<EvennessStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).last.clone()
    }
}

impl Windows {
    fn check(&mut self, now: Vec<u64>, at: Instant) -> Option<Change> {
        if now.len() != self.before.len() {
            // Workers came or went.
            (self.began, self.before) = (at, now);
            return None;
        }
        let since = |(now, before): (&u64, &u64)| now.saturating_sub(*before);
        let shares: Vec<u64> = now.iter().zip(&self.before).map(since).collect();
        let length = at.saturating_duration_since(self.began);
        if length < WINDOW || shares.iter().sum::<u64>() < CONNECTIONS_MIN {
            return None;
        }
        (self.began, self.before) = (at, now);
        let evenness = Evenness::of(&shares)?;
        let was_uneven = self.last.as_ref().is_some_and(|last| last.uneven);
        let mean = evenness.connections as f64 / shares.len() as f64;
        let uneven = evenness.largest as f64 > UNEVEN_FACTOR * mean
            && evenness.p < if was_uneven { EVEN_P } else { UNEVEN_P };
        self.last = Some(EvennessStatus {
            connections: evenness.connections,
            chi_square: evenness.chi_square,
            p: evenness.p,
            smallest: evenness.smallest,
            largest: evenness.largest,
            seconds: length.as_secs_f64(),
            uneven,
        });
        match (was_uneven, uneven) {
            (false, true) => Some(Change::Uneven),
            (true, false) => Some(Change::EvenAgain),
            _ => None,
        }
    }
}

/// Whether the kernel's hash or a fixed order chooses the worker. A shared socket's next connection goes to an idle worker, and
/// steering by processor or by weights is uneven on purpose.
pub(crate) fn is_meant_to_be_even(distribution: Distribution, steering: &Steering) -> bool {
    match distribution {
        Distribution::Reuseport => *steering == Steering::Hash,
        Distribution::AcceptMutex | Distribution::Handoff(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_skew_of_a_shared_socket_is_no_news() {
        assert!(is_meant_to_be_even(Distribution::Reuseport, &Steering::Hash));
        assert!(!is_meant_to_be_even(Distribution::Reuseport, &Steering::Cpu));
        assert!(!is_meant_to_be_even(Distribution::Shared, &Steering::Hash));
    }

    struct Run {
        windows: Windows,
        shares: [u64; 2],
        now: Instant,
    }

    impl Run {
        fn new() -> Run {
            let now = Instant::now();
            Run { windows: Windows { began: now, before: vec![0; 2], last: None }, shares: [0; 2], now }
        }

        fn after(&mut self, seconds: u64, more: [u64; 2]) -> Option<Change> {
            self.now += Duration::from_secs(seconds);
            self.shares = [self.shares[0] + more[0], self.shares[1] + more[1]];
            self.windows.check(self.shares.to_vec(), self.now)
        }

        fn last(&self) -> &EvennessStatus {
            self.windows.last.as_ref().expect("a window was complete")
        }
    }

    #[test]
    fn a_window_waits_for_time_and_for_connections() {
        let mut run = Run::new();
        assert_eq!(run.after(9, [500, 500]), None);
        assert!(run.windows.last.is_none(), "too short");
        run.after(1, [0, 0]);
        assert_eq!((run.last().connections, run.last().uneven), (1000, false));
        run.after(100, [199, 0]);
        assert_eq!(run.last().connections, 1000, "too few to say anything: {:?}", run.last());
        assert_eq!(run.after(1, [1, 0]), Some(Change::Uneven));
        assert_eq!((run.last().connections, run.last().smallest, run.last().largest), (200, 0, 200));
        assert!((run.last().seconds - 101.0).abs() < 1e-9);
    }

    #[test]
    fn a_change_is_told_once() {
        let mut run = Run::new();
        assert_eq!(run.after(10, [100, 100]), None);
        assert_eq!(run.after(10, [180, 20]), Some(Change::Uneven));
        assert_eq!(run.after(10, [180, 20]), None);
        assert_eq!(run.after(10, [131, 69]), None, "less, and still not by chance: {:?}", run.last());
        assert_eq!(run.after(10, [105, 95]), Some(Change::EvenAgain));
        assert_eq!(run.after(10, [95, 105]), None);
    }

    #[test]
    fn what_hurts_nobody_is_not_uneven_however_certain() {
        let mut run = Run::new();
        assert_eq!(run.after(10, [55_000, 45_000]), None);
        assert!(run.last().p < 1e-100 && !run.last().uneven, "{:?}", run.last());
    }
}
