//! Datagrams: each is a message, or lines, or a batch.

use std::rc::Rc;

use bbq_listen::{AsyncDatagrams, Datagram, ReceiveState};
use bbq_wire::Peer;
use bbq_wire::framing::{OnOversize, datagram};

use crate::config::Protocol;
use crate::stored::ledger::DropReason;
use crate::worker::text::intake::Intake;

/// Turns after the stop has begun: what was queued is taken, what keeps coming is not.
const TURNS_AT_STOP_MAX: usize = 256;

/// Receives until the server stops, then what is queued.
pub(crate) async fn serve(intake: Rc<Intake>, door: usize, mut datagrams: AsyncDatagrams) {
    loop {
        // A datagram socket cannot push back: what comes meanwhile waits in its buffer, and then the kernel drops and counts.
        tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            () = intake.wait_room(door) => {}
        }
        tokio::select! {
            biased;
            () = intake.stopping.wait() => break,
            turn = datagrams.turn(|datagram| take(&intake, door, &datagram)) => {
                if let Err(error) = turn {
                    return intake.doors[door].fail(intake.worker, &error);
                }
            }
        }
    }
    if intake.stopping.is_kept(door) {
        return;
    }
    for _ in 0..TURNS_AT_STOP_MAX {
        match datagrams.turn_now(|datagram| take(&intake, door, &datagram)) {
            Ok(outcome) if outcome.state == ReceiveState::More => tokio::task::yield_now().await,
            _ => return,
        }
    }
}

fn take(intake: &Intake, door: usize, received: &Datagram<'_>) {
    let peer = received.peer.0.map_or(Peer::Unnamed, Peer::Inet);
    let spec = &intake.doors[door].spec;
    if spec.protocol == Protocol::Bbq {
        return take_batch(intake, door, received.bytes, peer);
    }
    // Longer than any buffer here: the kernel has cut it.
    if received.truncated && spec.rules.on_oversize == OnOversize::Refuse {
        return intake.doors[door].ledger.add_dropped(DropReason::Oversize, 1);
    }
    if received.truncated {
        intake.doors[door].ledger.add_cut(1);
    }
    let _added = intake.frames(door, peer, |rules, mut emit| {
        datagram(spec.protocol.source_kind(), rules, received.bytes, &mut emit);
    });
}

/// A batch by datagram has no session and is never resent: its records join the worker's own stream.
fn take_batch(intake: &Intake, door: usize, bytes: &[u8], peer: Peer) {
    let taken = intake.scratch.verified(bytes, intake.doors[door].batch_limits(), |batch| {
        batch.records().for_each(|record| intake.message(door, record, peer));
    });
    match taken {
        Ok(()) => {}
        Err(error) => {
            intake.doors[door].ledger.add_dropped(DropReason::Malformed, 1);
            if let Some(repeats) = intake.doors[door].trouble.report() {
                let source = &intake.doors[door].spec.source;
                tracing::warn!(listener = source, ?peer, %error, repeats, "datagram refused");
            }
        }
    }
}
