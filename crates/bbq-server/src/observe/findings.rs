//! What is wrong with the server, and what to do about it: one list, for `/status`, `/health`, `/metrics`, `bbq status`, `bbq top` and the
//! page. What the numbers of a status say is decided from that status, so a finding and its number never differ.

use std::time::Duration;

use bbq_spool::LaneCondition;

use crate::lifecycle::parts::{Parts, waiting_for_space};
use crate::observe::evenness::is_meant_to_be_even;
use crate::observe::exposure::exposure;
use crate::observe::status::{Finding, Level, ListenerStatus, SpoolStatus, Status, WorkerStatus};

/// A worker returns to its event loop after milliseconds. Over this a person notices, and a machine that is merely busy
/// has scheduled the thread.
const STALLED_MS: u64 = 1000;
/// The share of the spool, in tenths, from which somebody should look at the sinks before senders have to wait.
const SPOOL_NEARLY_FULL_TENTHS: u64 = 9;

/// Whether a worker that has not returned to its event loop for so long is a problem.
pub(crate) fn is_stalled(heartbeat_ms: u64) -> bool {
    heartbeat_ms > STALLED_MS
}

impl Parts {
    /// Everything that somebody should know, the problems first. `status` has the numbers already.
    pub(crate) fn findings(&self, status: &Status) -> Vec<Finding> {
        let workers = status.workers.iter().filter_map(|worker| stalled(worker, status));
        let ongoing = self.changes.drops.ongoing(self.drops());
        // A stop closes the lanes.
        let stopping = self.stopping.get().map(|drain_timeout| stopping(*drain_timeout, status));
        let lanes = self.of_lanes().filter(|_| stopping.is_none());
        let mut found: Vec<Finding> = lanes.chain(workers).chain(self.of_sinks()).collect();
        found.extend(stopping.clone());
        found.extend(self.of_listeners().chain(ongoing));
        found.extend(nearly_full(&status.spool, !self.sinks.is_empty()));
        let meant_even = self.listeners.iter().zip(&status.listeners).filter(|(listener, _)| {
            is_meant_to_be_even(listener.group.distribution(), &listener.spec().steering)
        });
        found.extend(meant_even.filter_map(|(_, status)| uneven(status)));
        found.extend(status.refused_change.as_deref().map(refused));
        found.extend(self.listeners.iter().filter_map(|listener| exposure(&listener.spec())));
        found.sort_by_key(|finding| match finding.level {
            Level::Problem => 0,
            Level::Notice => 1,
            Level::Warning => 2,
        });
        found
    }

    fn of_lanes(&self) -> impl Iterator<Item = Finding> {
        self.lanes.iter().filter_map(|lane| {
            let subject = format!("lane {}", lane.index());
            match lane.view().condition {
                LaneCondition::Writing => None,
                LaneCondition::WaitingForSpace => {
                    let no_room = lane.no_room()?;
                    let remedy = match (no_room.is_spool_full, self.sinks.is_empty()) {
                        (false, _) => "senders wait or messages are dropped (on_full)",
                        (true, true) => {
                            "senders wait or messages are dropped (on_full); no sink is configured that would make room: add one and restart"
                        }
                        (true, false) => {
                            "senders wait or messages are dropped (on_full); a sink that has a problem, or has most queued, keeps the segments"
                        }
                    };
                    let text = waiting_for_space(lane, &no_room);
                    Some(problem("lane-waits-for-space", subject, text, remedy))
                }
                LaneCondition::Failed => {
                    let why = lane.failure().unwrap_or_default();
                    let text = format!("{subject} failed and takes nothing until a restart: {why}");
                    let remedy = "look at the disk (dmesg), then restart: the new start reads what the disk really has";
                    Some(problem("lane-failed", subject, text, remedy))
                }
            }
        })
    }

    fn of_sinks(&self) -> impl Iterator<Item = Finding> {
        self.sinks.iter().filter_map(|(spec, ledger)| {
            let subject = format!("sink {spec}");
            let text = format!("{subject} cannot deliver and tries again: {}", ledger.problem()?);
            let remedy = if ledger.is_disk_full() {
                "make room on the disk of this path; delivery resumes by itself, and messages stay in the spool up to spool.bytes_max"
            } else {
                "fix the destination; delivery resumes by itself, and messages stay in the spool up to spool.bytes_max"
            };
            Some(problem("sink-cannot-deliver", subject, text, remedy))
        })
    }

