//! Findings about workers that do not return to their event loops: with what the kernel says of their threads.

use std::fs;

use super::problem;
use crate::parts::Parts;
use crate::status::{Finding, Status, WorkerStatus};

/// The key whose value 0 means that nobody helps.
const THRESHOLD: &str = "stall_threshold_ms";

/// A worker returns to its event loop after milliseconds. Over this a person notices, and a machine that is merely busy
/// has scheduled the thread.
const STALLED_MS: u64 = 1000;

/// Whether a worker that has not returned to its event loop for so long is a problem.
pub(crate) fn is_stalled(heartbeat_ms: u64) -> bool {
    heartbeat_ms > STALLED_MS
}

impl Parts {
    pub(super) fn of_workers(&self, status: &Status) -> Vec<Finding> {
        let keys = self.effective();
        let is_off = keys.iter().any(|key| key.key == THRESHOLD && key.value == "0");
        let nobody_helps = self.workers.len() == 1 || is_off;
        let stalled = status.workers.iter().filter(|worker| worker.stalled);
        let finding = |worker: &WorkerStatus| {
            let subject = format!("worker {}", worker.index);
            let seconds = worker.heartbeat_ms as f64 / 1000.0;
            let text =
                format!("{subject} is stalled: it has not returned to its event loop for {seconds:.1} s");
            let waits = match worker.connections {
                0 => "no connection of its own waits".to_owned(),
                1 => "its connection waits".to_owned(),
                connections => format!("its {connections} connections wait"),
            };
            let others = if nobody_helps {
                "no worker takes its new connections"
            } else {
                "other workers take its new connections"
            };
            let remedy = self.remedy(worker.index, status.pid);
            problem("worker-stalled", subject, text, &remedy).with_effect(format!("{waits}, and {others}"))
        };
        stalled.map(finding).collect()
    }

    /// What holds the thread, and what to do.
    fn remedy(&self, index: usize, pid: u32) -> String {
        let liveness = self.workers.get(index).and_then(|worker| worker.liveness.get());
        if let Some(tracer) = liveness.and_then(|liveness| liveness.tracer()) {
            let command = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
            return format!("a debugger holds it: pid {tracer} ({}); end that debugger", command.trim());
        }
        let thread = format!("the thread worker-{index} (top -H -p {pid})");
        match liveness.and_then(|liveness| liveness.state()) {
            Some('D') => format!("it waits for a disk or another device: check dmesg, and {thread}"),
            Some('t') => "a debugger outside of this container holds it: end that debugger".to_owned(),
            Some('T') => format!("a signal stopped it: kill -CONT {pid}"),
            Some('S') => format!(
                "it waits for something in the middle of its work: look at {thread} with gdb or strace"
            ),
            _ => format!(
                "look at {thread}: at 100 % it is overloaded, at 0 % others have its processor, or its control group has used up its time"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stalled_only_after_what_a_person_notices() {
        assert!(!is_stalled(STALLED_MS) && is_stalled(STALLED_MS + 1));
    }
}
