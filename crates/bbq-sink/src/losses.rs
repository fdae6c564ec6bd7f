//! Lanes of which a broker has lost what it had acknowledged, until it is known how much of it is still in the spool.

use std::collections::BTreeMap;

use super::positions::Positions;

/// See the module. At most one number for each lane.
#[derive(Debug, Default)]
pub struct Losses(BTreeMap<u32, u64>);

impl Losses {
    /// Notes what a broker has that was `seen` to have more. Returns how many messages it has lost.
    pub fn note(&mut self, seen: &Positions, found: &Positions) -> u64 {
        for lane in seen.lanes_beyond(found) {
            self.0.insert(lane, found.record(lane));
        }
        seen.beyond(found)
    }

    /// How many of the lost messages are gone, to be asked with the first record of each group that is sent: the first group of a lane
    /// says what is still here.
    pub fn gone(&mut self, lane: u32, first_record: u64) -> u64 {
        self.0.remove(&lane).map_or(0, |has| first_record.saturating_sub(has))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_of_a_lane_says_what_is_gone() {
        let [seen, found] =
            ["0:9:70 1:5:8 2:3:9", "0:5:60 1:5:8 2:1:4"].map(|text| Positions::parse(text).unwrap());
        let mut losses = Losses::default();
        assert_eq!(losses.note(&seen, &found), 15);
        let gone = [(0, 65), (0, 99), (1, 20), (2, 2)].map(|(lane, first)| losses.gone(lane, first));
        assert_eq!(gone, [5, 0, 0, 0]);
    }
}
