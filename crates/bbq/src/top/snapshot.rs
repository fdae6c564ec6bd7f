//! A status, and when it came.

use std::net::SocketAddr;
use std::time::Instant;

use bbq_server::config::Secret;
use bbq_server::status::Status;

use crate::question;

pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) status: Status,
}

impl Snapshot {
    /// Asks the admin.
    pub(super) async fn ask(
        admin: SocketAddr,
        token: Option<&Secret>,
        slow: impl FnOnce(),
    ) -> anyhow::Result<Snapshot> {
        let answer = question::ask(admin, token, slow).await?;
        Ok(Snapshot { at: Instant::now(), status: question::status_in(admin, &answer)? })
    }
}

/// Two statuses of one process, whose differences are rates.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    before: Option<&'a Snapshot>,
    pub(super) now: &'a Snapshot,
}

impl<'a> Pair<'a> {
    pub(super) fn new(before: Option<&'a Snapshot>, now: &'a Snapshot) -> Pair<'a> {
        // Another process counts on, but its sockets begin again.
        Pair { before: before.filter(|before| before.status.pid == now.status.pid), now }
    }

    /// Per second, of a number of the status; `None` if the earlier status does not have it.
    pub(super) fn rate(&self, read: impl Fn(&Status) -> Option<u64>) -> Option<f64> {
        let seconds = self.now.at.saturating_duration_since(self.before?.at).as_secs_f64();
        let more = self.grown(read)?;
        (seconds > 0.0).then(|| more as f64 / seconds)
    }

    /// What a number of the status has grown by; `None` if a status does not have it.
    pub(super) fn grown(&self, read: impl Fn(&Status) -> Option<u64>) -> Option<u64> {
        // A reload resets some counters.
        Some(read(&self.now.status)?.saturating_sub(read(&self.before?.status)?))
    }

    /// Whether a number has changed; `true` if nobody knows.
    pub(super) fn has_changed(&self, read: impl Fn(&Status) -> u64) -> bool {
        self.before.is_none_or(|before| read(&before.status) != read(&self.now.status))
    }
}
