//! What systemd-journal-upload is answered. Its entries are in the export format of the journal, which bbq-read reads.

use crate::answer::{Answer, Trouble};

/// The content type of its requests.
pub const EXPORT: &str = "application/vnd.fdo.journal";

/// All entries are stored: as systemd-journal-remote answers.
#[must_use]
pub fn taken() -> Answer {
    Answer::text(202, "OK.")
}

/// Not all entries are stored. It ends for every status but 2xx, and the service manager starts it again, so that it sends them again.
#[must_use]
pub fn refused(trouble: Trouble, why: &str) -> Answer {
    Answer::text(trouble.status(), why)
}
