//! Steering by load, on the stall monitor's side: how busy each worker is, and which shares of the new connections follow from that.
//!
//! The monitor looks at all workers some hundred times a second while one of them is awake: who is awake then, how often each came
//! back to its event loop, what each took, and what waits to be accepted. No worker reads a clock for that. When all sleep and the
//! shares are even again, the monitor sleeps.
//!
//! Invariant: a program is replaced at most 100 times a second, and only if a share has changed noticeably. The shares of a pinned
//! program change with each look.

use std::time::{Duration, Instant};

use crate::dispatch::benefits::Benefits;
use crate::dispatch::epoll_set::BUSY;
use crate::sockets::group::Inner;
use crate::steering::key::SLOTS;

/// How often workers are looked at, at least. More often would say little more, and a look costs some microseconds.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The program is replaced no more often: to build and attach it costs up to 50 us.
const RENEW_EVERY: Duration = Duration::from_millis(10);
/// After so long without a look all workers slept, and what was known is of another time.
const FORGOTTEN_AFTER: Duration = Duration::from_millis(250);
/// A look counts as this part of the shares of time: they follow within 40 ms, and are known to about a tenth.
const SMOOTHING: f32 = 1.0 / 8.0;
/// The same for what pays, which changes slowly.
const SMOOTHING_SUMS: f32 = 1.0 / 64.0;
/// To lend a socket or to give a connection costs a wake-up, some microseconds. So it is done where the work takes this long on
/// average.
const PAYS_FROM_SECONDS: f32 = 100e-6;
/// Less than this was seen too seldom to say anything.
const SEEN_SECONDS_MIN: f32 = 5e-3;
/// A connection that brings its worker back to the event loop so often lasts. One with a single request needs two or three turns.
const LASTING_FROM_BEATS: f32 = 8.0;
/// The weight of a worker that is busy all the time, beside 1 of one that is idle: somebody has to take what comes when all are busy.
const BUSY_WEIGHT: f32 = 1.0 / 16.0;
/// A share that differs by less than this part of an even one is left as it is: it would change again with the next look.
const NOTICEABLE: f32 = 1.0 / 8.0;

/// What is known of the workers of a group.
#[derive(Debug, Default)]
pub(crate) struct LoadWatch {
    workers: Vec<Seen>,
    looked: Option<Instant>,
    renewed: Option<Instant>,
    sums: Sums,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// The part of its time in which it is awake.
    busy: f32,
    beats: u64,
    taken: u64,
}

/// Of all workers together, with less weight to what was long ago.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    awake_seconds: f32,
    beats: f32,
    taken: f32,
}

impl Sums {
    fn fade(&mut self) {
        let kept = 1.0 - SMOOTHING_SUMS;
        self.awake_seconds *= kept;
        self.beats *= kept;
        self.taken *= kept;
    }

    fn benefits(&self) -> Benefits {
        if self.awake_seconds < SEEN_SECONDS_MIN {
            return Benefits::default();
        }
        let lasting = self.beats >= self.taken * LASTING_FROM_BEATS;
        Benefits {
            // Most turns of the event loop are for connections that stay where they are.
            lends: !lasting && self.awake_seconds >= self.beats * PAYS_FROM_SECONDS,
            gives: self.awake_seconds >= self.taken * PAYS_FROM_SECONDS,
            lasting,
        }
    }
}

/// One worker, when it was looked at.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// It cannot take anything.
    is_away: bool,
    busy: f32,
    /// Connections that it has not begun with.
    waiting: u64,
}

impl LoadWatch {
    /// Looks at the workers of a group, and renews the shares if it is time. Returns whether to look again soon, although all workers
    /// may sleep.
    ///
    /// Who is awake counts only at a regular time: a look because a worker has woken up would always find one that is awake.
    pub(crate) fn look(&mut self, group: &Inner, is_regular: bool) -> bool {
        let Some(shares) = group.load_shares() else { return false };
        let now = Instant::now();
        let since = self.looked.replace(now).map(|looked| now - looked);
        let since = since.filter(|since| *since < FORGOTTEN_AFTER);
        if since.is_none() {
            self.workers.clear();
            self.sums = Sums::default();
        }
        let epoll_sets = group.dispatch.epoll_sets();
        self.workers.resize(epoll_sets.len(), Seen::default());
        let counts = is_regular && since.is_some();
        // All workers slept meanwhile, but for about the last look.
        let looks = since.unwrap_or_default().as_secs_f32() / LOOK_EVERY.as_secs_f32();
        let slept = (1.0 - SMOOTHING).powf((looks - 1.0).max(0.0));
        let seconds = since.unwrap_or_default().min(LOOK_EVERY * 2).as_secs_f32();
        if counts {
            self.sums.fade();
        }
        let mut loads = Vec::with_capacity(epoll_sets.len());
        for (epoll_set, seen) in epoll_sets.iter().zip(&mut self.workers) {
            let heartbeat = epoll_set.heartbeat_of_worker();
            let is_awake = heartbeat.as_ref().is_some_and(|heartbeat| !heartbeat.is_asleep());
            let beats = heartbeat.map_or(0, |heartbeat| heartbeat.beats());
            let is_in_one_task = is_awake && counts && beats == seen.beats;
            seen.busy *= slept;
            if counts {
                seen.busy += (f32::from(u8::from(is_awake)) - seen.busy) * SMOOTHING;
                self.sums.beats += beats.saturating_sub(seen.beats) as f32;
                self.sums.taken += epoll_set.taken().saturating_sub(seen.taken) as f32;
                self.sums.awake_seconds += if is_awake { seconds } else { 0.0 };
            }
            (seen.beats, seen.taken) = (beats, epoll_set.taken());
            epoll_set.set_busy((seen.busy * BUSY as f32) as u32);
            let queue = group.dispatch.socket(epoll_set.worker()).and_then(|socket| socket.queue());
            let in_inbox = epoll_set.inbox().map_or(0, |inbox| inbox.len());
            loads.push(Load {
                is_away: !epoll_set.is_able(),
                busy: if is_in_one_task { 1.0 } else { seen.busy },
                waiting: queue.map_or(0, |state| state.queue) + in_inbox as u64,
            });
        }
        if counts {
            group.dispatch.balance().set_benefits(self.sums.benefits());
        }
        let weights = weights(&loads);
        let is_due =
            group.are_shares_memory() || self.renewed.is_none_or(|renewed| now - renewed >= RENEW_EVERY);
        if !differ(&shares, &weights) {
            return false;
        }
        if is_due {
            self.renewed = Some(now);
            group.steer_by_load(&weights);
        }
        true
    }

