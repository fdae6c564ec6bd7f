//! Datagrams: each holds a message, lines, a batch, or a chunk of a message.

use std::rc::Rc;

use bbq_listen::{AsyncDatagrams, Datagram, ReceiveState};
use bbq_stored::DropReason;
use bbq_wire::framing::{OnOversize, datagram};
use bbq_wire::{Peer, SourceKind};

use crate::listen::protocol::{BBQ, GELF};
use crate::worker::arrival::process;
use crate::worker::gelf::{self, ChunksOfWorker};
use crate::worker::intake::Intake;
use crate::worker::local_listener::LocalListener;

/// Maximum turns after the stop has begun: queued datagrams are taken, an endless flow is not.
const TURNS_AT_STOP_MAX: usize = 256;

/// Receives until the server stops. Then takes what is queued, unless the listener is kept.
pub(crate) async fn serve(intake: Rc<Intake>, listener_index: usize, mut datagrams: AsyncDatagrams) {
    let listener = &intake.listeners[listener_index];
    let chunks = listener.gelf_chunks.as_ref();
    let chunks = chunks.map(|chunks| ChunksOfWorker::begin(chunks, &listener.ledger));
    loop {
        // A datagram socket has no back-pressure: datagrams wait in its buffer; once that is full, the kernel drops and counts them.
        tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            () = intake.wait_room(listener_index) => {}
        }
        tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            () = look(chunks.as_ref()) => {}
            turn = datagrams.receive_batch(|datagram| take(&intake, listener_index, &datagram)) => {
                if let Err(error) = turn {
                    return listener.fail(intake.worker, &error);
                }
            }
        }
    }
    let turns = if intake.stopping.is_kept(listener_index) { 0 } else { TURNS_AT_STOP_MAX };
    for _ in 0..turns {
        match datagrams.try_receive_batch(|datagram| take(&intake, listener_index, &datagram)) {
            Ok(outcome) if outcome.state == ReceiveState::More => tokio::task::yield_now().await,
            _ => break,
        }
    }
    // Takes the datagrams that other workers have received for this one: they are no longer in a queue of the kernel.
    datagrams.finish(|datagram| take(&intake, listener_index, &datagram));
}

async fn look(chunks: Option<&ChunksOfWorker<'_>>) {
    match chunks {
        Some(chunks) => chunks.look().await,
        None => std::future::pending().await,
    }
}

fn take(intake: &Intake, listener_index: usize, received: &Datagram<'_>) {
    let peer = match (received.peer.0, received.process) {
        (Some(address), _) => Peer::Inet(address),
        (None, sender) => sender.map_or(Peer::Unnamed, process),
    };
    let listener = &intake.listeners[listener_index];
    let spec = &listener.spec;
    if *spec.protocol == BBQ {
        return take_batch(intake, listener_index, received.bytes, peer);
    }
    if *spec.protocol == GELF {
        return gelf::take(intake, listener_index, (received.bytes, received.truncated), peer);
    }
    if listener.over_rate(peer).is_some() {
        let mut messages = 0;
        datagram(spec.protocol.source_kind, &spec.rules, received.bytes, &mut |_| messages += 1);
        return listener.ledger.add_dropped(DropReason::OverRate, messages);
    }
    let bytes = if received.truncated { after_cut(listener, received.bytes) } else { received.bytes };
    let added = intake.frames(listener_index, peer, |rules, mut emit| {
        datagram(spec.protocol.source_kind, rules, bytes, &mut emit);
    });
    listener.add_to_rate(peer, added);
}

/// What is kept of a datagram that was longer than its buffer, of which the kernel has cut the end. The buffer has room for the
/// largest message, so only lines have whole messages in front of it.
fn after_cut<'a>(listener: &LocalListener, bytes: &'a [u8]) -> &'a [u8] {
    let rules = &listener.spec.rules;
    let whole = match listener.spec.protocol.source_kind {
        SourceKind::Lines => bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1),
        _ => 0,
    };
    match rules.on_oversize {
        OnOversize::Refuse => {
            listener.ledger.add_dropped(DropReason::Oversize, 1);
            &bytes[..whole]
        }
        OnOversize::Cut => {
            // A longer one is cut, and counted, where the others are.
            if bytes.len() - whole <= rules.message_bytes_max as usize {
                listener.ledger.add_cut(1);
            }
            bytes
        }
    }
}

/// A batch in a datagram has no session and is never resent: its records join the worker's own stream.
fn take_batch(intake: &Intake, listener_index: usize, bytes: &[u8], peer: Peer) {
    let listener = &intake.listeners[listener_index];
    let taken = intake.buffers.scratch.verified(bytes, listener.batch_limits(), |batch| {
        let messages = batch.records().count() as u64;
        if listener.over_rate(peer).or_else(|| listener.over_growth(peer)).is_some() {
            return listener.ledger.add_dropped(DropReason::OverRate, messages);
        }
        batch.records().for_each(|record| intake.message(listener_index, record, peer));
        listener.add_taken(peer, messages, 0, bytes.len() as u64);
    });
    match taken {
        Ok(()) => {}
        Err(error) => {
            listener.ledger.add_dropped(DropReason::Malformed, 1);
            if let Some(repeats) = listener.peer_problems.report() {
                let source = &listener.spec.source;
                tracing::warn!(listener = source, ?peer, %error, repeats, "datagram refused");
            }
        }
    }
}
