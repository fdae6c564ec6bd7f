//! What is taken and not acknowledged: the batch that is being built, and those that are on their way.
//!
//! ```text
//! builder --cut--> unsent --written--> sent --acknowledged--> gone
//!                     ^------------------'  a new connection begins behind the server's last known sequence
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bbq_wire::batch::BatchIdentity;
use bbq_wire::limits::{MESSAGE_BYTES_DEFAULT, MESSAGE_BYTES_MAX};
use bbq_wire::session::AckLevel;
use bbq_wire::{BatchBuilder, SourceKind, StreamId};

use crate::{SendError, SenderOptions};

/// Buffers of acknowledged batches that are used again.
const SPARE_MAX: usize = 64;

/// A finished batch.
struct Batch {
    bytes: Arc<Vec<u8>>,
    last_sequence: u64,
}

#[derive(Default)]
struct State {
    builder: BatchBuilder,
    /// When the builder got its first record.
    since: Option<Instant>,
    /// Number of the next record.
    next_sequence: u64,
    /// In order; the first `sent` of them were written to the present connection.
    batches: VecDeque<Batch>,
    sent: usize,
    /// Bytes of `batches`.
    bytes: usize,
    acknowledged: u64,
    spare: Vec<Vec<u8>>,
    /// The server's limit; `None` before the first welcome.
    message_bytes_max: Option<u32>,
    /// No more records come.
    closed: bool,
    /// The present connection broke, said by its reader.
    broken: bool,
    failed: Option<SendError>,
}

/// Shared by the application, the connection's writer and its reader.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Something to send, to build, or to end.
    work: Condvar,
    /// Room, an acknowledgement, or a failure.
    moved: Condvar,
    options: SenderOptions,
    stream: StreamId,
}

/// What the writer should do next.
pub(crate) enum Work {
    /// Write this.
    Send(Arc<Vec<u8>>),
    /// The present connection is of no use any more.
    Reconnect,
    /// Everything is done, or nothing ever will be.
    End,
}