    /// Nobody looks any more: the shares are even, and no worker gives or lends.
    pub(crate) fn undo(group: &Inner) {
        if let Some(shares) = group.load_shares() {
            group.dispatch.balance().set_benefits(Benefits::default());
            group.steer_by_load(&vec![1; shares.len()]);
        }
    }
}

/// A weight for each worker, of 1 to 1,000; 0 for those that are away, unless all are.
fn weights(loads: &[Load]) -> Vec<u16> {
    let weight = |load: &Load| {
        let idle = 1.0 - load.busy.clamp(0.0, 1.0);
        (idle + BUSY_WEIGHT) / (1 + load.waiting) as f32
    };
    let most = loads.iter().filter(|load| !load.is_away).map(weight).fold(0.0, f32::max);
    if most == 0.0 {
        return vec![1; loads.len()];
    }
    let scaled = |load: &Load| match load.is_away {
        true => 0,
        false => (weight(load) / most * f32::from(crate::WEIGHT_MAX)).max(1.0) as u16,
    };
    loads.iter().map(scaled).collect()
}

/// Whether the share of a worker would change noticeably.
fn differ(shares: &[u16], weights: &[u16]) -> bool {
    if shares.len() != weights.len() {
        return true;
    }
    let total = weights.iter().map(|weight| f32::from(*weight)).sum::<f32>().max(1.0);
    let noticeable = SLOTS as f32 / shares.len() as f32 * NOTICEABLE;
    shares.iter().zip(weights).any(|(share, weight)| {
        let wanted = f32::from(*weight) / total * SLOTS as f32;
        // A weight of less than a slot is none, whoever has it.
        let begins_or_stops = if *share == 0 { wanted >= 2.0 } else { *weight == 0 };
        begins_or_stops || (wanted - f32::from(*share)).abs() >= noticeable.max(1.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Load = Load { is_away: false, busy: 0.0, waiting: 0 };

    #[test]
    fn who_is_busy_or_behind_gets_less_and_who_is_away_nothing() {
        let weights = weights(&[
            IDLE,
            Load { busy: 0.5, ..IDLE },
            Load { busy: 1.0, ..IDLE },
            Load { waiting: 3, ..IDLE },
            Load { is_away: true, ..IDLE },
        ]);
        assert_eq!(weights, [1000, 529, 58, 250, 0]);
        // All are busy, and one is behind.
        let busy = Load { busy: 1.0, ..IDLE };
        assert_eq!(super::weights(&[busy, busy, Load { waiting: 1, ..busy }]), [1000, 1000, 500]);
    }

    #[test]
    fn somebody_gets_something_whatever_happens() {
        let away = Load { is_away: true, ..IDLE };
        assert_eq!(weights(&[away, away]), [1, 1]);
        assert_eq!(weights(&[Load { waiting: u64::from(u32::MAX), ..IDLE }, IDLE]), [1, 1000]);
    }

    #[test]
    fn small_changes_are_not_worth_a_new_program() {
        assert!(!differ(&[256; 4], &[1000; 4]));
        assert!(!differ(&[256; 4], &[1000, 950, 1000, 950]));
        assert!(differ(&[256; 4], &[1000, 700, 1000, 1000]));
        assert!(differ(&[340, 342, 342, 0], &[1000, 1000, 1000, 10]), "who gets nothing comes back");
        assert!(differ(&[512, 512], &[1; 3]), "another number of workers");
    }

    /// Otherwise the monitor would never sleep again.
    #[test]
    fn shares_that_were_made_of_weights_do_not_differ_from_them() {
        for workers in [1, 2, 3, 7, 64, 700, 1024_u32] {
            for step in [1, 333, 999] {
                let weights: Vec<u16> = (0..workers).map(|worker| (worker * step % 1001) as u16).collect();
                let shares = crate::steering::slots::Slots::of(&weights).counts(workers as usize);
                let all_none = weights.iter().all(|weight| *weight == 0);
                assert!(all_none || !differ(&shares, &weights), "{workers} workers, {step}");
            }
        }
    }

    #[test]
    fn what_pays_depends_on_the_work_of_a_turn_and_of_a_connection() {
        let sums = |awake_seconds, beats, taken| Sums { awake_seconds, beats, taken }.benefits();
        assert_eq!(sums(1.0, 100_000.0, 50_000.0), Benefits::default(), "10 us and 20 us");
        assert_eq!(sums(1.0, 3_000.0, 1_000.0), Benefits { lends: true, gives: true, lasting: false });
        assert_eq!(sums(1.0, 500.0, 10.0), Benefits { lends: false, gives: true, lasting: true });
        assert_eq!(sums(1.0, 50_000.0, 10.0), Benefits { lends: false, gives: true, lasting: true });
        assert_eq!(sums(0.001, 1.0, 1.0), Benefits::default(), "too little was seen");
    }
}
