//! The state that a sender's handle and its threads share, and what follows from the frames of a server.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bbq_wire::session::{AckLevel, Hello, Progress, Welcome};

use crate::delivery::destination::Destination;
use crate::delivery::error::ConnectionError;
use crate::delivery::session::Session;
use crate::delivery::tls;
use crate::environment::Environment;
use crate::intake::Intake;
use crate::options::Options;
use crate::queue::destination_state::{ResumePoint, Told};
use crate::queue::{GaveUp, GiveUpReason, Queue};
use crate::spool::{NotSaved, Recovered, Sizes, Spool, ToldLoss};
use crate::{AdaptiveReconnect, Counters, Delivery, Notice, SendError, ServerAddress, StartError};

pub(crate) struct Shared {
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) options: Options,
    pub(crate) intake: Intake,
    pub(crate) queue: Queue,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) spool: Option<Arc<Spool>>,
    /// Makes TLS connections; `None` if no server is reached by TLS.
    pub(crate) tls: Option<Arc<tls::Client>>,
    recovered: u64,
    /// Connections that ended because the server broke the protocol.
    pub(crate) protocol_errors: AtomicU64,
    /// Drops that the sender has reported in a record of its own.
    reported: AtomicU64,
    /// Whether a line on standard error has told of records that are not acknowledged at the end.
    told_unsent: AtomicBool,
}

fn closed() -> ConnectionError {
    ConnectionError::Transient("the sender was closed".to_owned())
}

