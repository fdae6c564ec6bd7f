//! Queries by UDP: those of a batch are answered together.

use std::io::Result;
use std::pin::pin;
use std::sync::Arc;

use bbq_listen::{AsyncDatagrams, Datagram, SendBatch};

use crate::block::block;
use crate::responder::{Carrier, respond};
use crate::table::Table;
use crate::wire::{HEADER_BYTES, plain_name};

/// The answers of a worker.
struct Answers {
    table: Arc<Table>,
    allow_block: bool,
    batch: SendBatch,
}

/// Answers until the server stops, and then says how many answers the worker has sent.
pub(crate) async fn serve(mut queries: AsyncDatagrams, table: Arc<Table>, allow_block: bool) -> Result<()> {
    let batch = SendBatch::new(Arc::clone(queries.worker_listener().socket()));
    let (mut answers, mut stopped) = (Answers { table, allow_block, batch }, pin!(queries.stopped()));
    loop {
        tokio::select! {
            biased;
            received = queries.receive_batch(|query| answers.add(query)) => drop(received?),
            () = &mut stopped => break,
        }
        answers.batch.send();
    }
    let (worker, Answers { batch, .. }) = (queries.worker_listener().worker(), answers);
    println!("worker {worker}: {} answers by udp, {} not sent", batch.sent(), batch.failed());
    Ok(())
}

impl Answers {
    fn add(&mut self, query: Datagram<'_>) {
        if self.allow_block {
            self.block(query.bytes);
        }
        self.batch.reply(&query, |output| respond(&self.table, query.bytes, Carrier::Datagram, output));
    }

    /// If the name begins with `block-MS.`.
    fn block(&mut self, query: &[u8]) {
        let label = plain_name(query, HEADER_BYTES).and_then(|name| name.get(1..1 + usize::from(name[0])));
        if let Some(milliseconds) = label.and_then(|label| label.strip_prefix(b"block-")) {
            self.batch.send(); // earlier queries must not wait
            block(milliseconds);
        }
    }
}
