//! The stream of a journal: the entries of a machine, in a boot, of a sequence number id.
//!
//! journald gives numbers within a sequence number id. The boot tells apart what has the same id and the same numbers all the same: machines that
//! were made from one image, and what a machine writes again that has lost its last entries with the power.

use bbq_read::JournalCursor;
use bbq_wire::StreamId;
use ring::digest::{Context, SHA256};

/// So that no other digest of the same bytes is the same.
const DOMAIN: &[u8] = b"bbq: the journal of a machine";

/// What numbers of entries belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JournalKey {
    pub(super) seqnum_id: u128,
    pub(super) boot_id: u128,
    /// Its id; empty if the entry has none.
    pub(super) machine: Box<[u8]>,
}

impl JournalKey {
    pub(super) fn of(cursor: &JournalCursor, machine: &[u8]) -> JournalKey {
        JournalKey { seqnum_id: cursor.seqnum_id, boot_id: cursor.boot_id, machine: machine.into() }
    }

    pub(super) fn is_of(&self, cursor: &JournalCursor, machine: &[u8]) -> bool {
        self.seqnum_id == cursor.seqnum_id && self.boot_id == cursor.boot_id && *self.machine == *machine
    }
}

/// The stream of a journal that somebody with this token sends to a listener; without tokens, the name is empty. At another listener it is
/// another stream, as with requests that come again (`worker/repeat.rs`): somebody may want the same entries from both.
pub(super) fn journal_stream(listener: &str, identity: &str, key: &JournalKey) -> StreamId {
    let JournalKey { seqnum_id, boot_id, machine } = key;
    let numbers = [seqnum_id.to_be_bytes(), boot_id.to_be_bytes()];
    let mut digest = Context::new(&SHA256);
    for part in [DOMAIN, listener.as_bytes(), identity.as_bytes(), &numbers[0], &numbers[1], machine] {
        // With their lengths, no two lists of parts are the same bytes.
        digest.update(&(part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let mut id = [0; 16];
    id.iter_mut().zip(digest.finish().as_ref()).for_each(|(byte, digested)| *byte = *digested);
    StreamId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_journal_boot_machine_token_or_listener_is_another_stream() {
        let key =
            |seqnum_id, boot_id, machine: &[u8]| JournalKey { seqnum_id, boot_id, machine: machine.into() };
        let streams = [
            journal_stream("l", "", &key(1, 2, b"m")),
            journal_stream("l", "a", &key(1, 2, b"m")),
            journal_stream("l", "", &key(2, 2, b"m")),
            journal_stream("l", "", &key(1, 1, b"m")),
            journal_stream("l", "", &key(1, 2, b"n")),
            journal_stream("l", "m", &key(1, 2, b"")),
            journal_stream("k", "", &key(1, 2, b"m")),
        ];
        assert_eq!(journal_stream("l", "", &key(1, 2, b"m")), streams[0]);
        for (place, stream) in streams.iter().enumerate() {
            assert!(streams[place + 1..].iter().all(|other| other != stream));
        }
    }
}
