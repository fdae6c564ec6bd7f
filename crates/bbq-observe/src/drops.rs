//! Reports dropped messages and closed connections while they happen: in the log, at a limited rate, and in the status and
//! /health until a minute after the last.
//!
//! Counters are compared once a second, so counting costs nothing more than the counter itself. The ledgers decide what is
//! counted, and where.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use crate::status::{Finding, Level};

/// Time between two lines about the same episode.
const LINE_INTERVAL: Duration = Duration::from_secs(10);
/// An episode ends when nothing has happened for this long. A monitor that asks /health once a minute sees every episode.
const EPISODE_END: Duration = Duration::from_secs(60);

/// A counter: how often `what` has happened at `subject`, ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    /// A listener, or a sink.
    pub(crate) subject: String,
    /// Why messages are dropped, or one of the names below.
    pub(crate) what: String,
    pub(crate) count: u64,
}

impl Tally {
    /// One tally of each subject and reason, with the sum of its counts.
    pub(crate) fn summed(tallies: impl Iterator<Item = Tally>) -> Vec<Tally> {
        let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
        for Tally { subject, what, count } in tallies {
            let sum = sums.entry((subject, what)).or_default();
            *sum = sum.saturating_add(count);
        }
        sums.into_iter().map(|((subject, what), count)| Tally { subject, what, count }).collect()
    }
}

/// Connections that were closed to make room for others.
pub(crate) const EVICTED: &str = "evicted";
/// Connections that were closed because their address had too many.
pub(crate) const OVER_LIMIT: &str = "over_limit";
/// Times that a connection waited, or a request was refused, because its address had sent too much.
pub(crate) const SLOWED: &str = "slowed";

/// Messages that waited for a sink beyond what it may hold.
pub(crate) const OVER_SPOOL_LIMIT: &str = "over_spool_limit";
/// Dead letters that were deleted, as there was no more room for them.
pub(crate) const LETTERS_DELETED: &str = "letters_deleted";
/// Times that another program cut the file of a sink short.
pub(crate) const TRUNCATED: &str = "truncated";

/// Whose fault a drop is. This decides whether the server works as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The server lost messages that it should have kept: a problem.
    Server,
    /// Single senders are at fault: a notice. A sender must not be able to make the server look unhealthy.
    Sender,
}

/// Kept across restarts in place.
#[derive(Debug, Default)]
pub(crate) struct Drops(Mutex<BTreeMap<(String, String), Row>>);

#[derive(Debug, Default)]
struct Row {
    /// The count at the last check.
    count: u64,
    episode: Option<Episode>,
}

/// An episode in progress.
#[derive(Debug)]
struct Episode {
    /// The count before the episode began, and at the last report.
    before: u64,
    told: u64,
    told_at: Instant,
    last: Instant,
}

/// What to log about a row.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// The count since the last line, and in the whole episode.
    More {
        count: u64,
        episode: u64,
    },
    Over {
        episode: u64,
    },
}

impl Drops {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<(String, String), Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Treats everything counted so far as reported.
    pub(crate) fn begin(&self, tallies: Vec<Tally>) {
        let mut rows = self.locked();
        // Listeners and sinks may be gone since a reload.
        rows.retain(|(subject, _), _| tallies.iter().any(|tally| tally.subject == *subject));
        for Tally { subject, what, count } in tallies {
            let row = rows.entry((subject, what)).or_default();
            if count < row.count {
                // The counter was reset.
                row.episode = None;
            }
            row.count = count;
        }
    }

    /// Compares with the last check, and logs.
    pub(crate) fn check(&self, tallies: Vec<Tally>) {
        self.check_all(tallies, |row, count| row.check(count, Instant::now()));
    }

    /// Logs everything that is not reported yet, as the server stops.
    pub(crate) fn check_last(&self, tallies: Vec<Tally>) {
        self.check_all(tallies, |row, count| row.report_rest(count, Instant::now()));
    }

    fn check_all(&self, tallies: Vec<Tally>, check: impl Fn(&mut Row, u64) -> Option<Line>) {
        let mut rows = self.locked();
        for Tally { subject, what, count } in tallies {
            let row = rows.entry((subject.clone(), what.clone())).or_default();
            if let Some(line) = check(row, count) {
                log(&subject, &what, &line);
            }
        }
    }

