//! The moods of a receiver: what it does with a request, whatever is in it.

use std::time::Duration;

use super::options::ReceiverOptions;
use crate::random::Random;

/// The longest time for which it wants to be left alone: longer than a sink leaves it alone.
const LEFT_ALONE_SECONDS_MAX: u64 = 90;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// It takes what it can.
    Well,
    /// It takes what it can, and says so late, or too late.
    Slow,
    /// It wants no more now; for so long, if it says so.
    Busy(Option<Duration>),
    /// It never answers.
    Silent,
    /// Connections break, before or after it has taken a request.
    Breaking,
    /// It refuses everything; requests without a message, too, unless it takes these.
    RefusesAll { takes_empty: bool },
    /// It fails on everything; the same.
    FailsAll { takes_empty: bool },
}

impl Mood {
    /// Draws a mood.
    pub(super) fn draw(options: &ReceiverOptions, random: &mut Random) -> Mood {
        if options.moody_one_in.is_none_or(|one_in| !random.one_in(one_in)) {
            return Mood::Well;
        }
        let takes_empty = random.one_in(3);
        match random.below(if options.refuses_all { 7 } else { 5 }) {
            0 => Mood::Slow,
            1 => Mood::Busy(None),
            2 => Mood::Busy(Some(Duration::from_secs(random.below(LEFT_ALONE_SECONDS_MAX)))),
            3 => Mood::Silent,
            4 => Mood::Breaking,
            5 => Mood::RefusesAll { takes_empty },
            _ => Mood::FailsAll { takes_empty },
        }
    }

    /// Whether a request without a message is taken; `None` if there is no answer.
    pub(super) fn takes_empty(self) -> Option<bool> {
        match self {
            Mood::Well | Mood::Slow => Some(true),
            Mood::Busy(_) | Mood::Breaking => Some(false),
            Mood::Silent => None,
            Mood::RefusesAll { takes_empty } | Mood::FailsAll { takes_empty } => Some(takes_empty),
        }
    }

    /// Whether it looks as if it took nothing at all.
    pub(super) fn is_useless(self) -> bool {
        matches!(self, Mood::RefusesAll { takes_empty: false } | Mood::FailsAll { takes_empty: false })
    }
}
