//! The body of a request, decoded and held until it is complete. It counts towards the worker's memory for unfinished messages.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bbq_stored::Identity;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, sleep};

use super::coding::{Coding, Decoder, NotDecoded};
use super::refused::Refused;
use super::source::Source;
use crate::worker::intake::Intake;
use crate::worker::memory_budget::{Held, MemoryShare};

/// Maximum memory that is allocated before any bytes have come, whatever length the client announces.
const FIRST_BYTES_MAX: u64 = 64 * 1024;
/// Steps of a decoder, of about 32 KiB each, before other tasks run.
const STEPS_PER_TURN: u32 = 8;

/// A complete body.
pub(super) struct HeldBody {
    pub(super) bytes: Vec<u8>,
    /// Bytes that were received, before they were decoded.
    pub(super) received: usize,
    intake: Rc<Intake>,
    listener_index: usize,
    identity: Identity,
    share: MemoryShare,
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.intake.buffers.memory.release(&mut self.share);
    }
}

impl HeldBody {
    /// Reads a body of at most `bytes_max` bytes, both as received and decoded.
    pub(super) async fn read(
        source: &Source,
        identity: Identity,
        mut body: Incoming,
        (coding, bytes_max): (Coding, usize),
    ) -> Result<HeldBody, Refused> {
        let intake = &source.intake;
        let announced = body.size_hint().lower();
        if announced > bytes_max as u64 {
            return Err(Refused::BodyTooLarge { bytes_max });
        }
        let first = usize::try_from(announced.min(FIRST_BYTES_MAX)).unwrap_or(0);
        let mut held = HeldBody {
            bytes: Vec::with_capacity(first),
            received: 0,
            intake: Rc::clone(intake),
            listener_index: source.listener_index,
            identity,
            share: MemoryShare::default(),
        };
        // Made when the first bytes come: a client that sends nothing costs nothing.
        let mut decoder = None;
        let patience = Duration::from_secs(intake.buffers.limits.batch_timeout_seconds.into());
        let mut timeout = pin!(sleep(patience));
        loop {
            let frame = tokio::select! {
                biased;
                // A round has begun, or holders were marked to be closed.
                () = intake.rounds.notified() => {
                    held.check_not_evicted()?;
                    continue;
                }
                frame = body.frame() => frame,
                () = &mut timeout => return Err(Refused::Timeout),
            };
            timeout.as_mut().reset(Instant::now() + patience);
            let Some(frame) = frame else { break };
            let Ok(data) = frame.map_err(|_| Refused::Incomplete)?.into_data() else { continue };
            held.received += data.len();
            source.overhead.add_body(data.len());
            if held.received > bytes_max {
                return Err(Refused::BodyTooLarge { bytes_max });
            }
            let decoder = match &mut decoder {
                Some(decoder) => decoder,
                none => none.insert(Decoder::new(coding).map_err(|_| Refused::NoMemory)?),
            };
            held.take(decoder, &data, bytes_max, 0).await?;
        }
        match &mut decoder {
            Some(decoder) => decoder.finish(&mut held.bytes).map_err(Refused::NotDecoded)?,
            // An empty body. A compressed one has at least a header.
            None if coding == Coding::Identity => {}
            None => return Err(Refused::NotDecoded(NotDecoded::Corrupt)),
        }
        if held.bytes.len() > bytes_max {
            return Err(Refused::BodyTooLarge { bytes_max });
        }
        drop(decoder);
        held.count(0)?;
        // The body is complete: from here on it waits for the server.
        intake.buffers.memory.set_evictable(&held.share, false);
        Ok(held)
    }

    /// Counts memory for a body that is not held.
    pub(super) fn none(source: &Source, identity: Identity) -> HeldBody {
        HeldBody {
            bytes: Vec::new(),
            received: 0,
            intake: Rc::clone(&source.intake),
            listener_index: source.listener_index,
            identity,
            share: MemoryShare::default(),
        }
    }

    /// Decodes the bytes of the body from index `from` on, to at most `bytes_max` bytes.
    pub(super) async fn decoded(
        mut self,
        from: usize,
        coding: Coding,
        bytes_max: usize,
    ) -> Result<HeldBody, Refused> {
        let coded = std::mem::take(&mut self.bytes);
        let mut decoder = Decoder::new(coding).map_err(|_| Refused::NoMemory)?;
        self.take(&mut decoder, &coded[from..], bytes_max, coded.capacity()).await?;
        decoder.finish(&mut self.bytes).map_err(Refused::NotDecoded)?;
        if self.bytes.len() > bytes_max {
            return Err(Refused::BodyTooLarge { bytes_max });
        }
        drop(coded);
        self.count(0)?;
        Ok(self)
    }

    /// Replaces the body with `bytes`, and counts these instead.
    pub(super) fn set(&mut self, bytes: Vec<u8>) -> Result<(), Refused> {
        self.bytes = bytes;
        self.count(0)
    }

    /// Counts `more` bytes that are to be held beside the body.
    pub(super) fn hold(&mut self, more: usize) -> Result<(), Refused> {
        self.count(more)
    }

    /// Drops the body, and counts `bytes` in its place.
    pub(super) fn replace(&mut self, bytes: usize) -> Result<(), Refused> {
        self.bytes = Vec::new();
        self.count(bytes)
    }

    /// Decodes bytes that have come. `more` is memory that is held in addition to the body and the decoder.
    async fn take(
        &mut self,
        decoder: &mut Decoder,
        mut data: &[u8],
        bytes_max: usize,
        more: usize,
    ) -> Result<(), Refused> {
        for steps in 1_u32.. {
            let has_more = decoder.step(&mut data, &mut self.bytes).map_err(Refused::NotDecoded)?;
            if self.bytes.len() > bytes_max {
                return Err(Refused::BodyTooLarge { bytes_max });
            }
            self.count(decoder.bytes() + more)?;
            if !has_more {
                break;
            }
            if steps.is_multiple_of(STEPS_PER_TURN) {
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Counts the memory of the body, and `more` bytes that are held besides.
    fn count(&mut self, more: usize) -> Result<(), Refused> {
        let memory = &self.intake.buffers.memory;
        let bytes = self.bytes.capacity() + more;
        let held = Held { bytes, filled: bytes.min(self.bytes.len() + more) };
        memory.set(&mut self.share, held, || self.identity.clone()).map_err(|_| Refused::NoMemory)?;
        self.check_not_evicted()
    }

    /// Refuses the request if others need its memory, and counts that. The caller drops the body then.
    fn check_not_evicted(&self) -> Result<(), Refused> {
        if self.intake.buffers.memory.must_close(&self.share) {
            self.intake.listeners[self.listener_index].ledger.add_evicted(1);
            return Err(Refused::NoMemory);
        }
        Ok(())
    }
}
