//! Messages as a framer finds them become messages with fields.

use bbq_senders::gelf::{GelfError, Loose};
use bbq_stored::DropReason;
use bbq_wire::Peer;
use bbq_wire::framing::{Frame, FramingRules};

use crate::worker::intake::Intake;
use crate::worker::local_listener::LocalListener;

impl Intake {
    /// Lets `produce` emit frames, and adds what they say to the listener's batch; returns how many messages came.
    pub(crate) fn gelf_frames(
        &self,
        listener_index: usize,
        peer: Peer,
        produce: impl FnOnce(&FramingRules, &mut dyn FnMut(Frame<'_>)),
    ) -> u64 {
        let listener = &self.listeners[listener_index];
        let rules = &listener.spec.rules;
        let mut loose = Loose::new(rules.message_bytes_max as usize);
        produce(rules, &mut |frame| match frame {
            Frame::Message(message) => loose.take(message),
            Frame::Cut { .. } | Frame::Oversize { .. } => loose.oversize += 1,
            Frame::Incomplete { .. } => listener.ledger.add_dropped(DropReason::Incomplete, 1),
        });
        let Loose { malformed, oversize, why, .. } = &loose;
        if malformed + oversize > 0 {
            listener.ledger.add_dropped(DropReason::Malformed, *malformed);
            listener.ledger.add_dropped(DropReason::Oversize, *oversize);
            why.iter().for_each(|why| report(listener, peer, why));
        }
        let events = loose.events();
        if !events.is_empty() {
            self.take_events(listener_index, events, peer);
        }
        events.len() as u64 + malformed + oversize
    }
}

fn report(listener: &LocalListener, peer: Peer, error: &GelfError) {
    if let Some(repeats) = listener.peer_problems.report() {
        tracing::warn!(listener = listener.spec.source, ?peer, %error, repeats, "message dropped");
    }
}
