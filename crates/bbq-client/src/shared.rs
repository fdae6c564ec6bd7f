//! What a sender's handle and its threads share, and what a server's words mean for all of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use bbq_wire::StreamId;
use bbq_wire::session::{AckLevel, Welcome};

use crate::delivery::destination::Destination;
use crate::delivery::error::ConnectionError;
use crate::environment::Environment;
use crate::intake::Intake;
use crate::options::Options;
use crate::queue::Queue;
use crate::queue::destination_state::ResumePoint;
use crate::spool::{NotRemembered, Recovered, Sizes, Spool};
use crate::{AdaptiveReconnect, Counters, Delivery, Notice, SendError, ServerAddress, StartError};

/// What the handle and the threads share.
pub(crate) struct Shared {
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) options: Options,
    pub(crate) intake: Intake,
    pub(crate) queue: Queue,
    pub(crate) destinations: Vec<Destination>,
    pub(crate) spool: Option<Arc<Spool>>,
    pub(crate) recovered: u64,
    /// Connections that a server ended by breaking the protocol.
    pub(crate) protocol_errors: AtomicU64,
    /// Of these drops a record was sent.
    pub(crate) reported: AtomicU64,
    /// Threads that have done all they will.
    pub(crate) ended: FinishedThreads,
}

/// Counts threads that have ended.
#[derive(Default)]
pub(crate) struct FinishedThreads {
    count: Mutex<usize>,
    more: Condvar,
}

impl FinishedThreads {
    pub(crate) fn add(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.more.notify_all();
    }

    pub(crate) fn wait(&self, threads: usize, timeout: Duration) {
        let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let _waited = self.more.wait_timeout_while(count, timeout, |count| *count < threads);
    }
}

