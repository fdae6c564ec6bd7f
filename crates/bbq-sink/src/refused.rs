//! Messages that a broker refuses for good, which are taken out of what is sent. Its progress names them until they are dead letters: the
//! server may be killed between the two, and the broker is already behind them.
//!
//! ```text
//! <lane>:<number>+<count> ..       in the progress: messages that follow each other
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::outgoing::Rejection;
use super::positions::Positions;
use bbq_spool::LanePlace;

/// Most runs of refused messages: 20 bytes each, so that progress is smaller than the smallest limit that brokers usually have, 1 MiB.
/// A broker that refuses single messages here and there has far fewer before they are dead letters.
pub const REFUSED_RUNS_MAX: usize = 10_000;
/// With more messages, those that are dead letters are forgotten: what is remembered of them takes 100 bytes each. [`Refused::room`] has no
/// room for more without letters, in however few runs.
pub const REFUSED_MAX: usize = 100_000;
/// The text for a message that was refused before bbq was started again.
const EARLIER: &str = "the message was refused before bbq was started again";

/// By lane and number of the message in its lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused(BTreeMap<(u32, u64), Reason>);

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    why: Arc<str>,
    /// Whether the message is a dead letter.
    has_letter: bool,
}

impl Reason {
    /// For the groups on their way.
    #[must_use]
    pub fn rejection(&self) -> Rejection {
        Rejection { why: self.why.as_ref().to_owned(), has_letter: self.has_letter }
    }
}

impl Refused {
    /// Adds a message that is no dead letter yet.
    pub fn add(&mut self, message: (u32, u64), why: &Arc<str>) {
        self.0.insert(message, Reason { why: Arc::clone(why), has_letter: false });
    }

    /// Why a message is refused, if it is.
    #[must_use]
    pub fn reason(&self, message: (u32, u64)) -> Option<&Reason> {
        // Nearly always it is empty, and this is asked for every message.
        if self.0.is_empty() { None } else { self.0.get(&message) }
    }

    /// Adds what is not known here.
    pub fn merge(&mut self, others: Refused) {
        for (message, reason) in others.0 {
            self.0.entry(message).or_insert(reason);
        }
    }

    /// Notes that the messages before a position are dead letters.
    pub fn keep(&mut self, kept: &Positions) {
        for ((lane, number), reason) in &mut self.0 {
            reason.has_letter |= *number < kept.record(*lane);
        }
    }

    /// Forgets the messages that the cursor has passed.
    pub fn forget(&mut self, passed: &[LanePlace]) {
        let before = |lane| passed.iter().find(|place| place.lane == lane).map_or(0, |place| place.record);
        self.0.retain(|(lane, number), _| *number >= before(*lane));
    }

    /// Forgets dead letters before a position.
    pub fn forget_letters(&mut self, before: &Positions) {
        self.0.retain(|(lane, number), reason| !reason.has_letter || *number >= before.record(*lane));
    }

    /// Forgets what is not before a position: the broker has not passed it.
    pub fn limit(&mut self, stored: &Positions) {
        self.0.retain(|(lane, number), _| *number < stored.record(*lane));
    }

    /// Those that are dead letters.
    #[must_use]
    pub fn letters(&self) -> Refused {
        self.part(true)
    }

    /// Those that are not dead letters yet.
    #[must_use]
    pub fn without_letters(&self) -> Refused {
        self.part(false)
    }

    fn part(&self, has_letter: bool) -> Refused {
        let part = self.0.iter().filter(|(_, reason)| reason.has_letter == has_letter);
        Refused(part.map(|(message, reason)| (*message, reason.clone())).collect())
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many runs of messages there are that follow each other.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.each_run().count()
    }

    /// How many more messages may be refused before others are dead letters, if progress has room for `runs_max` runs.
    #[must_use]
    pub fn room(&self, runs_max: usize) -> usize {
        let without_letters =
            self.0.iter().filter(|(_, reason)| !reason.has_letter).map(|(message, _)| *message);
        let (mut runs, mut messages) = (0, 0);
        for (_, _, count) in each_run(without_letters) {
            runs += 1;
            messages += count;
        }
        let messages = usize::try_from(messages).unwrap_or(usize::MAX);
        // Each may be a run of its own.
        runs_max.min(REFUSED_RUNS_MAX).saturating_sub(runs).min(REFUSED_MAX.saturating_sub(messages))
    }

    /// Lane, first number and count of messages that follow each other.
    fn each_run(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        each_run(self.0.keys().copied())
    }

    /// Reads messages that are dead letters.
    #[must_use]
    pub fn parse_letters(text: &str) -> Option<Refused> {
        let mut refused = Refused::parse(text)?;
        refused.0.values_mut().for_each(|reason| reason.has_letter = true);
        Some(refused)
    }

