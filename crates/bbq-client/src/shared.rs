//! What a sender's handle and its threads share, and what a server's words mean for all of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use bbq_wire::StreamId;
use bbq_wire::session::{AckLevel, Welcome};

use crate::environment::Environment;
use crate::intake::Intake;
use crate::options::Options;
use crate::outlet::Outlet;
use crate::outlet_state::Standing;
use crate::queue::Queue;
use crate::session::Trouble;
use crate::spool::{NotRemembered, Recovered, Sizes, Spool};
use crate::{AdaptiveReconnect, Counters, Delivery, Notice, SendError, ServerAddress, StartError};

/// What the handle and the threads share.
pub(crate) struct Shared {
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) options: Options,
    pub(crate) intake: Intake,
    pub(crate) queue: Queue,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) spool: Option<Arc<Spool>>,
    pub(crate) recovered: u64,
    /// Connections that a server ended by breaking the protocol.
    pub(crate) protocol_errors: AtomicU64,
    /// Of these drops a record was sent.
    pub(crate) reported: AtomicU64,
    /// Threads that have done all they will.
    pub(crate) ended: Ended,
}

/// Counts threads that have ended.
#[derive(Default)]
pub(crate) struct Ended {
    count: Mutex<usize>,
    more: Condvar,
}

impl Ended {
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
        let outlets = recovered
            .outlets
            .into_iter()
            .zip(groups.iter().map(|servers| servers.iter().map(ServerAddress::id).collect()));
        let queue = Queue::new(&options, Arc::clone(&environment), recovered.next_sequence, outlets);
        let count = queue.recover(recovered.extents, recovered.damaged);
        if let (Some(why), Some(directory), Some(tell)) =
            (recovered.new_stream, &options.spool, &options.notice)
        {
            tell(&Notice::NewStream { server: format!("the spool {}", directory.display()), why });
        }
        let seed = u64::from_le_bytes(stream.0.first_chunk::<8>().copied().unwrap_or_default());
        let outlets = groups
            .into_iter()
            .enumerate()
            .map(|(index, servers)| {
                let seed = seed.wrapping_add(index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                Outlet::new(index, servers, AdaptiveReconnect::new(options.reconnect, seed))
            })
            .collect();
        Ok(Shared {
            environment,
            intake: Intake::new(options.on_full, spool.clone()),
            queue,
            outlets,
            spool,
            recovered: count,
            protocol_errors: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            ended: Ended::default(),
            options,
        })
    }

    /// What the outlet's next connection says in its hello: its stream, and its epoch. `Err`: nothing, the sender is closed.
    pub(crate) fn hello(&self, outlet: usize) -> Result<(StreamId, u64), Trouble> {
        let (stream, epoch) = self.queue.begin_connection(outlet);
        // What the disk does not take, the clock makes good at the next start.
        self.before_sending(|spool| spool.epoch(outlet, epoch))?;
        Ok((stream, epoch))
    }

    /// Remembers something before it is sent, if there is a spool. `Err`: it must not be sent, as the spool is the next sender's,
    /// who does not know of it.
    fn before_sending(
        &self,
        remember: impl FnOnce(&Spool) -> Result<(), NotRemembered>,
    ) -> Result<(), Trouble> {
        match self.spool.as_deref().map(remember) {
            Some(Err(NotRemembered::Closed)) => Err(Trouble::Passing("the sender was closed".to_owned())),
            Some(Err(NotRemembered::Failed) | Ok(())) | None => Ok(()),
        }
    }

    /// A server has welcomed the outlet: it goes on where the server is, or with a new stream on another connection.
    pub(crate) fn begin_connection(
        &self,
        outlet: usize,
        server: usize,
        welcome: &Welcome,
        address: &ServerAddress,
    ) -> Result<(), Trouble> {
        let wanted = self.options.ack;
        if welcome.ack < wanted {
            let problem =
                format!("it grants acknowledgements of level {:?}, wanted is {wanted:?}", welcome.ack);
            return Err(Trouble::Lasting(SendError::Protocol { server: address.to_string(), problem }));
        }
        let last = welcome.last_sequence;
        let has = match self.queue.judge(outlet, server, last) {
            Standing::Has(record) => record,
            // Nobody has promised anything.
            Standing::Forgot { has, .. } if wanted == AckLevel::None => has,
            Standing::Forgot { has, lost } => {
                let why = "it had acknowledged them and does not know them any more".to_owned();
                self.tell(&Notice::Lost { server: address.to_string(), records: lost, why: why.clone() });
                if wanted == AckLevel::Durable {
                    return Err(self.begin_stream(outlet, address, &format!("{lost} records: {why}")));
                }
                // A server that fails may lose what it had in memory.
                has
            }
            Standing::NeverSent => {
                let why = format!("it knows number {last} of this stream, which was never sent");
                return Err(self.begin_stream(outlet, address, &why));
            }
        };
        self.acknowledged(outlet, server, has);
        self.queue.connected(outlet, server, has, (welcome.body_bytes_max, welcome.message_bytes_max));
        Ok(())
    }

