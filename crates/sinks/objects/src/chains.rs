//! What the cursor remembers: the id of the sink, and where the chain of each lane ends.
//!
//! ```text
//! objects <id> <lane>:<position> ..
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::io;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chains {
    /// 16 hexadecimal digits, of the sink and its data directory.
    pub(super) id: String,
    ends: BTreeMap<u32, u64>,
}

impl Chains {
    pub(super) fn new() -> io::Result<Chains> {
        let mut id = [0; 8];
        getrandom::fill(&mut id).map_err(io::Error::other)?;
        Ok(Chains { id: format!("{:016x}", u64::from_be_bytes(id)), ends: BTreeMap::new() })
    }

    /// `None` if the state is that of another kind of sink.
    pub(super) fn parse(state: &str) -> Option<Chains> {
        let mut words = state.strip_prefix("objects ")?.split(' ');
        let id = words.next()?.to_owned();
        let of_lane = |word: &str| {
            let (lane, end) = word.split_once(':')?;
            Some((lane.parse().ok()?, end.parse().ok()?))
        };
        Some(Chains { id, ends: words.map(of_lane).collect::<Option<_>>()? })
    }

    /// Where the last known object of a lane ends.
    pub(super) fn end(&self, lane: u32) -> u64 {
        self.ends.get(&lane).copied().unwrap_or(0)
    }

    /// There is an object that ends here.
    pub(super) fn advance(&mut self, lane: u32, end: u64) {
        let known = self.ends.entry(lane).or_insert(end);
        *known = end.max(*known);
    }

    /// The name of the lane's next object.
    pub(super) fn next_name(&self, lane: u32) -> String {
        format!("{}/lane-{lane}/{:020}.ndjson.zst", self.id, self.end(lane))
    }
}

impl fmt::Display for Chains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "objects {}", self.id)?;
        self.ends.iter().try_for_each(|(lane, end)| write!(f, " {lane}:{end}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_read_as_they_were_written() {
        for text in ["objects 00ff", "objects 00ff 0:4096 12:18446744073709551615"] {
            assert_eq!(Chains::parse(text).unwrap().to_string(), text);
        }
        for wrong in ["", "objects", "nats 00ff", "objects 00ff 0", "objects 00ff 0:x", "objects 00ff x:0"] {
            assert_eq!(Chains::parse(wrong), None, "{wrong}");
        }
        let mut chains = Chains::parse("objects 00ff 0:4096").unwrap();
        chains.advance(0, 8);
        chains.advance(1, 8192);
        assert_eq!(chains.to_string(), "objects 00ff 0:4096 1:8192");
        assert_eq!(chains.next_name(1), "00ff/lane-1/00000000000000008192.ndjson.zst");
        assert_eq!(chains.next_name(2), "00ff/lane-2/00000000000000000000.ndjson.zst");
    }
}