    /// Reads what `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Refused> {
        /// In all: who can write to the topic could name any number.
        const COUNT_MAX: u64 = 1 << 20;
        const _: () = assert!(REFUSED_MAX as u64 <= COUNT_MAX, "what is written is read");
        let why: Arc<str> = EARLIER.into();
        let mut refused = Refused::default();
        let mut room = COUNT_MAX;
        for word in text.split_ascii_whitespace() {
            let (lane, run) = word.split_once(':')?;
            let (first, count) = run.split_once('+')?;
            let (lane, first, count) =
                (lane.parse().ok()?, first.parse::<u64>().ok()?, count.parse::<u64>().ok()?);
            room = room.checked_sub(count)?;
            for number in first..first.checked_add(count)? {
                refused.add((lane, number), &why);
            }
        }
        Some(refused)
    }
}

/// Lane, first number and count of messages that follow each other.
fn each_run(messages: impl Iterator<Item = (u32, u64)>) -> impl Iterator<Item = (u32, u64, u64)> {
    let mut messages = messages.peekable();
    std::iter::from_fn(move || {
        let (lane, first) = messages.next()?;
        let mut count = 1;
        while messages.next_if_eq(&(lane, first + count)).is_some() {
            count += 1;
        }
        Some((lane, first, count))
    })
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (lane, first, count)) in self.each_run().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{lane}:{first}+{count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_as_they_were_written() {
        let text = "0:7+3 0:11+1 2:0+2";
        let refused = Refused::parse(text).unwrap();
        assert_eq!((refused.to_string().as_str(), refused.runs()), (text, 3));
        assert!(refused.reason((0, 9)).is_some() && refused.reason((0, 10)).is_none());
        assert_eq!(Refused::parse("").unwrap(), Refused::default());
        for wrong in ["0:7", "0", "x:1+2", "0:1+x", "0:18446744073709551615+2", "0:0+600000 1:0+600000"] {
            assert_eq!(Refused::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn there_is_room_for_messages_and_runs_that_are_no_dead_letters() {
        assert_eq!([Refused::default().room(7), Refused::default().room(usize::MAX)], [7, REFUSED_RUNS_MAX]);
        let mut refused = Refused::parse("0:7+3 0:11+1 2:0+2").unwrap();
        assert_eq!([refused.room(7), refused.room(3), refused.room(2)], [4, 0, 0]);
        refused.keep(&Positions::parse("0:4096:9").unwrap());
        assert_eq!(refused.room(7), 4, "a part of a run is one");
        refused.keep(&Positions::parse("0:4096:10").unwrap());
        assert_eq!(refused.room(7), 5);
        // One run, which is written in a few bytes, takes memory all the same.
        let mut long = Refused::parse(&format!("0:0+{}", REFUSED_MAX - 2)).unwrap();
        assert_eq!(long.room(usize::MAX), 2);
        long.merge(Refused::parse("1:0+2").unwrap());
        assert_eq!(long.room(usize::MAX), 0);
        assert_eq!(Refused::parse(&long.to_string()), Some(long));
    }

    #[test]
    fn what_is_a_dead_letter_is_told_from_what_is_none() {
        let mut refused = Refused::parse("0:7+3 0:11+1 2:0+2").unwrap();
        refused.keep(&Positions::parse("0:4096:9").unwrap());
        let (letters, others) = (refused.letters(), refused.without_letters());
        assert_eq!(
            (letters.to_string().as_str(), others.to_string().as_str()),
            ("0:7+2", "0:9+1 0:11+1 2:0+2")
        );
        assert!(refused.reason((0, 8)).unwrap().has_letter && !refused.reason((0, 9)).unwrap().has_letter);
        let mut later = refused.clone();
        later.forget(&[LanePlace { lane: 0, position: 4096, record: 8 }]);
        later.forget_letters(&Positions::default());
        assert_eq!(later.letters().to_string(), "0:8+1");
        later.forget_letters(&Positions::parse("0:4096:9").unwrap());
        assert_eq!(later, others);
        let mut limited = later.clone();
        limited.limit(&Positions::parse("0:4096:11 2:4096:1").unwrap());
        assert_eq!(limited.to_string(), "0:9+1 2:0+1");
        // What the progress says does not replace what the cursor says.
        later.merge(Refused::parse("0:7+2 0:9+1").unwrap());
        assert_eq!(later.to_string(), refused.to_string());
        let mut both = letters.clone();
        both.merge(Refused::parse("0:7+2").unwrap());
        assert_eq!(both, letters);
    }
}