    /// Gives what is not acknowledged another stream, for the next connection.
    pub(crate) fn begin_stream(&self, outlet: usize, address: &ServerAddress, why: &str) -> Trouble {
        let stream = match self.environment.new_stream() {
            Ok(stream) => stream,
            Err(error) => return Trouble::Passing(error.to_string()),
        };
        let numbering = self.queue.rename(outlet, stream);
        // Before anything is sent in it. What cannot be remembered costs, at worst, that records are stored twice.
        let _remembered = self.spool.as_ref().map(|spool| spool.renamed(outlet, &numbering));
        self.tell(&Notice::NewStream { server: address.to_string(), why: why.to_owned() });
        Trouble::Passing(format!("{why}; going on with a new stream"))
    }

    pub(crate) fn tell(&self, notice: &Notice) {
        if let Some(handler) = &self.options.notice {
            handler(notice);
        }
    }

    /// Records up to this one are about to be sent. `Err`: they must not be, the sender is closed.
    pub(crate) fn sending(&self, outlet: usize, record: u64) -> Result<(), Trouble> {
        // As with what was acknowledged: what the disk does not take only matters when the segments lose their end as well.
        self.before_sending(|spool| spool.sending(outlet, record))
    }

    /// A server has acknowledged everything up to a number of the present stream. `Err` says why it cannot have.
    pub(crate) fn claimed(&self, outlet: usize, server: usize, number: u64) -> Result<(), String> {
        // What was never sent must not even be remembered.
        let record = self.queue.claimed(outlet, server, number).map_err(|sent| {
            format!("it acknowledged number {number}, and only those up to {sent} were sent to it")
        })?;
        self.acknowledged(outlet, server, record);
        Ok(())
    }

    pub(crate) fn has_spool(&self) -> bool {
        self.spool.is_some()
    }

    /// The outlet's servers will never take anything. When no other outlet is left, nothing is taken any more.
    pub(crate) fn fail(&self, outlet: usize, error: &SendError) {
        self.queue.fail(outlet, error);
        if self.queue.failure().is_some() {
            self.intake.close(&self.queue);
        }
    }

    /// The outlet's server has everything up to the record.
    pub(crate) fn acknowledged(&self, outlet: usize, server: usize, sequence: u64) {
        if sequence > self.queue.acknowledged_by(outlet) {
            self.outlets[outlet].reconnect().delivered();
        }
        // First: who hears of it may close the sender. What the disk does not take is asked of the server at the next start.
        let id = self.outlets[outlet].id(server);
        let remembered = self.spool.as_ref().map(|spool| spool.acknowledged(outlet, sequence, id));
        if matches!(remembered, Some(Err(NotRemembered::Closed))) {
            // The next sender on the spool is told, and counts it.
            return;
        }
        let everyone = self.queue.acknowledged(outlet, sequence);
        if let Some(spool) = &self.spool {
            // What cannot be deleted is tried again.
            let _retired = spool.retire(everyone);
        }
    }

    /// Without acknowledgements, what is written is all there is to know.
    pub(crate) fn written(&self, outlet: usize) {
        self.acknowledged(outlet, self.outlets[outlet].present(), self.queue.sent_by(outlet));
    }

    /// Sends a record that says how many were dropped, once there is room again.
    pub(crate) fn report_drops(&self, outlet: usize) {
        if outlet != 0 || !self.options.report_drops {
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
        let (_still, accepted, open) = self.intake.stand_still();
        let state = self.queue.locked();
        let (queued, queued_bytes) = state.queued();
        let mut counters = Counters {
            accepted,
            recovered: self.recovered,
            sent: state.sent,
            acknowledged: state.acknowledged,
            queued: queued + open,
            queued_bytes,
            reconnects: self.outlets.iter().map(Outlet::reconnects).sum(),
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
    outlets: usize,
    new_stream: StreamId,
    sizes: Sizes,
) -> Result<(Option<Arc<Spool>>, Recovered), StartError> {
    let Some(directory) = &options.spool else { return Ok((None, Recovered::nothing(new_stream, outlets))) };
    let names: Vec<String> = match options.delivery {
        Delivery::Any => vec![String::new()],
        Delivery::All => options.servers.iter().map(ToString::to_string).collect(),
    };
    let (spool, recovered) = Spool::open(environment, directory, &names, new_stream, sizes)?;
    Ok((Some(Arc::new(spool)), recovered))
}
