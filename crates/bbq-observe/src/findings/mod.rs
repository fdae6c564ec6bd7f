//! What is wrong with the server, and what to do about it: one list, for `/status`, `/health`, `/metrics`, `bbq status`, `bbq top` and the
//! page. What the numbers of a status say is decided from that status.

mod lanes;
mod readers;
mod streams;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use bbq_sink::{SURPLUS_REMEDY, SinkLedger, SinkSpec};
use bbq_spool::DiskShortage;

use crate::evenness::is_meant_to_be_even;
use crate::exposure::exposure;
use crate::parts::Parts;
use crate::status::{Finding, Level, ListenerStatus, SpoolStatus, Status};
pub(crate) use workers::is_stalled;

/// The share of the spool, in tenths, from which somebody should look at the sinks before senders have to wait.
const SPOOL_NEARLY_FULL_TENTHS: u64 = 9;

impl Parts {
    /// Everything that somebody should know, the problems first. `status` has the numbers already.
    pub(crate) fn findings(&self, status: &Status) -> Vec<Finding> {
        let ongoing = self.changes.drops.ongoing(self.drops());
        let stopping = self.stopping.get().map(|drain_timeout| stopping(*drain_timeout, status));
        let mut found = self.of_lanes();
        found.extend(self.of_workers(status));
        found.extend(self.of_readers());
        found.extend(self.of_sinks(status));
        found.extend(self.of_outputs());
        found.extend(stopping);
        found.extend(self.of_streams());
        found.extend(self.of_listeners().chain(ongoing));
        found.extend(nearly_full(&status.spool, !self.sinks.is_empty()));
        found.extend(self.disk_shortage().map(|shortage| {
            warning("spool-larger-than-disk", "spool".to_owned(), shortage.to_string(), DiskShortage::REMEDY)
        }));
        let meant_even = self.listeners.iter().zip(&status.listeners).filter(|(listener, _)| {
            is_meant_to_be_even(listener.group.distribution(), &listener.spec().steering)
        });
        found.extend(meant_even.filter_map(|(_, status)| uneven(status)));
        found.extend(self.memory.problem().map(over_memory));
        found.extend(status.refused_change.as_deref().map(refused));
        found.extend(self.listeners.iter().filter_map(|listener| exposure(&listener.spec())));
        found.sort_by_key(|finding| match finding.level {
            Level::Problem => 0,
            Level::Notice => 1,
            Level::Warning => 2,
        });
        found
    }

    fn of_sinks(&self, status: &Status) -> Vec<Finding> {
        let found = self.sinks.iter().zip(&status.sinks).filter_map(|((spec, ledger), sink)| {
            let subject = format!("sink {}", spec.name);
            let waits = match sink.queued {
                1 => "1 message waits for it in the spool".to_owned(),
                queued => format!("{queued} messages wait for it in the spool, up to spool.bytes_max"),
            };
            if sink.paused {
                let (text, remedy) = (format!("{subject} is paused"), "bbq sink resume resumes delivery");
                let finding = problem("sink-paused", subject, text, remedy).with_effect(waits);
                return Some(Finding { level: Level::Notice, ..finding });
            }
            let text = format!("{subject} cannot deliver and tries again: {}", ledger.problem()?);
            let others = if self.sinks.len() > 1 { "; the other sinks continue" } else { "" };
            let remedy = if ledger.is_disk_full() {
                "make room on the disk of this path; delivery resumes automatically"
            } else {
                "fix the destination; delivery resumes automatically"
            };
            Some(
                problem("sink-cannot-deliver", subject, text, remedy).with_effect(format!("{waits}{others}")),
            )
        });
        found.collect()
    }

    /// What was found in outputs at the start.
    fn of_outputs(&self) -> Vec<Finding> {
        let surplus = |(spec, ledger): &(SinkSpec, Arc<SinkLedger>)| {
            let text = ledger.surplus()?.to_owned();
            Some(warning("output-set-aside", format!("sink {}", spec.name), text, SURPLUS_REMEDY))
        };
        self.sinks.iter().filter_map(surplus).collect()
    }

    fn of_listeners(&self) -> impl Iterator<Item = Finding> {
        self.listeners.iter().enumerate().flat_map(|(index, listener)| {
            let subject = format!("listener {}", listener.spec().source);
            let of = |name: &str, what: String, remedy: &str| {
                problem(name, subject.clone(), format!("{subject} {what}"), remedy)
            };
            let failed = self.ledger.listener(index).failure();
            let foreign = listener.foreign.strangers();
            let certificate = listener.tls.as_ref().and_then(|tls| tls.problem());
            let tokens = listener.tokens.as_ref().and_then(|tokens| tokens.problem());
            [
                failed.map(|why| of("listener-failed", format!("no longer takes messages: {why}"), "restart the server")),
                foreign.map(|strangers| {
                    let address = listener.group.local_address();
                    let own = listener.group.sockets().len();
                    let share = strangers.sockets * 100 / (strangers.sockets + own);
                    let what = format!("shares its address with {} ({address})", strangers.names);
                    let effect = format!(
                        "up to {share} % of its senders never reach this server, as {} of {} sockets are foreign; no counter includes them",
                        strangers.sockets,
                        strangers.sockets + own
                    );
                    let pids = if strangers.pids.is_empty() { "PID".to_owned() } else { strangers.pids.join(",") };
                    of("address-shared", what, &format!("find out what process that is (ps -fp {pids}), and stop it")).with_effect(effect)
                }),
                certificate.map(|why| {
                    let what = format!("serves the old certificate, because the new one cannot be used: {why}");
                    of("certificate-old", what, "fix the file; the server reads it again automatically")
                }),
                tokens.map(|why| {
                    let what = format!("accepts the old tokens, because the new file cannot be used: {why}");
                    of("tokens-old", what, "fix the file; the server reads it again automatically")
                }),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
        })
    }
}

fn problem(name: &str, subject: String, text: String, remedy: &str) -> Finding {
    let (name, remedy) = (name.to_owned(), remedy.to_owned());
    let (level, effect) = (Level::Problem, String::new());
    Finding { level, name, subject, text, effect, remedy, since_seconds: None }
}

impl Finding {
    fn with_effect(self, effect: String) -> Finding {
        Finding { effect, ..self }
    }
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
    let remedy = "messages that the sinks have not taken by then stay in the spool for the next start";
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
        "a sink is behind: find the one with the most queued. When the spool is full, senders wait or messages are dropped (on_full)"
    } else {
        "no sink is configured: add one and reload while there is room. When the spool is full, senders wait or messages are dropped (on_full)"
    };
    is_it.then(|| warning("spool-nearly-full", "spool".to_owned(), text(), remedy))
}

fn uneven(listener: &ListenerStatus) -> Option<Finding> {
    let evenness = listener.evenness.as_ref().filter(|evenness| evenness.uneven)?;
    let subject = format!("listener {}", listener.name);
    let text = format!(
        "{subject}: one worker gets far more connections than the others, and not by chance (workers took {} to {} of {})",
        evenness.smallest, evenness.largest, evenness.connections
    );
    let remedy = "look for another process at the address, or few clients with few ports; neither affects distribution=shared";
    Some(warning("shares-uneven", subject, text, remedy))
}

fn over_memory(why: String) -> Finding {
    let remedy = "docs/operations/sizing.md says what each budget is for";
    warning("memory-over-limit", "memory".to_owned(), why, remedy)
}

fn refused(why: &str) -> Finding {
    let text = format!("the last change was refused: {why}");
    warning(
        "change-refused",
        "configuration".to_owned(),
        text,
        "the server continues as before; fix the cause and try again",
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
}
