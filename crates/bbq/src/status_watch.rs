//! `bbq status --watch`: a line at each interval, with what came since the last one.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use bbq_server::config::Secret;
use bbq_server::status::{Finding, Level, Status};
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval};

use crate::arguments::StatusArguments;
use crate::outcome::{Outcome, misuse};
use crate::question::{self, ask};
use crate::safe_text::safe_json;

/// The shortest time between two lines, in seconds, and the longest.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=86_400.0;
/// So many lines have the names of the columns above them, as a terminal shows them at once.
const LINES_OF_HEAD: u32 = 20;

/// What lines count.
#[derive(Clone, Copy)]
struct Counts {
    at: Instant,
    received: u64,
    delivered: u64,
    dropped: u64,
}

/// Ends with an error, or by a signal.
pub(crate) fn run(
    runtime: &Runtime,
    arguments: &StatusArguments,
    seconds: f64,
    token: Option<&Secret>,
) -> anyhow::Result<Outcome> {
    if !SECONDS.contains(&seconds) {
        return Err(misuse(anyhow!("--watch {seconds}: use a number of seconds from 0.1 to 86400")));
    }
    let admin = arguments.server.admin;
    let mut out = io::stdout().lock();
    runtime.block_on(async {
        let mut due = interval(Duration::from_secs_f64(seconds));
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut lines, mut told) = (None, 0, BTreeSet::new());
        loop {
            due.tick().await;
            let answer = ask(admin, token, || {}).await?;
            if arguments.json {
                out.write_all(&safe_json(&answer))?;
                writeln!(out)?;
            } else {
                let status = question::status_in(admin, &answer)?;
                let counts = Counts::of(&status, Instant::now());
                if let Some(last) = last.replace(counts) {
                    if lines % LINES_OF_HEAD == 0 {
                        write_head(&mut out)?;
                        told.clear();
                    }
                    lines += 1;
                    write_line(&status, last, counts, &mut told, &mut out)?;
                }
            }
            out.flush()?;
        }
    })
}

impl Counts {
    fn of(status: &Status, at: Instant) -> Counts {
        let ledger = &status.ledger;
        let dropped = ledger.dropped.values().sum();
        Counts { at, received: ledger.received, delivered: ledger.delivered, dropped }
    }
}

fn write_head(out: &mut dyn Write) -> io::Result<()> {
    let [received, delivered, dropped] = ["received/s", "delivered/s", "dropped/s"];
    writeln!(
        out,
        "{received:>12} {delivered:>12} {dropped:>12} {:>14} {:>12}  problems",
        "queued", "connections"
    )
}

/// Those that were told since the head, by name and subject: their texts have numbers that change.
type Told = BTreeSet<(String, String)>;

/// The problems, each in full where it begins and in the first line behind a head.
fn problems(status: &Status, told: &mut Told) -> String {
    let problems: Vec<Finding> =
        status.findings().into_iter().filter(|finding| finding.level == Level::Problem).collect();
    // An older server does not name them.
    let key = |finding: &Finding| match finding.name.as_str() {
        "" => (finding.text.clone(), String::new()),
        name => (name.to_owned(), finding.subject.clone()),
    };
    let new: Vec<&Finding> = problems.iter().filter(|finding| !told.contains(&key(finding))).collect();
    let text = match (new.as_slice(), problems.len()) {
        ([], 0) => "none".to_owned(),
        ([], count) => format!("{count} as above"),
        ([first, ..], 1) => first.line(),
        ([first, ..], count) => format!("{}; and {} more", first.line(), count - 1),
    };
    *told = problems.iter().map(key).collect();
    text
}

fn write_line(
    status: &Status,
    last: Counts,
    now: Counts,
    told: &mut Told,
    out: &mut dyn Write,
) -> io::Result<()> {
    let seconds = now.at.duration_since(last.at).as_secs_f64();
    // A server that was started again counts on from its disk, but may have taken something back.
    let rate = |now: u64, last: u64| (now.saturating_sub(last) as f64 / seconds).round();
    let connections: u64 = status.workers.iter().map(|worker| worker.connections).sum();
    let problems = problems(status, told);
    writeln!(
        out,
        "{:>12} {:>12} {:>12} {:>14} {connections:>12}  {problems}",
        rate(now.received, last.received),
        rate(now.delivered, last.delivered),
        rate(now.dropped, last.dropped),
        status.ledger.queued,
    )
}

#[cfg(test)]
mod tests {
    use bbq_server::status::LedgerStatus;

    use super::*;

    #[test]
    fn a_line_has_what_came_since_the_last_one() {
        let at = Instant::now();
        let last = Counts { at, received: 1000, delivered: 900, dropped: 0 };
        let dropped = [("full".to_owned(), 40)].into();
        let ledger = LedgerStatus {
            received: 1500,
            delivered: 900,
            delivered_by_any: 900,
            queued: 560,
            dropped,
            filtered: 0,
        };
        let problems = ["the disk is full".to_owned(), "a".to_owned(), "b".to_owned()].into();
        let status = Status { ledger, problems, ..Status::default() };
        let now = Counts::of(&status, at + Duration::from_secs(2));
        let mut told = Told::new();
        let mut line = |status: &Status| {
            let mut line = Vec::new();
            write_line(status, last, now, &mut told, &mut line).unwrap();
            String::from_utf8(line).unwrap()
        };
        let first = line(&status);
        assert!(line(&status).ends_with("  3 as above\n"));
        let healed = Status { problems: Vec::new(), ..status.clone() };
        assert!(line(&healed).ends_with("  none\n"));
        let line = first;
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..5], ["250", "0", "20", "560", "0"]);
        assert!(line.ends_with("  the disk is full; and 2 more\n"), "{line}");
    }
}
