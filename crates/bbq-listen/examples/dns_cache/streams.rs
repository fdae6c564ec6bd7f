//! Queries over TCP: each behind its length in two bytes (RFC 1035, section 4.2.2).

use std::io::Result;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bbq_listen::{ACCEPTS_PER_BATCH_MAX, Accepted, AsyncListener};

use crate::conversation::{self, Next, OUTPUT_BYTES_ENOUGH, Protocol};
use crate::responder::{Carrier, respond};
use crate::table::Table;

/// The longest query.
const QUERY_BYTES_MAX: usize = 4096;

/// What the connections of a worker share.
struct Streams {
    table: Arc<Table>,
    answered: AtomicU64,
}

/// Answers until the server stops, and then says how many queries the worker has answered.
pub(crate) async fn serve(mut listener: AsyncListener, table: Arc<Table>) -> Result<()> {
    let streams = Arc::new(Streams { table, answered: AtomicU64::new(0) });
    let mut stopped = pin!(listener.stopped());
    loop {
        let begin = |accepted: Accepted| conversation::begin(accepted.stream, &streams);
        tokio::select! {
            biased;
            accepted = listener.accept_batch(ACCEPTS_PER_BATCH_MAX, begin) => drop(accepted?),
            () = &mut stopped => break,
        }
    }
    conversation::last_turns().await;
    let worker = listener.worker_listener().worker();
    println!("worker {worker}: {} answers by tcp", streams.answered.load(Relaxed));
    Ok(())
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
