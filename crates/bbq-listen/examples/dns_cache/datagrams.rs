//! Queries by UDP: those of a batch are answered together.

use std::pin::pin;
use std::sync::Arc;

use bbq_listen::{AsyncDatagrams, Datagram, ReceiveState, SendBatch, WorkerListener};

use crate::QUERY_BYTES_MAX;
use crate::block::block;
use crate::common::Stop;
use crate::responder::{Carrier, respond};
use crate::table::Table;
use crate::wire::{HEADER_BYTES, plain_name};

/// A worker's queries and their answers.
pub(crate) struct Datagrams {
    queries: AsyncDatagrams,
    answers: Answers,
}

struct Answers {
    table: Arc<Table>,
    allow_block: bool,
    batch: SendBatch,
}

impl Datagrams {
    pub(crate) fn new(
        worker_listener: WorkerListener,
        table: Arc<Table>,
        allow_block: bool,
    ) -> std::io::Result<Self> {
        let batch = SendBatch::new(Arc::clone(worker_listener.socket()));
        let queries = AsyncDatagrams::with_datagram_bytes_max(worker_listener, QUERY_BYTES_MAX)?;
        Ok(Self { queries, answers: Answers { table, allow_block, batch } })
    }

    /// Answers until `stop`, and then what is queued. Returns how many responses were sent, and how many were not.
    pub(crate) async fn serve(self, stop: Stop) -> std::io::Result<(u64, u64)> {
        let Self { mut queries, mut answers } = self;
        let mut stop = pin!(stop.requested());
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                turn = queries.receive_batch(|query| answers.add(query)) => turn.map(drop)?,
            }
            answers.batch.send();
        }
        while queries.try_receive_batch(|query| answers.add(query))?.state == ReceiveState::More {
            tokio::task::yield_now().await;
        }
        answers.batch.send();
        Ok((answers.batch.sent(), answers.batch.failed()))
    }
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