impl Shared {
    /// Makes a sender without its threads. Opens the spool, if there is one, and continues where the last sender on it ended.
    pub(crate) fn open(
        options: Options,
        environment: Arc<dyn Environment>,
        sizes: Sizes,
    ) -> Result<Shared, StartError> {
        let stream = environment.new_stream().map_err(|error| StartError::System(error.to_string()))?;
        let tls = tls::Client::open(&options)?.map(Arc::new);
        let servers = &options.servers;
        // The servers of each destination, and its name in a spool.
        let (groups, names): (Vec<Vec<ServerAddress>>, Vec<String>) = match options.delivery {
            Delivery::Any => (vec![servers.clone()], vec![String::new()]),
            Delivery::All => servers.iter().map(|server| (vec![server.clone()], server.to_string())).unzip(),
        };
        let (spool, recovered) = match &options.spool {
            None => (None, Recovered::nothing(stream, groups.len())),
            Some(directory) => {
                let (spool, recovered) = Spool::open(&environment, directory, &names, stream, sizes)?;
                (Some(Arc::new(spool)), recovered)
            }
        };
        let destinations = recovered
            .destinations
            .into_iter()
            .zip(groups.iter().map(|servers| servers.iter().map(ServerAddress::id).collect()));
        let queue = Queue::new(&options, Arc::clone(&environment), recovered.next_sequence, destinations);
        let lost = recovered.losses.iter().map(|loss| loss.records).fold(0, u64::saturating_add);
        let count = queue.recover(recovered.extents, lost);
        if let (Some(directory), Some(handler)) = (&options.spool, &options.notice) {
            let server = format!("the spool {}", directory.display());
            for ToldLoss { records, why } in recovered.losses {
                handler(&Notice::Lost { server: server.clone(), records, why });
            }
            if let Some(why) = recovered.new_stream_reason {
                handler(&Notice::NewStream { server, why });
            }
        }
        let seed = u64::from_le_bytes(stream.0.first_chunk::<8>().copied().unwrap_or_default());
        let destinations = groups
            .into_iter()
            .enumerate()
            .map(|(index, servers)| {
                let seed = seed.wrapping_add(index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                Destination::new(index, servers, AdaptiveReconnect::new(options.reconnect, seed))
            })
            .collect();
        Ok(Shared {
            environment,
            intake: Intake::new(options.on_full, spool.clone()),
            queue,
            destinations,
            spool,
            tls,
            recovered: count,
            protocol_errors: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            told_unsent: AtomicBool::new(false),
            options,
        })
    }

    /// Stops taking records. The destinations end when everything is acknowledged.
    pub(crate) fn close_intake(&self) {
        self.intake.close(&self.queue);
        self.queue.close();
    }

    /// Ends the destinations now, and leaves the spool to the next sender.
    pub(crate) fn end(&self) {
        self.queue.end(SendError::Closed, self.spool.is_some());
        if let Some(spool) = &self.spool {
            spool.close(self.queue.acknowledged_by_all());
        }
    }

    /// The encoded hello of the destination's next connection. `Err` if the sender is closed.
    pub(crate) fn hello(&self, destination: usize) -> Result<Vec<u8>, ConnectionError> {
        let (stream, epoch, done) = self.queue.begin_connection(destination);
        // If the disk does not take the epoch, the clock makes the next sender's epoch higher all the same.
        match self.save_before_sending(|spool| spool.progress(destination).epoch(epoch)) {
            Err(NotSaved::Closed) => return Err(closed()),
            Err(NotSaved::Failed | NotSaved::Error(_)) | Ok(()) => {}
        }
        let Options { ack, name, token, .. } = &self.options;
        let mut frame = Vec::new();
        let (client, token) = (name.clone(), token.clone());
        let progress = Some(Progress { done, is_kept: self.spool.is_some() });
        Hello { stream, ack: *ack, client, epoch, relays: false, token, progress }.encode(&mut frame);
        Ok(frame)
    }

    /// Saves something in the spool before it is sent. If the sender is closed, it must not be sent: the spool belongs to the next sender,
    /// which would not know of it.
    fn save_before_sending(&self, save: impl FnOnce(&Spool) -> Result<(), NotSaved>) -> Result<(), NotSaved> {
        self.spool.as_deref().map_or(Ok(()), save)
    }

    /// A server has welcomed the destination. The destination continues where the server is, or, if the numbers cannot be trusted, with a
    /// new stream on another connection (`Err`).
    pub(crate) fn begin_connection(
        &self,
        destination: usize,
        server: usize,
        welcome: &Welcome,
        address: &ServerAddress,
    ) -> Result<(), ConnectionError> {
        let wanted = self.options.ack;
        if welcome.ack < wanted {
            let remedy = match wanted {
                AckLevel::Replicated => {
                    "; give the server a sink bbq: to a second server, and no listener with on_full=drop-oldest"
                }
                _ => "",
            };
            let problem = format!(
                "it offers acknowledgements of level {:?}, and this sender needs {wanted:?}{remedy}",
                welcome.ack
            );
            return Err(ConnectionError::Lasting(SendError::Protocol {
                server: address.to_string(),
                problem,
            }));
        }
        let told = Told::from(welcome);
        let has = match self.queue.resume_point(destination, server, told) {
            ResumePoint::Has(record) => record,
            // Without acknowledgements the server has promised nothing.
            ResumePoint::Forgot { has, .. } if wanted == AckLevel::None => has,
            ResumePoint::Forgot { has, lost } => {
                let why = "it had acknowledged them and no longer knows them".to_owned();
                self.notify(&Notice::Lost { server: address.to_string(), records: lost, why: why.clone() });
                if wanted >= AckLevel::Durable {
                    return Err(self.begin_stream(destination, address, &format!("{lost} records: {why}")));
                }
                // A server that crashes may lose what it had in memory.
                has
            }
            ResumePoint::NeverSent => {
                let why = format!("it knows number {} of this stream, which was never sent", told.highest);
                return Err(self.begin_stream(destination, address, &why));
            }
        };
        self.acknowledged(destination, server, has);
        self.queue.connected(destination, server, has, (welcome.body_bytes_max, welcome.message_bytes_max));
        Ok(())
    }

    /// Moves the records that are not acknowledged to a new stream, for the next connection. Returns the error that ends this one.
    pub(crate) fn begin_stream(
        &self,
        destination: usize,
        address: &ServerAddress,
        why: &str,
    ) -> ConnectionError {
        let stream = match self.environment.new_stream() {
            Ok(stream) => stream,
            Err(error) => return ConnectionError::Transient(error.to_string()),
        };
        let numbering = self.queue.replace_stream(destination, stream);
        // Before anything is sent in the stream. If it cannot be saved, the next sender at worst stores records twice.
        let _saved = self.spool.as_ref().map(|spool| spool.progress(destination).replace_stream(&numbering));
        self.notify(&Notice::NewStream { server: address.to_string(), why: why.to_owned() });
        ConnectionError::Transient(format!("{why}; going on with a new stream"))
    }

    /// The program hears itself how the sender ended.
    pub(crate) fn set_told_unsent(&self) {
        self.told_unsent.store(true, Ordering::Relaxed);
    }

    /// Tells the user that a sender ends and records are not acknowledged, once, if the program does not hear the outcome: nobody else
    /// would. A program with a handler of notices was told why, and says itself what it likes.
    pub(crate) fn tell_unsent(&self, error: SendError) {
        let why = match error {
            SendError::Closed | SendError::Forked => return,
            SendError::Timeout { last_problem, .. } => last_problem,
            error => Some(error.to_string()),
        };
        let Counters { queued, dropped, .. } = self.counters();
        let records = queued + dropped.abandoned;
        let is_told = self.options.notice.is_some() || records == 0;
        if is_told || self.told_unsent.swap(true, Ordering::Relaxed) {
            return;
        }
        let rest = match &self.options.spool {
            Some(directory) => {
                format!("the spool {} keeps these messages for the next sender", directory.display())
            }
            None => "without a spool, messages that no server has are lost".to_owned(),
        };
        let are = if records == 1 { "message is" } else { "messages are" };
        let why = why.map_or_else(String::new, |why| format!("; {why}"));
        // Standard error may be closed.
        let _nobody_reads = writeln!(
            io::stderr(),
            "bbq: {records} {are} not acknowledged at the end of a sender{why}; {rest}"
        );
    }

    pub(crate) fn notify(&self, notice: &Notice) {
        if let Some(handler) = &self.options.notice {
            handler(notice);
        }
    }

    /// Tells that records were given up.
    pub(crate) fn gave_up(&self, destination: usize, GaveUp { records, reason }: GaveUp) {
        let destination = &self.destinations[destination];
        let (server, why) = match (reason, &self.options.spool) {
            (GiveUpReason::Unreadable, Some(directory)) => (
                format!("the spool {}", directory.display()),
                "they could be read at the start, and can no longer be read".to_owned(),
            ),
            _ => (
                destination.servers[destination.current.load(Ordering::Relaxed)].to_string(),
                "they are over the server's limit (message_bytes_max of its listener)".to_owned(),
            ),
        };
        self.notify(&Notice::Lost { server, records, why });
    }

    /// Records up to this one are about to be sent. `Err` if the sender is closed, and they must not be.
    pub(crate) fn sending(&self, destination: usize, record: u64) -> Result<(), ConnectionError> {
        match self.save_before_sending(|spool| spool.progress(destination).sending(record)) {
            Err(NotSaved::Closed) => Err(closed()),
            Err(NotSaved::Error(error)) => Err(ConnectionError::Transient(format!(
                "the spool cannot save the progress of sending: {error}"
            ))),
            // It is sent all the same, as only acknowledgements free room on a full disk. If the process is then killed before anything is
            // saved again, the next sender at worst sends records twice, in a new stream.
            Err(NotSaved::Failed) | Ok(()) => Ok(()),
        }
    }

    /// A server has acknowledged the current stream up to a number. `Err` ends the connection: the number was never sent.
    pub(crate) fn received_ack(
        &self,
        destination: usize,
        server: usize,
        session: &Session,
        number: u64,
    ) -> Result<(), ConnectionError> {
        let record = self.queue.check_ack(destination, server, number).map_err(|sent| {
            session.violation(&format!(
                "it acknowledged number {number}, and only those up to {sent} were sent to it"
            ))
        })?;
        self.acknowledged(destination, server, record);
        Ok(())
    }

    /// The destination's servers will never take anything. If no other destination is left, the sender takes no more records.
    pub(crate) fn fail(&self, destination: usize, error: &SendError) {
        self.queue.fail(destination, error);
        if self.queue.failure().is_some() {
            self.intake.close(&self.queue);
        }
    }

    /// The server has every record up to this one.
    pub(crate) fn acknowledged(&self, destination: usize, server: usize, record: u64) {
        if record > self.queue.acknowledged_by(destination) {
            self.destinations[destination].reconnect().delivered();
        }
        let Some(spool) = &self.spool else {
            self.queue.acknowledged(destination, record);
            return;
        };
        // Saved first, as a thread that waits for the acknowledgement may then close the sender. If the disk does not take it, the next
        // sender asks the server.
        let id = self.destinations[destination].ids[server];
        let saved = spool.progress(destination).acknowledged(record, id);
        if matches!(saved, Err(NotSaved::Closed)) {
            // The next sender on the spool gets the acknowledgement, and counts it.
            return;
        }
        // A file that cannot be removed is tried again later.
        let _removed = spool.retire(|| self.queue.acknowledged(destination, record));
        if saved.is_err() {
            // There may be room now. Otherwise the next sender would look for a segment that was removed rightly.
            let _saved = spool.progress(destination).acknowledged(record, id);
        }
    }

    /// A batch is written. Without acknowledgements, its records then count as acknowledged.
    pub(crate) fn written(&self, destination: usize) {
        if self.options.ack != AckLevel::None {
            return;
        }
        let server = self.destinations[destination].current.load(Ordering::Relaxed);
        let sent = self.queue.locked().destinations[destination].sent;
        self.acknowledged(destination, server, sent);
    }

    /// Queues a record that says how many records were dropped, if there is room.
    pub(crate) fn report_drops(&self, destination: usize) {
        if destination != 0 || !self.options.report_drops {
            return;
        }
        let mut dropped = self.intake.dropped();
        dropped.oldest = self.queue.locked().dropped_oldest;
        let total = dropped.full + dropped.too_large + dropped.spool + dropped.oldest;
        let reported = self.reported.load(Ordering::Relaxed);
        if total > reported && !self.queue.is_closed() {
            let text = format!(
                "bbq: {} of this sender's messages were dropped before this one: {} found no room, {} were dropped for newer \
                 ones, {} were too large, {} could not be spooled, since it started",
                total - reported,
                dropped.full,
                dropped.oldest,
                dropped.too_large,
                dropped.spool
            );
            if self.intake.push_if_room(&self.queue, text.as_bytes()).is_ok() {
                self.reported.store(total, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let (_frozen, accepted, open) = self.intake.freeze();
        let state = self.queue.locked();
        let (queued, queued_bytes) = state.queued();
        let reconnects = self.destinations.iter().map(|one| one.reconnects.load(Ordering::Relaxed)).sum();
        let mut counters = Counters {
            accepted,
            recovered: self.recovered,
            sent: state.sent,
            acknowledged: state.acknowledged,
            queued: queued + open,
            queued_bytes,
            reconnects,
            protocol_errors: self.protocol_errors.load(Ordering::Relaxed),
            dropped: self.intake.dropped(),
        };
        counters.dropped.oldest = state.dropped_oldest;
        counters.dropped.abandoned = state.abandoned;
        counters
    }
}
