//! Tells of dropped messages and closed connections while it happens: in the log, not more often than one can read, and in
//! status and /health until a minute after the last.
//!
//! Counters are compared once a second, so counting costs nothing more than the counter itself. What is counted, and where, is
//! the ledgers' business.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

/// Between two lines about the same thing, while it goes on.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// An episode lasts until nothing happened for so long; whoever asks /health once a minute sees each.
const EPISODE_END: Duration = Duration::from_secs(60);

/// Something that is counted: `what` happened at `subject` so often, ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// A listener, or a sink.
    pub(crate) subject: String,
    /// A reason for which messages are dropped, or [`EVICTED`].
    pub(crate) what: String,
    pub(crate) count: u64,
}

/// Connections that were closed to make room for others.
pub(crate) const EVICTED: &str = "evicted";

/// Whose fault it is, and so whether the server works as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The server did not keep what it should have kept: a problem.
    Server,
    /// Single senders: a notice. A sender must not be able to have the server taken out of service.
    Sender,
}

/// What a row of [`CAUSES`] says about a reason.
struct Cause {
    what: &'static str,
    fault: Fault,
    remedy: &'static str,
}

const CAUSES: [Cause; 10] = [
    Cause {
        what: "full",
        fault: Fault::Server,
        remedy: "the spool was full (on_full=drop-newest): speed up the sink with the most queued, or raise spool.bytes_max",
    },
    Cause {
        what: "kernel",
        fault: Fault::Server,
        remedy: "the socket's receive buffer was full: raise receive_buffer_bytes and net.core.rmem_max",
    },
    Cause {
        what: "memory",
        fault: Fault::Server,
        remedy: "unfinished messages took too much memory: raise unfinished_bytes_max, or lower message_bytes_max",
    },
    Cause {
        what: "unwritten",
        fault: Fault::Server,
        remedy: "a lane failed, or had no room when the server stopped: look at the disk",
    },
    Cause {
        what: "oldest",
        fault: Fault::Server,
        remedy: "deleted for room before the sink read them (on_full=drop-oldest): speed up the sink, or raise spool.bytes_max",
    },
    Cause {
        what: "damaged",
        fault: Fault::Server,
        remedy: "bytes of the spool were damaged: look at the disk, and into quarantine/",
    },
    Cause {
        what: "oversize",
        fault: Fault::Sender,
        remedy: "larger than message_bytes_max: raise it, or set on_oversize=cut",
    },
    Cause {
        what: "incomplete",
        fault: Fault::Sender,
        remedy: "connections ended in the middle of a message: on_incomplete=keep keeps what came of it",
    },
    Cause {
        what: "malformed",
        fault: Fault::Sender,
        remedy: "not what the protocol says: the log names the senders",
    },
    Cause {
        what: EVICTED,
        fault: Fault::Sender,
        remedy: "they made no progress for longest when connections or memory ran out: raise the limit of open files, or \
                 unfinished_bytes_max",
    },
];

/// Over restarts in place.
#[derive(Debug, Default)]
pub(crate) struct Drops(Mutex<BTreeMap<(String, String), Row>>);

#[derive(Debug, Default)]
struct Row {
    /// At the last look.
    count: u64,
    episode: Option<Episode>,
}

/// Something goes on.
#[derive(Debug)]
struct Episode {
    /// The count before it began, and when it was last told.
    before: u64,
    told: u64,
    told_at: Instant,
    last: Instant,
}

/// What is to be said about a row.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// So many since the last line, and so many in the episode.
    More {
        count: u64,
        episode: u64,
    },
    Over {
        episode: u64,
    },
}

/// What is going on, a line each.
#[derive(Debug, Default)]
pub(crate) struct Going {
    pub(crate) problems: Vec<String>,
    pub(crate) notices: Vec<String>,
}

impl Drops {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<(String, String), Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what was counted before as told.
    pub(crate) fn begin(&self, tallies: Vec<Tally>) {
        let mut rows = self.locked();
        // Listeners and sinks may be gone since a reload.
        rows.retain(|(subject, _), _| tallies.iter().any(|tally| tally.subject == *subject));
        for Tally { subject, what, count } in tallies {
            let row = rows.entry((subject, what)).or_default();
            if count < row.count {
                // Counted anew.
                row.episode = None;
            }
            row.count = count;
        }
    }

    /// Compares with the last look, and logs.
    pub(crate) fn look(&self, tallies: Vec<Tally>) {
        self.look_at(tallies, |row, count| row.look(count, Instant::now()));
    }

    /// Logs what would be said later: the server stops.
    pub(crate) fn look_last(&self, tallies: Vec<Tally>) {
        self.look_at(tallies, |row, count| row.tell_rest(count, Instant::now()));
    }

    fn look_at(&self, tallies: Vec<Tally>, look: impl Fn(&mut Row, u64) -> Option<Line>) {
        let mut rows = self.locked();
        for Tally { subject, what, count } in tallies {
            let row = rows.entry((subject.clone(), what.clone())).or_default();
            if let Some(line) = look(row, count) {
                log(&subject, &what, &line);
            }
        }
    }

