//! How far a sink is with each lane: what was submitted and is not settled yet.
//!
//! A place of a cursor stands between two groups. A file is full between two messages, which may stand in the middle of a group; so
//! the cursor also remembers, by lane, how many records of the group behind its place are in the output already:
//!
//! ```text
//! begun <lane>:<records> <lane>:<records>; <state of the output>
//! ```
//!
//! Invariant: the place of a lane moves over settled groups only, in their order.

use std::collections::VecDeque;

use bbq_spool::{Cursor, Group, LanePlace, Lost};

use super::interface::Settled;
use super::ledger::{DAMAGED, Passed, word_of};

/// A group that was submitted, or records that will never come.
struct Submitted {
    until: LanePlace,
    records: u64,
    outcome: Option<Outcome>,
}

#[derive(Default)]
struct Outcome {
    delivered: u64,
    /// By reason.
    dropped: Vec<(&'static str, u64)>,
}

/// One lane.
struct LaneInFlight {
    /// Records of the group behind its place that the output has already.
    begun: u64,
    submitted: VecDeque<Submitted>,
}

/// All lanes, in the order of the readers.
pub(super) struct InFlight {
    /// Behind the last settled group of each lane.
    places: Vec<LanePlace>,
    lanes: Vec<LaneInFlight>,
}

impl InFlight {
    /// Goes on from a cursor whose places are those of the readers, in their order.
    pub(super) fn of(cursor: &Cursor) -> InFlight {
        let lane = |begun| LaneInFlight { begun, submitted: VecDeque::new() };
        InFlight { places: cursor.places.clone(), lanes: begun_of(cursor).into_iter().map(lane).collect() }
    }

    pub(super) fn places(&self) -> &[LanePlace] {
        &self.places
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.submitted.is_empty())
    }

    /// A group of the reader is submitted. Returns how many records of it the output has already.
    pub(super) fn submit(&mut self, reader: usize, group: &Group) -> u64 {
        let begun = self.begun_before(reader, group.until());
        let submitted = Submitted { until: group.until(), records: group.records(), outcome: None };
        self.lanes[reader].submitted.push_back(submitted);
        begun
    }

    /// Records of the reader's lane will not come. Returns how many the output never got: of a group that was begun, it has some.
    pub(super) fn lose(&mut self, reader: usize, until: LanePlace, lost: Lost) -> u64 {
        let delivered = self.begun_before(reader, until).min(lost.records);
        let missing = lost.records - delivered;
        let dropped = vec![(word_of(lost.reason), missing)];
        let outcome = Some(Outcome { delivered, dropped });
        self.lanes[reader].submitted.push_back(Submitted { until, records: lost.records, outcome });
        missing
    }

    /// What was begun is the first of what comes up to `until`.
    fn begun_before(&self, reader: usize, until: LanePlace) -> u64 {
        let lane = &self.lanes[reader];
        let is_next = lane.submitted.is_empty() && until.position != self.places[reader].position;
        if is_next { lane.begun } else { 0 }
    }

    /// A group is settled: its records are delivered, rejected, or were damaged.
    pub(super) fn settle(&mut self, settled: Settled) {
        let Settled { until, delivered, rejected, .. } = settled;
        let Some(lane) = self.places.iter().position(|place| place.lane == until.lane) else { return };
        let submitted = &mut self.lanes[lane].submitted;
        let of_group = |submitted: &&mut Submitted| submitted.until == until && submitted.outcome.is_none();
        if let Some(submitted) = submitted.iter_mut().find(of_group) {
            let known = rejected.iter().fold(delivered, |sum, (_, records)| sum.saturating_add(*records));
            let mut dropped = rejected;
            let damaged = submitted.records.saturating_sub(known);
            if damaged > 0 {
                dropped.push((DAMAGED, damaged));
            }
            submitted.outcome = Some(Outcome { delivered, dropped });
        }
    }

    /// Moves the places over what is settled without a gap. Returns what that comes to, if they moved.
    pub(super) fn pass(&mut self) -> Option<Passed> {
        let mut passed: Option<Passed> = None;
        for (place, lane) in self.places.iter_mut().zip(&mut self.lanes) {
            while let Some(Submitted { outcome: outcome @ Some(_), .. }) = lane.submitted.front_mut()
                && let Some(Outcome { delivered, dropped }) = outcome.take()
                && let Some(Submitted { until, .. }) = lane.submitted.pop_front()
            {
                if until.position != place.position {
                    lane.begun = 0;
                }
                *place = until;
                let passed = passed.get_or_insert_default();
                passed.delivered = passed.delivered.saturating_add(delivered);
                passed.dropped.extend(dropped);
            }
        }
        passed
    }