impl Shared {
    /// All that a sender has but for its threads. Opens the spool, if there is to be one, and goes on where an earlier sender was.
    pub(crate) fn open(
        options: Options,
        environment: Arc<dyn Environment>,
        sizes: Sizes,
    ) -> Result<Shared, StartError> {
        let stream = environment.new_stream().map_err(|error| StartError::System(error.to_string()))?;
        let groups: Vec<Vec<ServerAddress>> = match options.delivery {
            Delivery::Any => vec![options.servers.clone()],
            Delivery::All => options.servers.iter().map(|server| vec![server.clone()]).collect(),
        };
        let (spool, recovered) = open_spool(&options, &environment, groups.len(), stream, sizes)?;
        let destinations = recovered
            .destinations
            .into_iter()
            .zip(groups.iter().map(|servers| servers.iter().map(ServerAddress::id).collect()));
        let queue = Queue::new(&options, Arc::clone(&environment), recovered.next_sequence, destinations);
        let count = queue.recover(recovered.extents, recovered.damaged);
        if let (Some(why), Some(directory), Some(tell)) =
            (recovered.new_stream, &options.spool, &options.notice)
        {
            tell(&Notice::NewStream { server: format!("the spool {}", directory.display()), why });
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
            recovered: count,
            protocol_errors: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            ended: FinishedThreads::default(),
            options,
        })
    }

    /// What the destination's next connection says in its hello: its stream, and its epoch. `Err`: nothing, the sender is closed.
    pub(crate) fn hello(&self, destination: usize) -> Result<(StreamId, u64), ConnectionError> {
        let (stream, epoch) = self.queue.begin_connection(destination);
        // What the disk does not take, the clock makes good at the next start.
        self.before_sending(|spool| spool.epoch(destination, epoch))?;
        Ok((stream, epoch))
    }

    /// Remembers something before it is sent, if there is a spool. `Err`: it must not be sent, as the spool is the next sender's,
    /// who does not know of it.
    fn before_sending(
        &self,
        remember: impl FnOnce(&Spool) -> Result<(), NotRemembered>,
    ) -> Result<(), ConnectionError> {
        match self.spool.as_deref().map(remember) {
            Some(Err(NotRemembered::Closed)) => {
                Err(ConnectionError::Transient("the sender was closed".to_owned()))
            }
            Some(Err(NotRemembered::Failed) | Ok(())) | None => Ok(()),
        }
    }

    /// A server has welcomed the destination: it goes on where the server is, or with a new stream on another connection.
    pub(crate) fn begin_connection(
        &self,
        destination: usize,
        server: usize,
        welcome: &Welcome,
        address: &ServerAddress,
    ) -> Result<(), ConnectionError> {
        let wanted = self.options.ack;
        if welcome.ack < wanted {
            let problem =
                format!("it grants acknowledgements of level {:?}, wanted is {wanted:?}", welcome.ack);
            return Err(ConnectionError::Lasting(SendError::Protocol {
                server: address.to_string(),
                problem,
            }));
        }
        let last = welcome.last_sequence;
        let has = match self.queue.resume_point(destination, server, last) {
            ResumePoint::Has(record) => record,
            // Nobody has promised anything.
            ResumePoint::Forgot { has, .. } if wanted == AckLevel::None => has,
            ResumePoint::Forgot { has, lost } => {
                let why = "it had acknowledged them and does not know them any more".to_owned();
                self.tell(&Notice::Lost { server: address.to_string(), records: lost, why: why.clone() });
                if wanted == AckLevel::Durable {
                    return Err(self.begin_stream(destination, address, &format!("{lost} records: {why}")));
                }
                // A server that fails may lose what it had in memory.
                has
            }
            ResumePoint::NeverSent => {
                let why = format!("it knows number {last} of this stream, which was never sent");
                return Err(self.begin_stream(destination, address, &why));
            }
        };
        self.acknowledged(destination, server, has);
        self.queue.connected(destination, server, has, (welcome.body_bytes_max, welcome.message_bytes_max));
        Ok(())
    }

    /// Gives what is not acknowledged another stream, for the next connection.
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
        let numbering = self.queue.rename(destination, stream);
        // Before anything is sent in it. What cannot be remembered costs, at worst, that records are stored twice.
        let _remembered = self.spool.as_ref().map(|spool| spool.renamed(destination, &numbering));
        self.tell(&Notice::NewStream { server: address.to_string(), why: why.to_owned() });
        ConnectionError::Transient(format!("{why}; going on with a new stream"))
    }

    pub(crate) fn tell(&self, notice: &Notice) {
        if let Some(handler) = &self.options.notice {
            handler(notice);
        }
    }

    /// Records up to this one are about to be sent. `Err`: they must not be, the sender is closed.
    pub(crate) fn sending(&self, destination: usize, record: u64) -> Result<(), ConnectionError> {
        // As with what was acknowledged: what the disk does not take only matters when the segments lose their end as well.
        self.before_sending(|spool| spool.sending(destination, record))
    }

    /// A server has acknowledged everything up to a number of the present stream. `Err` says why it cannot have.
    pub(crate) fn received_ack(&self, destination: usize, server: usize, number: u64) -> Result<(), String> {
        // What was never sent must not even be remembered.
        let record = self.queue.check_ack(destination, server, number).map_err(|sent| {
            format!("it acknowledged number {number}, and only those up to {sent} were sent to it")
        })?;
        self.acknowledged(destination, server, record);
        Ok(())
    }

    pub(crate) fn has_spool(&self) -> bool {
        self.spool.is_some()
    }

    /// The destination's servers will never take anything. When no other destination is left, nothing is taken any more.
    pub(crate) fn fail(&self, destination: usize, error: &SendError) {
        self.queue.fail(destination, error);
        if self.queue.failure().is_some() {
            self.intake.close(&self.queue);
        }
    }

    /// The destination's server has everything up to the record.
    pub(crate) fn acknowledged(&self, destination: usize, server: usize, sequence: u64) {
        if sequence > self.queue.acknowledged_by(destination) {
            self.destinations[destination].reconnect().delivered();
        }
        // First: who hears of it may close the sender. What the disk does not take is asked of the server at the next start.
        let id = self.destinations[destination].id(server);
        let remembered = self.spool.as_ref().map(|spool| spool.acknowledged(destination, sequence, id));
        if matches!(remembered, Some(Err(NotRemembered::Closed))) {
            // The next sender on the spool is told, and counts it.
            return;
        }
        let acknowledged = || self.queue.acknowledged(destination, sequence);
        match &self.spool {
            // What cannot be deleted is tried again.
            Some(spool) => drop(spool.retire(acknowledged)),
            None => {
                acknowledged();
            }
        }
    }

    /// Without acknowledgements, what is written is all there is to know.
    pub(crate) fn written(&self, destination: usize) {
        self.acknowledged(
            destination,
            self.destinations[destination].present(),
            self.queue.sent_by(destination),
        );
    }

    /// Sends a record that says how many were dropped, once there is room again.
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
        let (_still, accepted, open) = self.intake.freeze();
        let state = self.queue.locked();
        let (queued, queued_bytes) = state.queued();
        let mut counters = Counters {
            accepted,
            recovered: self.recovered,
            sent: state.sent,
            acknowledged: state.acknowledged,
            queued: queued + open,
            queued_bytes,
            reconnects: self.destinations.iter().map(Destination::reconnects).sum(),
            protocol_errors: self.protocol_errors.load(Ordering::Relaxed),
            dropped: self.intake.dropped(),
        };
        counters.dropped.oldest = state.dropped_oldest;
        counters.dropped.abandoned = state.abandoned;
        counters
    }
}

fn open_spool(
    options: &Options,
    environment: &Arc<dyn Environment>,
    destinations: usize,
    new_stream: StreamId,
    sizes: Sizes,
) -> Result<(Option<Arc<Spool>>, Recovered), StartError> {
    let Some(directory) = &options.spool else {
        return Ok((None, Recovered::nothing(new_stream, destinations)));
    };
    let names: Vec<String> = match options.delivery {
        Delivery::Any => vec![String::new()],
        Delivery::All => options.servers.iter().map(ToString::to_string).collect(),
    };
    let (spool, recovered) = Spool::open(environment, directory, &names, new_stream, sizes)?;
    Ok((Some(Arc::new(spool)), recovered))
}
