//! The numbers of the last hour, a sample each second, for the page of the admin: of the whole server, of each listener and of each sink.
//! The admin's thread takes them; workers do nothing for them. They are in memory only, and begin with the process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bbq_spec::counter::sum;
use serde::Serialize;

use super::series::Column::{Level, Rate};
use super::series::{Column, Series};
use crate::status::{SpoolStatus, Status, total};

/// Time between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);
/// An hour: 56 bytes each for the server, 16 for a listener and 24 for a sink.
const SAMPLES_MAX: usize = 3600;
/// Listeners, and sinks, that have a history: it takes at most 11 MB. Of more, the first by name have one.
pub(crate) const FOLLOWED_MAX: usize = 64;

/// The pace at which the spool fills is that of a minute, and of at least some seconds: a burst says nothing of the next hour.
const PACE_SAMPLES_MAX: usize = 60;
const PACE_SAMPLES_MIN: usize = 10;
/// A queue that grows by less than this part of what came comes and goes.
const GROWTH_MIN: f64 = 1.0 / 20.0;
/// One that grows by more than all that came has grown otherwise. The counters are read one after the other, so this is not exact.
const GROWTH_MAX: f64 = 1.1;

/// A pace does not last so long that a spool which is full later need be told.
const FULL_WITHIN: Duration = Duration::from_hours(30 * 24);

/// The place of the bytes written in the columns of the server.
const WRITTEN: usize = 6;
const OF_SERVER: [Column; 7] = [
    Rate("received"),
    Rate("delivered"),
    Rate("dropped"),
    Level("queued"),
    Level("connections"),
    Level("spool_bytes"),
    Rate("written_bytes"),
];
const OF_LISTENER: [Column; 2] = [Rate("received"), Rate("dropped")];
const OF_SINK: [Column; 3] = [Rate("delivered"), Rate("dropped"), Level("queued")];

/// What a history is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// All listeners, and the sink that is furthest behind.
    Server,
    /// By its name, and so all that share a name.
    Listener(String),
    Sink(String),
}

/// The numbers at a moment, in the order of their columns.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    server: [u64; OF_SERVER.len()],
    /// How many lanes are written.
    lanes: usize,
    listeners: BTreeMap<String, [u64; OF_LISTENER.len()]>,
    sinks: BTreeMap<String, [u64; OF_SINK.len()]>,
}

#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    /// Samples that were ever taken: the number of the last one.
    taken: u64,
    last: Option<Instant>,
    lanes: usize,
    server: Series<{ OF_SERVER.len() }>,
    listeners: BTreeMap<String, Series<{ OF_LISTENER.len() }>>,
    sinks: BTreeMap<String, Series<{ OF_SINK.len() }>>,
}

/// Columns, the oldest sample first.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryAnswer {
    /// Of a sample.
    interval_seconds: u64,
    /// The number of the last sample: to be asked for what comes after it.
    last: u64,
    #[serde(flatten)]
    columns: BTreeMap<&'static str, Vec<u64>>,
}

impl Reading {
    pub(crate) fn of(status: &Status) -> Reading {
        let ledger = &status.ledger;
        let mut reading = Reading {
            server: [
                ledger.received,
                ledger.delivered,
                total(&ledger.dropped),
                ledger.queued,
                status.workers.iter().map(|worker| worker.connections).sum(),
                status.spool.bytes,
                sum(status.spool.lanes.iter().map(|lane| lane.written_bytes)),
            ],
            lanes: status.spool.lanes.len(),
            ..Reading::default()
        };
        for listener in &status.listeners {
            let sums = reading.listeners.entry(listener.name.clone()).or_default();
            sums[0] = sums[0].saturating_add(listener.ledger.received);
            sums[1] = sums[1].saturating_add(total(&listener.ledger.dropped));
        }
        for sink in &status.sinks {
            let dropped = total(&sink.dropped);
            reading.sinks.insert(sink.name.clone(), [sink.delivered, dropped, sink.queued]);
        }
        reading
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Server => f.write_str("server"),
            Subject::Listener(name) => write!(f, "listener {name}"),
            Subject::Sink(name) => write!(f, "sink {name}"),
        }
    }
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            taken: 0,
            last: None,
            lanes: 0,
            server: Series::new(&OF_SERVER, [0; OF_SERVER.len()]),
            listeners: BTreeMap::new(),
            sinks: BTreeMap::new(),
        }
    }
}

