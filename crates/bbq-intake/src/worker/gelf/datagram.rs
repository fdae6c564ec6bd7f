//! A datagram: a message, or a chunk of one.

use std::borrow::Cow;

use bbq_senders::gelf::{ChunkError, is_chunk};
use bbq_stored::DropReason;
use bbq_wire::Peer;
use bbq_wire::framing::Frame;

use super::decoded::{NotDecoded, decoded};
use crate::worker::intake::Intake;
use crate::worker::local_listener::LocalListener;

/// Takes a datagram, of which the kernel may have cut off the end.
pub(crate) fn take(intake: &Intake, listener_index: usize, (bytes, is_cut): (&[u8], bool), peer: Peer) {
    let listener = &intake.listeners[listener_index];
    if is_cut {
        return listener.ledger.add_dropped(DropReason::Oversize, 1);
    }
    match whole(listener, bytes, peer) {
        Ok(Some(message)) => take_whole(intake, listener_index, &message, peer),
        Ok(None) => {}
        Err(error) => {
            let reason = match error {
                ChunkError::TooLong => DropReason::Oversize,
                _ => DropReason::Malformed,
            };
            refuse(listener, peer, reason, &error);
        }
    }
}

/// The message, if it is complete.
fn whole<'a>(
    listener: &LocalListener,
    bytes: &'a [u8],
    peer: Peer,
) -> Result<Option<Cow<'a, [u8]>>, ChunkError> {
    match &listener.gelf_chunks {
        Some(chunks) if is_chunk(bytes) => Ok(chunks.take(peer, bytes, &listener.ledger)?.map(Cow::Owned)),
        _ => Ok(Some(Cow::Borrowed(bytes))),
    }
}

fn take_whole(intake: &Intake, listener_index: usize, message: &[u8], peer: Peer) {
    let listener = &intake.listeners[listener_index];
    // Not before: the chunks of a message count as one.
    if listener.over_rate(peer).or_else(|| listener.over_growth(peer)).is_some() {
        return listener.ledger.add_dropped(DropReason::OverRate, 1);
    }
    match decoded(message, listener.spec.rules.message_bytes_max as usize) {
        Ok(text) => {
            let taken = intake.frames(listener_index, peer, |_, emit| emit(Frame::Message(&text)));
            listener.add_taken(peer, taken, text.len() as u64, message.len() as u64);
        }
        Err(error) => {
            let reason = match error {
                NotDecoded::TooLong => DropReason::Oversize,
                NotDecoded::Corrupt => DropReason::Malformed,
            };
            refuse(listener, peer, reason, &error);
        }
    }
}

fn refuse(listener: &LocalListener, peer: Peer, reason: DropReason, error: &dyn std::fmt::Display) {
    listener.ledger.add_dropped(reason, 1);
    if let Some(repeats) = listener.peer_problems.report() {
        tracing::warn!(listener = listener.spec.source, ?peer, %error, repeats, "datagram refused");
    }
}