    /// The episodes of the last minute, with what is counted now.
    pub(crate) fn ongoing(&self, tallies: Vec<Tally>) -> Vec<Finding> {
        let rows = self.locked();
        let now: BTreeMap<(String, String), u64> =
            tallies.into_iter().map(|tally| ((tally.subject, tally.what), tally.count)).collect();
        let ongoing = rows.iter().filter_map(|(row_of, row)| {
            let ((subject, what), episode) = (row_of, row.episode.as_ref()?);
            let count = now.get(row_of).copied().unwrap_or(row.count).saturating_sub(episode.before);
            let is_more = now.get(row_of).is_some_and(|now| *now > row.count);
            let ago = if is_more { 0 } else { episode.last.elapsed().as_secs() };
            let things = things(what, count);
            let (fault, remedy) = cause(what);
            let level = match fault {
                Fault::Sender => Level::Notice,
                Fault::Server => Level::Problem,
            };
            let name = if counted(what).is_some() { what.clone() } else { format!("dropped-{what}") };
            let text = format!("{subject}: {count} {things}, the last {ago} s ago");
            let (subject, effect, remedy) = (subject.clone(), effect(what).to_owned(), remedy.to_owned());
            Some(Finding { level, name, subject, text, effect, remedy, since_seconds: None })
        });
        ongoing.collect()
    }
}

