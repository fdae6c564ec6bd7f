//! Counts as people read them.

/// `1 message`, `2 messages`.
pub(super) fn messages(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} message{plural}")
}

/// `1 message is`, `2 messages are`.
pub(super) fn are(count: u64) -> String {
    format!("{} {}", messages(count), if count == 1 { "is" } else { "are" })
}
