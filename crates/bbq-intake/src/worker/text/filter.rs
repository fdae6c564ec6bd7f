//! The rules of a listener, at one worker: they leave messages out and replace in them, before anything is on disk.
//!
//! A message has no number here yet, as only what is kept gets one. A share is chosen by the number of the arrival, which every message
//! has, and by the stream of the worker.

use bbq_rules::{Attributes, FieldSet, Message, Rules};
use bbq_wire::batch::{Events, Output};
use bbq_wire::{Peer, SourceKind, StreamId};

/// A buffer that a large request has made larger is given back.
const BUFFER_KEPT_BYTES: usize = 256 * 1024;

pub(crate) struct Filter {
    rules: bbq_rules::Filter,
    listener: String,
    /// Messages that came.
    arrivals: u64,
    /// Those of them that were left out.
    pub(crate) left_out: u64,
    /// The messages of a request that are kept.
    buffer: Vec<u8>,
    /// Where each of them ends in the buffer.
    ends: Vec<usize>,
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
            rules: bbq_rules::Filter::new(rules),
            listener: listener.to_owned(),
            arrivals: 0,
            left_out: 0,
            buffer: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// A message as it is stored, or `None` if it is left out.
    pub(crate) fn judge<'a>(
        &'a mut self,
        source: SourceKind,
        record: &'a [u8],
        peer: Peer,
        stream: StreamId,
    ) -> Option<&'a [u8]> {
        self.arrivals += 1;
        let Filter { rules, listener, arrivals, .. } = self;
        rules.pass(&message(listener, record, (source, peer), (stream, *arrivals)))
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
            let sequence = self.arrivals + judged.arrivals;
            match self.rules.pass(&message(&self.listener, record, (kind, peer), (stream, sequence))) {
                None => {
                    judged.left_out += 1;
                    continue;
                }
                Some(kept) => self.buffer.extend_from_slice(kept),
            }
            self.ends.push(self.buffer.len());
        }
        judged
    }

    /// Decides about messages with fields, and returns those that are kept.
    pub(crate) fn judge_events(
        &mut self,
        kind: SourceKind,
        events: &Events,
        peer: Peer,
        stream: StreamId,
    ) -> (Judged, Events) {
        let mut judged = Judged { arrivals: 0, left_out: 0 };
        let mut kept = Events::default();
        for event in events.iter() {
            judged.arrivals += 1;
            let sequence = self.arrivals + judged.arrivals;
            let mut message = message(&self.listener, event.message, (kind, peer), (stream, sequence));
            message.attributes =
                Attributes { fields: FieldSet::Batch(event.fields.clone()), output: Output::Unknown };
            match self.rules.pass(&message) {
                None => judged.left_out += 1,
                Some(message) => kept.push(message, event.time_ns, event.fields),
            }
        }
        (judged, kept)
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

    fn clear(&mut self) {
        self.ends.clear();
        self.buffer.clear();
        if self.buffer.capacity() > BUFFER_KEPT_BYTES {
            self.buffer = Vec::new();
        }
    }
}

fn message<'a>(
    listener: &'a str,
    record: &'a [u8],
    (source, peer): (SourceKind, Peer),
    (stream, sequence): (StreamId, u64),
) -> Message<'a> {
    // No rule asks for the time of a header.
    Message {
        record,
        source,
        listener,
        peer,
        received_ns: 0,
        stream,
        sequence,
        attributes: Attributes::default(),
    }
}
