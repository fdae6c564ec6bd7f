//! Messages that are lost, as the sender's notices say: the rest is delivered, and the command fails.

use std::sync::atomic::{AtomicU64, Ordering};

use bbq_client::Notice;

/// Counts the messages that the notices are about.
#[derive(Debug, Default)]
pub(super) struct Lost {
    notices: AtomicU64,
    records: AtomicU64,
}

impl Lost {
    pub(super) fn note(&self, notice: &Notice) {
        if let Notice::Lost { records, .. } = notice {
            self.notices.fetch_add(1, Ordering::Relaxed);
            self.records.fetch_add(*records, Ordering::Relaxed);
        }
    }

    /// Fails if a message is lost.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.notices.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let records = self.records.load(Ordering::Relaxed);
        anyhow::bail!("{}, as said above; all others are delivered", shown(records, "lost"))
    }
}

/// How many messages; the number is 0 if it is unknown.
pub(super) fn shown(records: u64, what: &str) -> String {
    match records {
        0 => format!("messages may be {what}; their number is unknown"),
        1 => format!("1 message is {what}"),
        _ => format!("{records} messages are {what}"),
    }
}
