//! The entries of a message, decompressed. They count towards the worker's memory for unfinished messages.

use bbq_senders::forward::{Compression, NotForward, Records};
use bbq_stored::Identity;
use bbq_wire::Peer;
use bbq_wire::limits::BATCH_BODY_BYTES_MAX;

use super::closed::Closed;
use crate::worker::http::{Coding, Decoder};
use crate::worker::intake::Intake;
use crate::worker::memory_budget::{Held, MemoryShare};

/// The most bytes of a message, and of its entries when they are decompressed: as much as a batch has.
pub(super) const MESSAGE_BYTES_MAX: usize = BATCH_BODY_BYTES_MAX as usize;
/// Steps of a decoder, of about 32 KiB each, before other tasks run.
const STEPS_PER_TURN: u32 = 8;

/// Memory that is held beside a message, until it is dropped. It waits for the server, not for its sender, so others cannot take it.
pub(super) struct Beside<'a> {
    intake: &'a Intake,
    peer: Peer,
    share: MemoryShare,
}

impl<'a> Beside<'a> {
    pub(super) fn new(intake: &'a Intake, peer: Peer) -> Beside<'a> {
        Beside { intake, peer, share: MemoryShare::default() }
    }

    /// Counts so many bytes.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), Closed> {
        let memory = &self.intake.buffers.memory;
        let identity = || Identity::of_peer(self.peer);
        memory.set(&mut self.share, Held::filled(bytes), identity).map_err(|_| Closed::NoMemory)?;
        if memory.must_close(&self.share) {
            return Err(Closed::NoMemory);
        }
        memory.set_evictable(&self.share, false);
        Ok(())
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        self.intake.buffers.memory.release(&mut self.share);
    }
}

/// The entries of a message, if they are compressed; nothing otherwise.
pub(super) async fn decoded(records: &Records<'_>, beside: &mut Beside<'_>) -> Result<Vec<u8>, Closed> {
    let Some((compression, mut bytes)) = records.compressed() else { return Ok(Vec::new()) };
    let coding = match compression {
        Compression::Gzip => Coding::Gzip,
        Compression::Zstd => Coding::Zstd,
    };
    let mut decoder = Decoder::new(coding).map_err(|_| Closed::NoMemory)?;
    let mut entries = Vec::new();
    for steps in 1_u32.. {
        let has_more = decoder.step(&mut bytes, &mut entries).map_err(|_| Closed::NotDecoded)?;
        if entries.len() > MESSAGE_BYTES_MAX {
            return Err(NotForward::TooLarge { bytes_max: MESSAGE_BYTES_MAX }.into());
        }
        beside.set(entries.capacity() + decoder.bytes())?;
        if !has_more {
            break;
        }
        if steps.is_multiple_of(STEPS_PER_TURN) {
            tokio::task::yield_now().await;
        }
    }
    decoder.finish(&mut entries).map_err(|_| Closed::NotDecoded)?;
    if entries.len() > MESSAGE_BYTES_MAX {
        return Err(NotForward::TooLarge { bytes_max: MESSAGE_BYTES_MAX }.into());
    }
    Ok(entries)
}