impl History {
    /// Adds what has happened since the last reading. A gap, such as that of an upgrade that failed, is filled with its mean. What is no
    /// longer configured is forgotten.
    pub(crate) fn add(&self, now: Instant, reading: Reading) {
        let mut kept = self.locked();
        let kept = &mut *kept;
        // The first reading is what the next is compared with.
        let is_first = kept.last.is_none();
        let then = kept.last.replace(now).unwrap_or(now);
        let seconds = now.saturating_duration_since(then).as_secs_f64();
        let count = (seconds / INTERVAL.as_secs_f64()).round().clamp(1.0, SAMPLES_MAX as f64) as usize;
        if std::mem::replace(&mut kept.lanes, reading.lanes) != reading.lanes {
            // A reload adds and removes lanes with all that was ever written to them.
            kept.server.begin_again(WRITTEN, reading.server[WRITTEN]);
        }
        if is_first {
            kept.server = Series::new(&OF_SERVER, reading.server);
        } else {
            kept.taken += count as u64;
            kept.server.add(reading.server, seconds, count, SAMPLES_MAX);
        }
        follow(&mut kept.listeners, &OF_LISTENER, reading.listeners, (seconds, count));
        follow(&mut kept.sinks, &OF_SINK, reading.sinks, (seconds, count));
    }

    /// The samples behind that number; `None` if there is no such listener or sink.
    pub(crate) fn after(&self, subject: &Subject, number: u64) -> Option<HistoryAnswer> {
        let kept = self.locked();
        let new = usize::try_from(kept.taken.saturating_sub(number)).unwrap_or(usize::MAX);
        // A number that was not given yet is one of an earlier process.
        let new = if number > kept.taken { usize::MAX } else { new };
        let columns = match subject {
            Subject::Server => kept.server.newest(new),
            Subject::Listener(name) => kept.listeners.get(name)?.newest(new),
            Subject::Sink(name) => kept.sinks.get(name)?.newest(new),
        };
        Some(HistoryAnswer { interval_seconds: INTERVAL.as_secs(), last: kept.taken, columns })
    }

    /// Seconds until the spool is full, if the queue grows on as it did; `None` if it does not grow, if the spool has room for very long,
    /// and if nothing is known yet.
    ///
    /// Whole segments come and go, so their bytes say little of a minute. What is written in it says more. A sink may take messages a
    /// minute's worth at a time, so the lowest queue of a minute is compared with that of the minute before it.
    pub(crate) fn full_in_seconds(&self, spool: &SpoolStatus) -> Option<u64> {
        let kept = self.locked();
        let samples: Vec<_> = kept.server.last(2 * PACE_SAMPLES_MAX).collect();
        let (older, newer) = samples.split_at(samples.len() / 2);
        if older.len() < PACE_SAMPLES_MIN {
            return None;
        }
        let sum = |place: usize| newer.iter().map(|sample| sample[place] as f64).sum::<f64>();
        let [received, _, _, queued, ..]: [usize; WRITTEN] = std::array::from_fn(|place| place);
        let lowest = |half: &[&[u64; OF_SERVER.len()]]| half.iter().map(|sample| sample[queued]).min();
        let share = lowest(newer)?.saturating_sub(lowest(older)?) as f64 / sum(received);
        let bytes_per_second = share.min(1.0) * sum(WRITTEN) / newer.len() as f64;
        // More than what came is the queue of a sink that was added. Also without a number, as nothing came.
        let grows = (GROWTH_MIN..=GROWTH_MAX).contains(&share) && bytes_per_second > 0.0;
        let left = grows.then(|| spool.bytes_max.saturating_sub(spool.bytes) as f64 / bytes_per_second);
        left.filter(|seconds| *seconds < FULL_WITHIN.as_secs_f64()).map(|seconds| seconds as u64)
    }

