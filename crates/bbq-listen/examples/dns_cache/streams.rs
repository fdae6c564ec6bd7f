//! Queries over TCP: each behind its length in two bytes (RFC 1035, section 4.2.2).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::QUERY_BYTES_MAX;
use crate::conversation::{Next, OUTPUT_BYTES_ENOUGH, Protocol};
use crate::responder::{Carrier, respond};
use crate::table::Table;

/// What the connections of a worker share.
pub(crate) struct Streams {
    table: Arc<Table>,
    answered: AtomicU64,
}

impl Streams {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Self { table, answered: AtomicU64::new(0) }
    }

    /// Queries answered.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }
}

impl Protocol for Arc<Streams> {
    fn answer(&self, input: &[u8], output: &mut Vec<u8>) -> (usize, Next) {
        let mut rest = input;
        let next = loop {
            let Some((length, behind)) = rest.split_first_chunk() else { break Next::Read };
            let length = usize::from(u16::from_be_bytes(*length));
            if length > QUERY_BYTES_MAX {
                break Next::Refuse;
            }
            let Some((query, behind)) = behind.split_at_checked(length) else { break Next::Read };
            let at = output.len();
            output.extend_from_slice(&[0, 0]);
            if !respond(&self.table, query, Carrier::Stream, output) {
                output.truncate(at);
                break Next::Close;
            }
            let length = (output.len() - at - 2) as u16; // the responder's limit
            output[at..at + 2].copy_from_slice(&length.to_be_bytes());
            self.answered.fetch_add(1, Relaxed);
            rest = behind;
            if output.len() >= OUTPUT_BYTES_ENOUGH {
                break Next::Write;
            }
        };
        (input.len() - rest.len(), next)
    }
}