impl Queue {
    pub(crate) fn new(options: SenderOptions, stream: StreamId) -> Queue {
        let state = State { next_sequence: 1, ..State::default() };
        Queue { state: Mutex::new(state), work: Condvar::new(), moved: Condvar::new(), options, stream }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn options(&self) -> &SenderOptions {
        &self.options
    }

    pub(crate) fn stream(&self) -> StreamId {
        self.stream
    }

    /// Takes records, waiting for room; answers how many were taken before one that was not.
    pub(crate) fn push<'a>(&self, records: impl Iterator<Item = &'a [u8]>) -> (u64, Result<(), SendError>) {
        let mut taken = 0;
        let mut state = self.locked();
        for record in records {
            // Whether a server takes more than most do, only its welcome says.
            while state.message_bytes_max.is_none()
                && state.failed.is_none()
                && (MESSAGE_BYTES_DEFAULT as usize + 1..=MESSAGE_BYTES_MAX as usize).contains(&record.len())
            {
                state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let limit = state.message_bytes_max.unwrap_or(MESSAGE_BYTES_MAX);
            if record.len() > limit as usize {
                return (taken, Err(SendError::MessageTooLarge { bytes: record.len(), limit }));
            }
            // Again behind a wait: another thread may have filled the next one.
            while !state.builder.is_empty()
                && (state.builder.body_bytes() >= self.options.batch_bytes
                    || !state.builder.has_room(record.len()))
            {
                self.cut(&mut state);
                self.work.notify_one();
                while state.bytes >= self.options.queue_bytes_max && state.failed.is_none() {
                    state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
            if let Some(error) = &state.failed {
                return (taken, Err(error.clone()));
            }
            if state.builder.is_empty() {
                state.since = Some(Instant::now());
                // The writer sleeps without a limit while there is nothing.
                self.work.notify_one();
            }
            state.builder.push(record);
            taken += 1;
        }
        (taken, Ok(()))
    }

    /// Finishes the batch that is being built.
    fn cut(&self, state: &mut State) {
        let identity = BatchIdentity {
            stream: self.stream,
            first_sequence: state.next_sequence,
            base_time_ns: unix_ns(),
            source: SourceKind::Bbq,
            compression: self.options.compression,
        };
        let records = u64::from(state.builder.records());
        let mut bytes = state.spare.pop().unwrap_or_default();
        bytes.clear();
        let Some(finished) = state.builder.finish(&identity) else { return };
        bytes.extend_from_slice(finished);
        state.builder.clear();
        state.since = None;
        state.next_sequence += records;
        state.bytes += bytes.len();
        state.batches.push_back(Batch { bytes: Arc::new(bytes), last_sequence: state.next_sequence - 1 });
    }

    /// Waits for something to do on a connection.
    pub(crate) fn next(&self) -> Work {
        let mut state = self.locked();
        loop {
            if state.failed.is_some() {
                return Work::End;
            }
            if state.broken {
                return Work::Reconnect;
            }
            if state.sent < state.batches.len() {
                let bytes = Arc::clone(&state.batches[state.sent].bytes);
                state.sent += 1;
                return Work::Send(bytes);
            }
            let age = state.since.map(|since| since.elapsed());
            if age.is_some_and(|age| age >= self.options.linger || state.closed) {
                self.cut(&mut state);
                continue;
            }
            if state.closed && state.batches.is_empty() {
                return Work::End;
            }
            state = match age {
                Some(age) => {
                    let rest = self.options.linger.saturating_sub(age);
                    self.work.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// A batch was written. Without acknowledgements that is all there is to know.
    pub(crate) fn written(&self) {
        if self.options.ack == AckLevel::None {
            let mut state = self.locked();
            if let Some(last) = state.sent.checked_sub(1).map(|index| state.batches[index].last_sequence) {
                acknowledge(&mut state, last);
            }
            drop(state);
            self.moved.notify_all();
        }
    }

    /// The server has everything up to `sequence`.
    pub(crate) fn acknowledged(&self, sequence: u64) {
        let mut state = self.locked();
        acknowledge(&mut state, sequence);
        let done = state.closed && state.batches.is_empty();
        drop(state);
        self.moved.notify_all();
        if done {
            self.work.notify_one();
        }
    }

    /// A new connection: the server knows everything up to `last_sequence`, the rest is sent again.
    pub(crate) fn connected(&self, last_sequence: u64, message_bytes_max: u32) {
        let mut state = self.locked();
        acknowledge(&mut state, last_sequence);
        state.sent = 0;
        state.broken = false;
        // Whatever a server says, a message must fit into a batch.
        state.message_bytes_max = Some(message_bytes_max.min(MESSAGE_BYTES_MAX));
        drop(state);
        self.moved.notify_all();
    }

    /// The reader of the present connection ended.
    pub(crate) fn set_broken(&self) {
        self.locked().broken = true;
        self.work.notify_one();
    }

    /// Nothing can be sent any more.
    pub(crate) fn fail(&self, error: SendError) {
        self.locked().failed = Some(error);
        self.moved.notify_all();
        self.work.notify_one();
    }

    /// No more records come.
    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.work.notify_one();
    }

    pub(crate) fn is_done(&self) -> bool {
        let state = self.locked();
        state.failed.is_some() || (state.closed && state.batches.is_empty() && state.builder.is_empty())
    }

    /// Waits until everything that was taken is acknowledged.
    pub(crate) fn wait_acknowledged(&self) -> Result<(), SendError> {
        let mut state = self.locked();
        if !state.builder.is_empty() {
            self.cut(&mut state);
            self.work.notify_one();
        }
        let taken = state.next_sequence - 1;
        while state.acknowledged < taken {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Records taken, and records acknowledged.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.locked();
        (state.next_sequence - 1 + u64::from(state.builder.records()), state.acknowledged)
    }
}

/// Forgets every batch up to `sequence`. An acknowledgement may repeat or be late; it never goes back.
fn acknowledge(state: &mut State, sequence: u64) {
    while state.batches.front().is_some_and(|first| first.last_sequence <= sequence) {
        let Some(first) = state.batches.pop_front() else { break };
        state.acknowledged = state.acknowledged.max(first.last_sequence);
        state.bytes -= first.bytes.len();
        state.sent = state.sent.saturating_sub(1);
        if state.spare.len() < SPARE_MAX
            && let Ok(bytes) = Arc::try_unwrap(first.bytes)
        {
            state.spare.push(bytes);
        }
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(options: impl FnOnce(&mut SenderOptions)) -> Arc<Queue> {
        let mut all = SenderOptions::new(Vec::new());
        options(&mut all);
        Arc::new(Queue::new(all, StreamId([1; 16])))
    }

    #[test]
    fn a_message_that_some_servers_take_waits_for_the_welcome() {
        let large = vec![0; 2 * MESSAGE_BYTES_DEFAULT as usize];
        for (limit, taken) in [(MESSAGE_BYTES_DEFAULT, 0), (MESSAGE_BYTES_MAX, 1)] {
            let queue = queue(|_| ());
            let welcomed = Arc::clone(&queue);
            let (tell, told) = std::sync::mpsc::sync_channel::<()>(1);
            let server = std::thread::spawn(move || {
                told.recv().unwrap();
                welcomed.connected(0, limit);
            });
            let records = std::iter::once(large.as_slice()).inspect(|_| tell.send(()).unwrap());
            assert_eq!(queue.push(records).0, taken);
            server.join().unwrap();
        }
        let impossible = vec![0; MESSAGE_BYTES_MAX as usize + 1];
        assert_eq!(queue(|_| ()).push(std::iter::once(impossible.as_slice())).0, 0);
    }

    #[test]
    fn a_server_that_names_no_real_limit_does_not_break_the_application() {
        let queue = queue(|_| ());
        queue.connected(0, u32::MAX);
        let impossible = vec![0; 20 * 1024 * 1024];
        let outcome = queue.push(std::iter::once(impossible.as_slice()));
        assert!(matches!(outcome, (0, Err(SendError::MessageTooLarge { .. }))));
    }

    #[test]
    fn threads_that_waited_for_room_do_not_fill_one_batch_together() {
        let queue = queue(|options| options.queue_bytes_max = 1);
        queue.connected(0, MESSAGE_BYTES_MAX);
        let record = vec![0; MESSAGE_BYTES_MAX as usize];
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..6).map(|_| scope.spawn(|| queue.push(std::iter::once(record.as_slice())).0)).collect();
            // Takes whatever is there, and acknowledges it, until all are through.
            while threads.iter().any(|thread| !thread.is_finished()) {
                let next = queue.counts().1 + 1;
                queue.acknowledged(next);
                std::thread::yield_now();
            }
            let taken: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(taken, 6);
        });
    }
}
