//! The rules of a listener, at one worker: they leave messages out and replace in them, before anything is on disk.
//!
//! A message has no number here yet, as only what is kept gets one. A share is chosen by the number of the arrival, which every message
//! has, and by the stream of the worker.

use bbq_rules::{Attributes, Message, Rules, Scratch};
use bbq_wire::{Peer, SourceKind, StreamId};

/// A buffer that a large message or request has made larger is given back.
const BUFFER_KEPT_BYTES: usize = 256 * 1024;

pub(crate) struct Filter {
    rules: Rules,
    listener: String,
    scratch: Scratch,
    /// Messages that came.
    arrivals: u64,
    /// Those of them that were left out.
    pub(crate) left_out: u64,
    /// The message with its replacements, or the messages of a request.
    buffer: Vec<u8>,
    /// Where each message of a request ends in the buffer.
    ends: Vec<usize>,
}

/// What becomes of a message.
pub(crate) enum Filtered<'a> {
    Kept(&'a [u8]),
    LeftOut,
}

/// What was decided of a request. It counts if the request is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    arrivals: u64,
    pub(crate) left_out: u64,
}

impl Filter {
    pub(crate) fn new(rules: &Rules, listener: &str) -> Filter {
        Filter {
            rules: rules.for_thread(),
            listener: listener.to_owned(),
            scratch: Scratch::default(),
            arrivals: 0,
            left_out: 0,
            buffer: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Decides about a message.
    pub(crate) fn judge<'a>(
        &'a mut self,
        kind: SourceKind,
        record: &'a [u8],
        peer: Peer,
        stream: StreamId,
    ) -> Filtered<'a> {
        self.arrivals += 1;
        if !self.keeps(self.arrivals, kind, record, peer, stream) {
            return Filtered::LeftOut;
        }
        self.clear();
        let is_changed = self.rules.redact(kind, record, &mut self.buffer);
        Filtered::Kept(if is_changed { &self.buffer } else { record })
    }

    /// Decides about the messages of a request; [`Filter::kept`] has those that are kept.
    pub(crate) fn judge_all<'a>(
        &mut self,
        kind: SourceKind,
        records: impl Iterator<Item = &'a [u8]>,
        peer: Peer,
        stream: StreamId,
    ) -> Judged {
        self.clear();
        let mut judged = Judged { arrivals: 0, left_out: 0 };
        for record in records {
            judged.arrivals += 1;
            if !self.keeps(self.arrivals + judged.arrivals, kind, record, peer, stream) {
                judged.left_out += 1;
                continue;
            }
            if !self.rules.redact(kind, record, &mut self.buffer) {
                self.buffer.extend_from_slice(record);
            }
            self.ends.push(self.buffer.len());
        }
        judged
    }

    /// The messages that the last call of [`Filter::judge_all`] has kept.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.buffer[start..*end])
    }

    /// The request was taken.
    pub(crate) fn settle(&mut self, judged: Judged) {
        self.arrivals += judged.arrivals;
        self.left_out += judged.left_out;
    }

    fn keeps(
        &mut self,
        sequence: u64,
        source: SourceKind,
        record: &[u8],
        peer: Peer,
        stream: StreamId,
    ) -> bool {
        if !self.rules.leaves_out() {
            return true;
        }
        let message = Message {
            record,
            source,
            listener: &self.listener,
            peer,
            // No rule asks for the time of a header.
            received_ns: 0,
            stream,
            sequence,
            attributes: Attributes::default(),
        };
        self.rules.keeps(&message, &mut self.scratch)
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.buffer.clear();
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
    }
}