    /// What happened within the last minute.
    pub(crate) fn going(&self) -> Going {
        let mut going = Going::default();
        for ((subject, what), row) in &*self.locked() {
            let Some(episode) = &row.episode else { continue };
            let (count, ago) = (row.count.saturating_sub(episode.before), episode.last.elapsed().as_secs());
            let things = things(what);
            let remedy = cause(what).map_or("", |cause| cause.remedy);
            let line = format!("{subject}: {count} {things}, the last {ago} s ago: {remedy}");
            match cause(what).map(|cause| cause.fault) {
                Some(Fault::Sender) => going.notices.push(line),
                _ => going.problems.push(line),
            }
        }
        going
    }
}

impl Row {
    fn look(&mut self, count: u64, now: Instant) -> Option<Line> {
        let more = count > self.count;
        let before = std::mem::replace(&mut self.count, count);
        let Some(episode) = &mut self.episode else {
            self.episode = more.then_some(Episode { before, told: count, told_at: now, last: now });
            let since = count.saturating_sub(before);
            return more.then_some(Line::More { count: since, episode: since });
        };
        if more {
            episode.last = now;
        }
        if count > episode.told && now.saturating_duration_since(episode.told_at) >= LINE_INTERVAL {
            return Some(episode.more(count, now));
        }
        if now.saturating_duration_since(episode.last) < EPISODE_END {
            return None;
        }
        let episode = self.episode.take()?;
        Some(Line::Over { episode: count.saturating_sub(episode.before) })
    }

    fn tell_rest(&mut self, count: u64, now: Instant) -> Option<Line> {
        let line = self.look(count, now);
        line.or_else(|| self.episode.as_mut().filter(|episode| count > episode.told)?.more(count, now).into())
    }
}

impl Episode {
    fn more(&mut self, count: u64, now: Instant) -> Line {
        let since = count - std::mem::replace(&mut self.told, count);
        self.told_at = now;
        Line::More { count: since, episode: count.saturating_sub(self.before) }
    }
}

fn cause(what: &str) -> Option<&'static Cause> {
    CAUSES.iter().find(|cause| cause.what == what)
}

fn things(what: &str) -> String {
    match what {
        EVICTED => "connections closed to make room for others".to_owned(),
        reason => format!("messages dropped ({reason})"),
    }
}

fn log(subject: &str, what: &str, line: &Line) {
    let remedy = cause(what).map_or("", |cause| cause.remedy);
    let is_loss = cause(what).is_none_or(|cause| cause.fault == Fault::Server);
    match *line {
        Line::More { count, episode } if is_loss => {
            error!(at = subject, reason = what, count, episode, remedy, "messages dropped");
        }
        Line::More { count, episode } if what == EVICTED => {
            warn!(at = subject, count, episode, remedy, "connections closed to make room for others");
        }
        Line::More { count, episode } => {
            warn!(at = subject, reason = what, count, episode, remedy, "messages dropped");
        }
        Line::Over { episode } => {
            info!(at = subject, reason = what, episode, "no more of this for a minute");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Run {
        row: Row,
        now: Instant,
    }

    impl Run {
        fn after(&mut self, seconds: u64, count: u64) -> Option<Line> {
            self.now += Duration::from_secs(seconds);
            self.row.look(count, self.now)
        }
    }

    #[test]
    fn an_episode_is_told_at_once_then_in_sums_and_then_its_end() {
        let mut run = Run { row: Row { count: 100, episode: None }, now: Instant::now() };
        assert_eq!(run.after(1, 100), None, "of an earlier start");
        assert_eq!(run.after(1, 105), Some(Line::More { count: 5, episode: 5 }));
        for second in 1..10 {
            assert_eq!(run.after(1, 105 + second), None);
        }
        assert_eq!(run.after(1, 120), Some(Line::More { count: 15, episode: 20 }));
        assert_eq!(run.after(1, 121), None);
        // Nothing more comes, and what was not said is.
        assert_eq!(run.after(9, 121), Some(Line::More { count: 1, episode: 21 }));
        assert_eq!(run.after(50, 121), None);
        assert_eq!(run.after(1, 121), Some(Line::Over { episode: 21 }));
        assert_eq!(run.after(1, 121), None);
        assert_eq!(run.after(1, 122), Some(Line::More { count: 1, episode: 1 }));
    }

    #[test]
    fn a_stop_tells_what_is_not_told() {
        let mut run = Run { row: Row::default(), now: Instant::now() };
        assert_eq!(run.row.tell_rest(0, run.now), None);
        assert_eq!(run.after(1, 3), Some(Line::More { count: 3, episode: 3 }));
        assert_eq!(run.row.tell_rest(7, run.now), Some(Line::More { count: 4, episode: 7 }));
        assert_eq!(run.row.tell_rest(7, run.now), None);
    }

    #[test]
    fn what_single_senders_do_is_no_problem() {
        let drops = Drops::default();
        let tally = |what: &str, count| Tally { subject: "s".to_owned(), what: what.to_owned(), count };
        drops.begin(vec![tally("full", 9)]);
        drops.look(vec![tally("full", 9), tally("malformed", 2)]);
        let going = drops.going();
        assert_eq!((going.problems.len(), going.notices.len()), (0, 1), "{going:?}");
        drops.look(vec![tally("full", 10)]);
        let going = drops.going();
        assert!(
            going.problems[0].starts_with("s: 1 messages dropped (full), the last 0 s ago: "),
            "{going:?}"
        );
    }
}
