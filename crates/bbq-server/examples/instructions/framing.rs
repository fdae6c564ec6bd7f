//! Text as a worker takes it: framed from its read buffer, and put into a batch with the sender's address.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};

use bbq_wire::framing::{Frame, FramingRules, Lines, OnIncomplete, OnOversize, Syslog};
use bbq_wire::limits::MESSAGE_BYTES_MAX;
use bbq_wire::{BatchBuilder, Peer};

use crate::counted;

const READS: usize = 100;
/// No multiple of a message's size, so that each read ends in the middle of one.
const READ_BYTES: usize = 3000;
const MESSAGE: [u8; 99] = [b'x'; 99];

pub(crate) const RULES: FramingRules = FramingRules {
    message_bytes_max: MESSAGE_BYTES_MAX,
    on_oversize: OnOversize::Refuse,
    on_incomplete: OnIncomplete::Drop,
};

pub(crate) fn peer() -> Peer {
    Peer::Inet(SocketAddr::from((Ipv4Addr::LOCALHOST, 7701)))
}

/// Adds a message to a batch; its buffer was grown before.
pub(crate) fn take(batch: &mut BatchBuilder, frame: Frame<'_>, peer: Peer) {
    if let Frame::Message(message) = frame {
        batch.push_from(message, peer);
    }
}

pub(crate) fn lines() {
    let line = [&MESSAGE[..], b"\n"].concat();
    let mut framer = Lines::new();
    frame(&line, |input, batch| {
        framer.push(&RULES, input, &mut |frame| take(batch, frame, peer()));
    });
}

pub(crate) fn syslog() {
    let counted_message = [b"99 ", &MESSAGE[..]].concat();
    let mut framer = Syslog::new();
    frame(&counted_message, |input, batch| {
        framer.push(&RULES, input, &mut |frame| take(batch, frame, peer()));
    });
}

fn frame(message: &[u8], mut push: impl FnMut(&[u8], &mut BatchBuilder)) {
    let all = message.repeat(READS * READ_BYTES / message.len());
    let mut batch = BatchBuilder::new();
    batch.push(&all);
    batch.clear();
    counted(|| {
        for read in all.chunks(READ_BYTES) {
            push(black_box(read), &mut batch);
        }
    });
    assert!(batch.records() as usize >= all.len() / message.len() - 1, "a message was not framed");
}
