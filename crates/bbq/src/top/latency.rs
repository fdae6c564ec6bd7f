//! How long groups that a client waits for took in the last interval, from their first message until they are on disk, of all lanes.

use std::time::Duration;

use bbq_server::status::Status;

use super::number::duration;
use super::snapshot::Pair;

/// The upper end of a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Took {
    end: Duration,
    /// It took longer than that, the last end.
    is_over: bool,
}

/// Of 50 and of 99 in 100; `None` if no client waited.
pub(super) fn percentiles(pair: Pair<'_>) -> [Option<Took>; 2] {
    let ends: Vec<f64> = match pair.now.status.spool.lanes.first() {
        Some(lane) => lane.durable_seconds.buckets.iter().filter_map(|bucket| bucket.le).collect(),
        None => Vec::new(),
    };
    let up_to = |place: usize| {
        let of = |status: &Status| -> Option<u64> {
            let lanes = status.spool.lanes.iter();
            lanes.map(|lane| lane.durable_seconds.buckets.get(place).map(|bucket| bucket.count)).sum()
        };
        pair.grown(of).unwrap_or(0)
    };
    // The bucket without an end has all.
    let all = up_to(ends.len());
    [0.5, 0.99].map(|part| {
        let is_enough = |place: &usize| up_to(*place) as f64 >= all as f64 * part;
        let place = (0..ends.len()).find(is_enough);
        let end = place.map_or(ends.last(), |place| ends.get(place)).filter(|_| all > 0)?;
        Some(Took { end: Duration::from_secs_f64(*end), is_over: place.is_none() })
    })
}

/// With parts of a millisecond, as the first buckets end there.
pub(super) fn shown(Took { end, is_over }: Took) -> String {
    let over = if is_over { "> " } else { "" };
    match end < Duration::from_secs(1) {
        true => format!("{over}{} ms", end.as_micros() as f64 / 1000.0),
        false => format!("{over}{}", duration(end)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use bbq_server::status::{LaneStatus, LatencyBucket, LatencyStatus};

    use super::super::snapshot::Snapshot;
    use super::*;

    fn snapshot(lanes: &[[u64; 3]]) -> Snapshot {
        let bucket = |(place, count): (usize, &u64)| LatencyBucket {
            le: [Some(0.001), Some(0.01), None][place],
            count: *count,
        };
        let lanes = lanes.iter().map(|counts| LaneStatus {
            index: 0,
            records: 0,
            written_bytes: 0,
            condition: "writing".to_owned(),
            durable_seconds: LatencyStatus {
                count: counts[2],
                sum: 0.0,
                buckets: counts.iter().enumerate().map(bucket).collect(),
            },
            sync_seconds: LatencyStatus::default(),
        });
        let mut status = Status::default();
        status.spool.lanes = lanes.collect();
        Snapshot { at: Instant::now(), status }
    }

    #[test]
    fn they_are_those_of_the_interval_and_of_all_lanes() {
        let before = snapshot(&[[5, 5, 5], [7, 7, 7]]);
        let of = |lanes| percentiles(Pair::new(Some(&before), &snapshot(lanes)));
        let took = |us, is_over| Took { end: Duration::from_micros(us), is_over };
        let [one, ten] = [1000, 10_000].map(|us| Some(took(us, false)));
        assert_eq!(of(&[[5, 5, 5], [7, 7, 7]]), [None, None], "no client waited");
        assert_eq!(of(&[[8, 8, 8], [8, 10, 10]]), [one, ten]);
        assert_eq!(
            of(&[[5, 105, 205], [7, 7, 7]]),
            [ten, Some(took(10_000, true))],
            "longer than the last end"
        );
        assert_eq!(percentiles(Pair::new(None, &before)), [None, None]);
        assert_eq!(
            [100, 2500, 250_000, 2_500_000].map(|us| shown(took(us, false))),
            ["0.1 ms", "2.5 ms", "250 ms", "2.5 s"]
        );
        assert_eq!(shown(took(10_000_000, true)), "> 10 s");
    }
}
