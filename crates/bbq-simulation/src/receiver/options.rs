//! What a receiver of requests is like.

use std::time::Duration;

use crate::random::Random;

/// Most receivers of a sink: nodes of one store.
const SERVERS_MAX: u64 = 2;
/// A sink's clock runs so much faster: a time-out is over within a run.
const CLOCK_RATES: [u32; 3] = [30, 1000, 5000];

/// How a receiver complains of a message that it never takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// It refuses the request, and takes nothing of it.
    Refuses,
    /// It takes what comes before the first such message, and refuses the request.
    TakesSome,
    /// It takes all others, and says how many it does not take.
    Counts,
    /// It fails on the request.
    Fails,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiverOptions {
    /// How much faster the sink's clock runs.
    pub(crate) clock_rate: u32,
    /// Requests at a time; `None` if that follows the receiver.
    pub(crate) in_flight: Option<usize>,
    /// How many nodes of the store the sink knows.
    pub(crate) servers: usize,
    pub(crate) timeout: Duration,
    /// A request without a message says whether it takes messages.
    pub(crate) empty_decides: bool,
    /// It never takes one of so many messages; `None` if it takes each.
    pub(crate) poison_one_in: Option<u64>,
    pub(super) complaint: Complaint,
    /// The largest request.
    pub(super) bytes_max: usize,
    /// The longest time that it is in one mood.
    pub(super) mood_max: Duration,
    /// It is in a mood other than well each so many times; `None` if never.
    pub(super) moody_one_in: Option<u64>,
    /// It may be in a mood to refuse, or to fail on, everything.
    pub(crate) refuses_all: bool,
    /// It refuses everything at first.
    pub(crate) begins_wrong: bool,
}

impl ReceiverOptions {
    /// Whether each message that it never takes is counted as refused.
    pub(super) fn counts_each_refusal(&self) -> bool {
        matches!(self.complaint, Complaint::Refuses | Complaint::TakesSome)
    }

    pub(crate) fn new(random: &mut Random) -> ReceiverOptions {
        let clock_rate = CLOCK_RATES[random.index(CLOCK_RATES.len())];
        let milliseconds = |most: u64, random: &mut Random| Duration::from_millis(random.between(1, most));
        let complaint = [
            Complaint::Refuses,
            Complaint::Refuses,
            Complaint::TakesSome,
            Complaint::Counts,
            Complaint::Fails,
        ][random.index(5)];
        // A single message on which it fails holds up the others for a minute.
        let poison_least = if complaint == Complaint::Fails { 40 } else { 4 };
        let refuses_all = random.one_in(2);
        ReceiverOptions {
            clock_rate,
            in_flight: [Some(1), Some(1), Some(4), None][random.index(4)],
            servers: random.between(1, SERVERS_MAX) as usize,
            timeout: milliseconds(30, random) * clock_rate,
            empty_decides: random.one_in(2),
            poison_one_in: (!random.one_in(4)).then(|| random.between(poison_least, 80)),
            complaint,
            bytes_max: [usize::MAX, usize::MAX, 40_000, 6000][random.index(4)],
            mood_max: milliseconds(80, random) * clock_rate,
            moody_one_in: (!random.one_in(6)).then(|| random.between(1, 4)),
            refuses_all,
            begins_wrong: refuses_all && random.one_in(2),
        }
    }
}