impl Row {
    fn check(&mut self, count: u64, now: Instant) -> Option<Line> {
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

    fn report_rest(&mut self, count: u64, now: Instant) -> Option<Line> {
        let line = self.check(count, now);
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

/// Whose fault it is, and what to do about it.
static CAUSES: [(&str, Fault, &str); 22] = [
    (
        "full",
        Fault::Server,
        "the spool was full (on_full=drop-newest): speed up the sink with the most queued, or raise spool.bytes_max",
    ),
    (
        "kernel",
        Fault::Server,
        "the socket's receive buffer was full: raise receive_buffer_bytes and net.core.rmem_max",
    ),
    (
        "memory",
        Fault::Server,
        "unfinished messages took too much memory, so the largest ones of the senders with the most were dropped: raise \
         unfinished_bytes_max, or lower message_bytes_max",
    ),
    ("unwritten", Fault::Server, "a lane failed, or had no room when the server stopped: check the disk"),
    (
        "oldest",
        Fault::Server,
        "deleted for room before the sink read them (on_full=drop-oldest): speed up the sink, or raise spool.bytes_max",
    ),
    ("damaged", Fault::Server, "bytes of the spool were damaged: check the disk, and see quarantine/"),
    (
        "missing",
        Fault::Server,
        "all files of a lane of the spool were gone at the start: find out what deleted them, as the server never deletes all",
    ),
    (
        OVER_SPOOL_LIMIT,
        Fault::Server,
        "more waited for this sink than its spool_bytes_max or on_full=drop-oldest allow: speed up its destination, or raise the limit",
    ),
    (
        "over_age",
        Fault::Server,
        "they waited for this sink longer than its spool_seconds_max allows: speed up its destination, or raise the limit",
    ),
    (
        LETTERS_DELETED,
        Fault::Server,
        "the sink's server refuses messages for good, and the oldest of them are deleted: save them with bbq spool cat, fix what is \
         refused, or raise dead_letters_bytes",
    ),
    (
        TRUNCATED,
        Fault::Sender,
        "messages written between its copy and the cut are in neither file: let logrotate use create and kill -HUP, not copytruncate, or \
         set rotate_bytes",
    ),
    ("oversize", Fault::Sender, "larger than message_bytes_max: raise it, or set on_oversize=cut"),
    (
        "incomplete",
        Fault::Sender,
        "connections ended in the middle of a message: on_incomplete=keep keeps the received part",
    ),
    ("malformed", Fault::Sender, "the messages violate the protocol: the log names their senders"),
    (
        "refused",
        Fault::Sender,
        "the sink's server refuses these messages for good: bbq spool cat --json prints them and the reasons, from dead-letters/",
    ),
    (
        "skipped",
        Fault::Sender,
        "an operator has skipped them (bbq sink skip): bbq spool cat prints them, from dead-letters/",
    ),
    ("before-sink", Fault::Sender, "received before the sink begins (start): nothing is wrong"),
    (
        "partial_success",
        Fault::Sender,
        "the sink's server takes requests and rejects some of their messages, without saying which: its reason is in the log",
    ),
    (
        EVICTED,
        Fault::Sender,
        "connections or memory ran out, so connections of the senders with the most were closed: raise the limit of open files, or \
         unfinished_bytes_max",
    ),
    (
        OVER_LIMIT,
        Fault::Sender,
        "some addresses reached connections_per_address_max: the log names them; raise the limit if they are legitimate",
    ),
    (
        "over_rate",
        Fault::Sender,
        "some addresses sent more than messages_per_second_per_address_max, or batches that decompress to over a thousand times their \
         size: the log names them; raise the limit if they are legitimate",
    ),
    (
        SLOWED,
        Fault::Sender,
        "some addresses sent more than messages_per_second_per_address_max, sent messages that decompress to over a thousand times their \
         size, or flooded HTTP/2 connections: the log names them; raise the limit if they are legitimate",
    ),
];

/// Other reasons have no remedy.
fn cause(what: &str) -> (Fault, &'static str) {
    let known = CAUSES.iter().find(|(reason, ..)| *reason == what);
    known.map_or((Fault::Server, ""), |(_, fault, remedy)| (*fault, remedy))
}

/// What it means for messages, where that is not plain from the count.
fn effect(what: &str) -> &'static str {
    match what {
        "memory" => "earlier and later messages of these senders were taken",
        EVICTED => "bbq and HTTP clients send unacknowledged messages again",
        _ => "",
    }
}

/// What is counted, where it is not messages.
fn counted(what: &str) -> Option<&'static str> {
    match what {
        EVICTED => Some("connections closed to make room for others"),
        OVER_LIMIT => Some("connections closed because their addresses had too many"),
        SLOWED => Some("waits of senders whose addresses sent too much"),
        LETTERS_DELETED => Some("dead letters deleted because they reached dead_letters_bytes"),
        TRUNCATED => Some("times that another program truncated the output file"),
        _ => None,
    }
}

fn things(what: &str, count: u64) -> String {
    let messages = if count == 1 { "message" } else { "messages" };
    counted(what).map_or_else(|| format!("{messages} dropped ({what})"), str::to_owned)
}

fn log(subject: &str, what: &str, line: &Line) {
    let (fault, remedy) = cause(what);
    match *line {
        Line::More { count, episode } => match (counted(what), fault) {
            (Some(things), Fault::Server) => error!(at = subject, count, episode, remedy, "{things}"),
            (Some(things), Fault::Sender) => warn!(at = subject, count, episode, remedy, "{things}"),
            (None, Fault::Server) => {
                error!(at = subject, reason = what, count, episode, remedy, "messages dropped");
            }
            (None, Fault::Sender) => {
                warn!(at = subject, reason = what, count, episode, remedy, "messages dropped")
            }
        },
        Line::Over { episode } => {
            info!(at = subject, reason = what, episode, "none for a minute");
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
            self.row.check(count, self.now)
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
    fn what_an_operator_chose_is_no_problem() {
        for reason in ["skipped", "before-sink"] {
            assert_eq!(cause(reason).0, Fault::Sender, "{reason}");
        }
        assert_eq!(cause("over_age").0, Fault::Server);
    }

    #[test]
    fn a_stop_tells_what_is_not_told() {
        let mut run = Run { row: Row::default(), now: Instant::now() };
        assert_eq!(run.row.report_rest(0, run.now), None);
        assert_eq!(run.after(1, 3), Some(Line::More { count: 3, episode: 3 }));
        assert_eq!(run.row.report_rest(7, run.now), Some(Line::More { count: 4, episode: 7 }));
        assert_eq!(run.row.report_rest(7, run.now), None);
    }

    #[test]
    fn listeners_of_one_name_have_one_count() {
        let tally = |count| Tally { subject: "s".to_owned(), what: "full".to_owned(), count };
        let both = || Tally::summed([tally(9), tally(2)].into_iter());
        assert_eq!(both(), [tally(11)]);
        let drops = Drops::default();
        drops.begin(both());
        drops.check(both());
        assert!(drops.ongoing(both()).is_empty(), "two counts in turn look like an increase");
    }

    #[test]
    fn what_single_senders_do_is_no_problem() {
        let drops = Drops::default();
        let tally = |what: &str, count| Tally { subject: "s".to_owned(), what: what.to_owned(), count };
        drops.begin(vec![tally("full", 9)]);
        drops.check(vec![tally("full", 9), tally("malformed", 2)]);
        let levels =
            || drops.ongoing(Vec::new()).into_iter().map(|finding| finding.level).collect::<Vec<_>>();
        assert_eq!(levels(), [Level::Notice]);
        drops.check(vec![tally("full", 10)]);
        assert_eq!(levels(), [Level::Problem, Level::Notice]);
        let line = drops.ongoing(Vec::new())[0].line();
        assert!(line.starts_with("s: 1 message dropped (full), the last 0 s ago: "), "{line}");
        let line = drops.ongoing(vec![tally("full", 12)])[0].line();
        assert!(line.starts_with("s: 3 messages dropped (full), "), "since the last check: {line}");
    }
}