    /// The output has so many records of the group behind the place of a lane.
    pub(super) fn begin(&mut self, lane: u32, records: u64) {
        if let Some(index) = self.places.iter().position(|place| place.lane == lane) {
            self.lanes[index].begun = records;
        }
    }

    /// What the cursor remembers, with the state of the output.
    pub(super) fn state(&self, output: &str) -> String {
        let of_lane = |(place, lane): (&LanePlace, &LaneInFlight)| {
            (lane.begun > 0).then(|| format!("{}:{}", place.lane, lane.begun))
        };
        let begun: Vec<String> = self.places.iter().zip(&self.lanes).filter_map(of_lane).collect();
        if begun.is_empty() { output.to_owned() } else { format!("begun {}; {output}", begun.join(" ")) }
    }
}

/// The state of the output, behind what was begun.
pub(super) fn state_of_output(state: &str) -> &str {
    state.strip_prefix("begun ").and_then(|rest| rest.split_once("; ")).map_or(state, |(_, output)| output)
}

/// By place of a cursor, how many records behind it are in the output already.
fn begun_of(cursor: &Cursor) -> Vec<u64> {
    let words = cursor.output.strip_prefix("begun ").and_then(|rest| rest.split_once("; "));
    let words = words.map_or("", |(words, _)| words);
    let of_lane = |lane: u32| {
        words.split(' ').find_map(|word| {
            let (of, records) = word.split_once(':')?;
            if of.parse() == Ok(lane) { records.parse().ok() } else { None }
        })
    };
    cursor.places.iter().map(|place| of_lane(place.lane).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use bbq_spool::LostReason;

    use super::*;

    fn place(lane: u32, position: u64, record: u64) -> LanePlace {
        LanePlace { lane, position, record }
    }

    #[test]
    fn what_was_begun_comes_back_beside_what_the_output_remembers() {
        let places = vec![place(0, 7, 1), place(3, 7, 1), place(12, 7, 1)];
        for (begun, output) in [([0, 17, 1], "inode 5 length 9 rotating a; b"), ([0, 0, 0], "")] {
            let mut in_flight = InFlight::of(&Cursor { places: places.clone(), ..Cursor::default() });
            for (place, records) in places.iter().zip(begun) {
                in_flight.begin(place.lane, records);
            }
            let state = in_flight.state(output);
            let cursor = Cursor { places: places.clone(), output: state.clone(), ..Cursor::default() };
            assert_eq!(begun_of(&cursor), begun);
            assert_eq!(state_of_output(&state), output);
        }
    }

    fn submitted(until: LanePlace, records: u64) -> Submitted {
        Submitted { until, records, outcome: None }
    }

    fn settled(until: LanePlace, delivered: u64) -> Settled {
        Settled { until, delivered, rejected: Vec::new(), received_ns: 0 }
    }

    #[test]
    fn places_move_over_settled_groups_without_a_gap() {
        let cursor = Cursor { places: vec![place(0, 0, 0), place(4, 0, 0)], ..Cursor::default() };
        let mut in_flight = InFlight::of(&cursor);
        let untils = [place(4, 10, 5), place(4, 20, 9), place(4, 30, 12)];
        for (until, records) in untils.into_iter().zip([5, 4, 3]) {
            in_flight.lanes[1].submitted.push_back(submitted(until, records));
        }
        in_flight.settle(settled(untils[1], 4));
        in_flight.settle(Settled { rejected: vec![("too-large", 1)], ..settled(untils[2], 1) });
        assert!(in_flight.pass().is_none());
        assert_eq!(in_flight.places(), [place(0, 0, 0), place(4, 0, 0)]);
        in_flight.settle(settled(untils[0], 5));
        let passed = in_flight.pass().expect("there is no gap");
        assert_eq!((passed.delivered, passed.dropped), (10, vec![("too-large", 1), (DAMAGED, 1)]));
        assert_eq!(in_flight.places()[1], untils[2]);
        assert!(in_flight.is_empty());
    }

    #[test]
    fn of_a_group_that_was_begun_and_is_lost_only_the_rest_is_dropped() {
        let cursor = Cursor {
            places: vec![place(0, 5, 100)],
            output: "begun 0:7; length 1".to_owned(),
            ..Cursor::default()
        };
        let mut in_flight = InFlight::of(&cursor);
        let lost = Lost { records: 20, reason: LostReason::Oldest };
        assert_eq!(in_flight.lose(0, place(0, 50, 120), lost), 13);
        let passed = in_flight.pass().expect("it is known at once");
        assert_eq!((passed.delivered, passed.dropped), (7, vec![("oldest", 13)]));
        assert_eq!(in_flight.state("x"), "x");
    }
}