    fn locked(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds samples, that many for that many seconds, to the series of what is still there, and begins those of what is new.
fn follow<const N: usize>(
    series: &mut BTreeMap<String, Series<N>>,
    columns: &'static [Column; N],
    readings: BTreeMap<String, [u64; N]>,
    passed: (f64, usize),
) {
    series.retain(|name, _| readings.contains_key(name));
    for (name, reading) in readings {
        if let Some(series) = series.get_mut(&name) {
            let (seconds, count) = passed;
            series.add(reading, seconds, count, SAMPLES_MAX);
        } else if series.len() < FOLLOWED_MAX {
            series.insert(name, Series::new(columns, reading));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn received(history: &History, subject: &Subject, after: u64) -> Vec<u64> {
        history.after(subject, after).unwrap().columns["received"].clone()
    }

    fn of_server(received: u64) -> Reading {
        Reading { server: [received, 0, 0, received / 2, 0, 0, 0], ..Reading::default() }
    }

    #[test]
    fn an_hour_is_kept_as_rates_and_only_what_is_new_is_returned() {
        let history = History::default();
        let start = Instant::now();
        for second in 0..=SAMPLES_MAX as u64 + 10 {
            history.add(start + INTERVAL * second as u32, of_server(second * 7));
        }
        let all = received(&history, &Subject::Server, 0);
        assert_eq!(all, [7; SAMPLES_MAX]);
        let last = history.after(&Subject::Server, 0).unwrap().last;
        assert_eq!(last, SAMPLES_MAX as u64 + 10);
        let newest = history.after(&Subject::Server, last - 3).unwrap();
        let queued = |received: u64| received * 7 / 2;
        assert_eq!(newest.columns["queued"], [queued(last - 2), queued(last - 1), queued(last)]);
        assert!(received(&history, &Subject::Server, last).is_empty());
        let of_another_process = received(&history, &Subject::Server, last + 1);
        assert_eq!(of_another_process.len(), SAMPLES_MAX);
    }

    #[test]
    fn a_spool_is_full_when_what_is_written_and_stays_has_filled_it() {
        let history = History::default();
        let start = Instant::now();
        let spool = SpoolStatus { bytes: 2_000_000, bytes_max: 10_000_000, ..SpoolStatus::default() };
        let mut second = 0;
        let mut total = [0; OF_SERVER.len()];
        let (lanes, of_another_sink) = (Cell::new(2), Cell::new(0));
        // Messages of 1000 bytes.
        let mut pass = |seconds: u32, received: u64, delivered: u64| {
            for _ in 0..seconds {
                total[0] += received;
                total[1] += delivered;
                total[3] = total[0] - total[1] + of_another_sink.get();
                total[WRITTEN] = total[0] * 1000 + 1_000_000_000 * lanes.get() as u64;
                let reading = Reading { server: total, lanes: lanes.get(), ..Reading::default() };
                history.add(start + INTERVAL * second, reading);
                second += 1;
            }
            history.full_in_seconds(&spool)
        };
        assert_eq!(pass(20, 100, 0), None, "nineteen samples");
        assert_eq!(pass(1, 100, 0), Some(80));
        assert_eq!(pass(140, 100, 75), Some(320));
        let large = SpoolStatus { bytes_max: 100_000_000_000, ..spool.clone() };
        assert_eq!(history.full_in_seconds(&large), None, "46 days");
        lanes.set(4);
        // In the second of the change nothing counts as written.
        assert_eq!(pass(30, 100, 75), Some(320 * 60 / 59), "more lanes");
        assert_eq!(pass(140, 100, 96), None, "a queue that comes and goes");
        for _ in 0..3 {
            assert_eq!(pass(50, 100, 0), None, "a sink that takes the messages of a minute at once");
            assert_eq!(pass(10, 100, 600), None);
        }
        of_another_sink.set(1_000_000);
        for _ in 0..13 {
            assert_eq!(pass(10, 100, 100), None, "a sink was added");
        }
        assert_eq!(pass(140, 0, 0), None, "nothing comes");
        assert_eq!(pass(30, 0, 10), None);
    }

    #[test]
    fn a_gap_is_filled_and_a_counter_that_goes_back_is_no_rate() {
        let history = History::default();
        let start = Instant::now();
        for (seconds, received) in [(0, 100), (4, 140), (5, 20)] {
            history.add(start + INTERVAL * seconds, of_server(received));
        }
        assert_eq!(received(&history, &Subject::Server, 0), [10, 10, 10, 10, 0]);
    }

    #[test]
    fn a_listener_that_comes_later_has_a_shorter_history_and_one_that_goes_has_none() {
        let history = History::default();
        let start = Instant::now();
        let (old, new) = (Subject::Listener("old".to_owned()), Subject::Listener("new".to_owned()));
        let reading = |listeners: &[(&str, u64)]| Reading {
            listeners: listeners
                .iter()
                .map(|(name, received)| ((*name).to_owned(), [*received, 0]))
                .collect(),
            ..Reading::default()
        };
        history.add(start, reading(&[("old", 5)]));
        history.add(start + INTERVAL, reading(&[("old", 8)]));
        history.add(start + INTERVAL * 2, reading(&[("old", 8), ("new", 1000)]));
        history.add(start + INTERVAL * 3, reading(&[("old", 9), ("new", 1004)]));
        assert_eq!(received(&history, &old, 0), [3, 0, 1]);
        assert_eq!(received(&history, &new, 0), [4], "what it had before is no rate");
        assert_eq!(received(&history, &old, 2), [1]);
        history.add(start + INTERVAL * 4, reading(&[("new", 1004)]));
        assert!(history.after(&old, 0).is_none());
        assert_eq!(received(&history, &new, 3), [0]);
    }

    #[test]
    fn no_more_than_a_few_are_followed() {
        let history = History::default();
        let many: BTreeMap<String, [u64; 3]> =
            (0..FOLLOWED_MAX + 10).map(|n| (format!("{n:03}"), [0; 3])).collect();
        history.add(Instant::now(), Reading { sinks: many, ..Reading::default() });
        assert!(history.after(&Subject::Sink("063".to_owned()), 0).is_some());
        assert!(history.after(&Subject::Sink("064".to_owned()), 0).is_none());
    }
}