    fn of_listeners(&self) -> impl Iterator<Item = Finding> {
        self.listeners.iter().enumerate().flat_map(|(index, listener)| {
            let subject = format!("listener {}", listener.spec().text);
            let of = |name: &str, what: String, remedy: &str| {
                problem(name, subject.clone(), format!("{subject} {what}"), remedy)
            };
            let failed = self.ledger.listener(index).failure();
            let foreign = listener.foreign.problem();
            let certificate = listener.tls.as_ref().and_then(|tls| tls.problem());
            let tokens = listener.tokens.as_ref().and_then(|tokens| tokens.problem());
            [
                failed.map(|why| of("listener-failed", format!("no longer takes messages: {why}"), "restart the server")),
                foreign.map(|what| {
                    let remedy = "they take a share of the senders that never arrives here: find them (ps -fp PID) and stop them";
                    of("address-shared", what, remedy)
                }),
                certificate.map(|why| {
                    let what = format!("serves an old certificate, as the new one cannot be used: {why}");
                    of("certificate-old", what, "correct the file; it is read again by itself")
                }),
                tokens.map(|why| {
                    let what = format!("takes old tokens, as the new file cannot be used: {why}");
                    of("tokens-old", what, "correct the file; it is read again by itself")
                }),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
        })
    }
}

fn problem(name: &str, subject: String, text: String, remedy: &str) -> Finding {
    Finding { level: Level::Problem, name: name.to_owned(), subject, text, remedy: remedy.to_owned() }
}

fn stalled(worker: &WorkerStatus, status: &Status) -> Option<Finding> {
    let (index, connections, pid) = (worker.index, worker.connections, status.pid);
    let subject = format!("worker {index}");
    let queue = if status.workers.len() == 1 {
        "nobody else serves its queue"
    } else {
        "others serve its queue, unless stall_threshold_ms is 0"
    };
    let seconds = worker.heartbeat_ms as f64 / 1000.0;
    let text = format!("{subject} is stalled: it has not returned to its event loop for {seconds:.1} s");
    let remedy = format!(
        "its {connections} connections wait; {queue}. Look at the thread worker-{index} (top -H -p {pid}): at 100 % it is \
         overloaded, in state D it waits for the disk, in state t a debugger holds it, in state R at 0 % others have its processor, or its group has used up its time"
    );
    worker.stalled.then(|| problem("worker-stalled", subject, text, &remedy))
}

fn stopping(drain_timeout: Duration, status: &Status) -> Finding {
    let waited_for: Vec<&str> =
        status.sinks.iter().filter(|sink| sink.queued > 0).map(|sink| sink.name.as_str()).collect();
    let seconds = drain_timeout.as_secs();
    let waits = match waited_for.as_slice() {
        [] => String::new(),
        [sink] => format!(", and waits for sink {sink}, at most {seconds} s"),
        sinks => format!(", and waits for sinks {}, at most {seconds} s", sinks.join(", ")),
    };
    let remedy = "what the sinks have not taken by then stays in the spool for the next start";
    warning("stopping", "server".to_owned(), format!("the server stops{waits}"), remedy)
}

fn warning(name: &str, subject: String, text: String, remedy: &str) -> Finding {
    Finding { level: Level::Warning, ..problem(name, subject, text, remedy) }
}

fn nearly_full(spool: &SpoolStatus, has_sinks: bool) -> Option<Finding> {
    let is_it =
        u128::from(spool.bytes) * 10 >= u128::from(spool.bytes_max) * u128::from(SPOOL_NEARLY_FULL_TENTHS);
    let text = || {
        let percent = u128::from(spool.bytes) * 100 / u128::from(spool.bytes_max.max(1));
        format!("the spool is {percent} % full")
    };
    let remedy = if has_sinks {
        "a sink is behind; when the spool is full, senders wait or messages are dropped (on_full)"
    } else {
        "no sink is configured; when the spool is full, senders wait or messages are dropped (on_full): add a sink, by a reload while there is room"
    };
    is_it.then(|| warning("spool-nearly-full", "spool".to_owned(), text(), remedy))
}

fn uneven(listener: &ListenerStatus) -> Option<Finding> {
    let evenness = listener.evenness.as_ref().filter(|evenness| evenness.uneven)?;
    let subject = format!("listener {}", listener.spec);
    let text = format!(
        "{subject}: one worker gets far more connections than the others, and not by chance ({} to {} of {})",
        evenness.smallest, evenness.largest, evenness.connections
    );
    let remedy = "look for another process at the address, or few clients with few ports; distribution=shared ignores both";
    Some(warning("shares-uneven", subject, text, remedy))
}

fn refused(why: &str) -> Finding {
    let text = format!("the last change was refused: {why}");
    warning(
        "change-refused",
        "configuration".to_owned(),
        text,
        "the server goes on as before; correct it and try again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(bytes: u64) -> SpoolStatus {
        SpoolStatus { bytes, bytes_max: 1000, ..SpoolStatus::default() }
    }

    #[test]
    fn a_spool_is_nearly_full_from_nine_tenths() {
        assert_eq!(nearly_full(&spool(899), true), None);
        assert_eq!(nearly_full(&spool(900), true).map(|finding| finding.level), Some(Level::Warning));
        let huge = SpoolStatus { bytes: u64::MAX, bytes_max: u64::MAX, ..SpoolStatus::default() };
        assert!(nearly_full(&huge, true).is_some_and(|finding| finding.text.contains("100 % full")));
    }

    #[test]
    fn a_worker_is_stalled_only_after_what_a_person_notices() {
        assert!(!is_stalled(STALLED_MS) && is_stalled(STALLED_MS + 1));
    }
}
