//! A client's process from start to end: its sender, its connection, and checks that it keeps its promises.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bbq_client::simulated::{Action, Cause, Client as Sending, CloseReason, Name, Retry};
use bbq_client::{Notice, OnFull, Reconnect, SendError, Sender, ServerAddress};
use bbq_spool::SteppedTime;
use bbq_wire::batch::{Batch, BatchLimits};
use bbq_wire::limits::{BATCH_BODY_BYTES_MAX, MESSAGE_BYTES_MAX};
use bbq_wire::session::{AckLevel, ServerSession, ServerStep};

use super::around::Around;
use super::environment::Machine;
use super::options::ClientOptions;
use super::options::SPOOL;
use crate::bug::Bug;
use crate::disk::SimDisk;
use crate::history::{History, Violation};
use crate::note;
use crate::record::Record;
use crate::tokens::{self, token};

/// Short waits, so that a run has many connections.
const RECONNECT: Reconnect = Reconnect {
    attempts: 3,
    attempts_min: 1,
    wait: Duration::from_millis(1),
    wait_max: Duration::from_millis(8),
};

/// Once in this many steps, a client with nothing in flight finds that its preferred server is back.
const ONE_IN_GOING_BACK: u64 = 60;

pub(super) struct Process {
    index: usize,
    /// The client whose records were in the spool when it was copied.
    origin: Option<usize>,
    sender: Sending,
    notices: Arc<Mutex<Vec<Notice>>>,
    connection: Option<u64>,
    /// The process makes no connection before this time.
    wait_until: Duration,
    /// Records that this process took from the application, by number.
    taken: BTreeMap<u64, Record>,
    /// Number of the next record that the process will take.
    next: u64,
    /// The process will never send again.
    is_over: bool,
}

fn now(time: &SteppedTime) -> Duration {
    Duration::from_nanos(time.now_ns.load(Ordering::Relaxed))
}

impl Process {
    /// `origin` is the client whose spool was copied for this one.
    pub(super) fn start(
        index: usize,
        origin: Option<usize>,
        options: &ClientOptions,
        machine: Machine,
    ) -> Result<Process, String> {
        let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
        let told = Arc::clone(&notices);
        let mut builder = Sender::builder()
            .servers(options.servers.numbers().map(|server| ServerAddress::Tcp(format!("server-{server}:1"))))
            .ack(options.level)
            .queue_bytes_max(options.queue_bytes_max)
            .batch_bytes(options.batch_bytes)
            .compress(options.compress)
            .on_full(if options.drops_oldest { OnFull::DropOldest } else { OnFull::DropNewest })
            .reconnect(RECONNECT)
            .delivery_timeout(options.delivery_timeout)
            .name("simulated")
            .on_notice(move |notice| {
                told.lock().unwrap_or_else(PoisonError::into_inner).push(notice.clone());
            });
        if options.has_token {
            builder = builder.token(token(&tokens::client(index)));
        }
        if options.has_spool {
            builder = builder.spool(SPOOL);
        }
        let sender =
            Sending::open(builder, Arc::new(machine), options.sizes).map_err(|error| error.to_string())?;
        let next = sender.last_sequence() + 1;
        Ok(Process {
            index,
            origin,
            sender,
            notices,
            connection: None,
            wait_until: Duration::ZERO,
            taken: BTreeMap::new(),
            next,
            is_over: false,
        })
    }

    /// Whether it may send records of this client.
    fn may_have(&self, client: usize) -> bool {
        client == self.index || Some(client) == self.origin
    }

    pub(super) fn connection(&self) -> Option<u64> {
        self.connection
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn is_drained(&self) -> bool {
        self.sender.counters().queued == 0
    }

    pub(super) fn describe(&self) -> String {
        let counters = self.sender.counters();
        format!(
            "has {} records up to {}, {} acknowledged, {:?}, connection {:?}, welcome: {}",
            counters.queued,
            self.next - 1,
            self.sender.acknowledged(),
            self.sender.names(),
            self.connection,
            self.sender.is_welcomed()
        )
    }

    /// Tells the history what the sender takes for not acknowledged at its start. See [`History::hold_again`] for `is_late`.
    pub(super) fn hold_again(&self, history: &mut History, is_late: bool) {
        for name in self.sender.names() {
            let first = name.base.max(self.sender.acknowledged()) + 1;
            for number in first..=name.until.min(self.next - 1) {
                history.hold_again(name.stream, number - name.base, is_late);
            }
        }
    }

    pub(super) fn close(&self) {
        self.sender.close();
    }

    /// Takes a record, if there is room.
    pub(super) fn make(&mut self, record: Record, around: &mut Around<'_>) -> Result<(), Violation> {
        match self.sender.send(record.text().as_bytes()) {
            Ok(()) => {
                self.taken.insert(self.next, record);
                self.next += 1;
                Ok(())
            }
            Err(
                error @ (SendError::Full { .. }
                | SendError::SpoolFull { .. }
                | SendError::Spool { .. }
                | SendError::MessageTooLarge { .. }),
            ) => {
                note!(around.trace, "client {} does not take {record:?}: {error}", self.index);
                Ok(())
            }
            Err(error) => Err(Violation::new(format!("client {} takes nothing: {error}", self.index))),
        }
    }

    pub(super) fn step(
        &mut self,
        options: &ClientOptions,
        disk: &SimDisk,
        around: &mut Around<'_>,
    ) -> Result<(), Violation> {
        if around.random.one_in(options.collects_one_in) {
            self.sender.collect();
        }
        let done = match self.connection {
            None if now(around.time) >= self.wait_until => self.connect(options, disk, around),
            None => Ok(()),
            Some(connection) => self.converse(connection, options, disk, around),
        };
        done.and_then(|()| self.hear_notices(options, around))
    }

    fn connect(
        &mut self,
        options: &ClientOptions,
        disk: &SimDisk,
        around: &mut Around<'_>,
    ) -> Result<(), Violation> {
        let hello = self.sender.connect();
        let hello = hello.map_err(|cause| {
            Violation::new(format!("client {} says nothing: {:?}", self.index, cause.problem()))
        })?;
        let server = options.servers.at(self.sender.server());
        let connection = around.network.connect(server);
        self.connection = Some(connection);
        note!(
            around.trace,
            "client {} connects to server {server}: {connection}, {:?}",
            self.index,
            self.sender.names().front()
        );
        // A process that was killed has not written this.
        if disk.halted().is_some() {
            return Ok(());
        }
        let limits =
            BatchLimits { body_bytes_max: BATCH_BODY_BYTES_MAX, message_bytes_max: MESSAGE_BYTES_MAX };
        match ServerSession::new(limits).next(&hello) {
            Ok(ServerStep::Hello { hello, .. })
                if around.history.greet(self.index, hello.stream, hello.epoch) => {}
            said => return Err(Violation::new(format!("client {} says {said:?}", self.index))),
        }
        if let Some(made) = around.network.get(connection) {
            made.up.write(&hello);
        }
        Ok(())
    }

    /// Reads everything that has arrived, and sends something.
    fn converse(
        &mut self,
        connection: u64,
        options: &ClientOptions,
        disk: &SimDisk,
        around: &mut Around<'_>,
    ) -> Result<(), Violation> {
        let (bytes, is_at_end) = match around.network.get(connection) {
            Some(connection) => (std::mem::take(&mut connection.down.arrived), connection.down.is_at_end()),
            None => (Vec::new(), true),
        };
        if let Err(cause) = self.hear(&bytes, options, disk, around)? {
            return self.leave(Err(Some(cause)), around);
        }
        if is_at_end {
            return self.leave(Err(None), around);
        }
        if self.sender.may_go_back() && around.random.one_in(ONE_IN_GOING_BACK) {
            return self.leave(Ok(CloseReason::PreferredIsBack), around);
        }
        match self.sender.next(now(around.time)) {
            Err(cause) => self.leave(Err(Some(cause)), around),
            Ok(Action::Close(done)) => self.leave(Ok(done), around),
            Ok(Action::Idle | Action::AwaitAcknowledgement) => Ok(()),
            Ok(Action::Write(batch)) => {
                if disk.halted().is_some() {
                    return Ok(());
                }
                self.check_batch(&batch, around)?;
                if let Some(connection) = around.network.get(connection) {
                    connection.up.write(&batch);
                }
                self.sender.written();
                Ok(())
            }
        }
    }

    /// Reads what has arrived. Acknowledged records must have been sent.
    fn hear(
        &mut self,
        bytes: &[u8],
        options: &ClientOptions,
        disk: &SimDisk,
        around: &mut Around<'_>,
    ) -> Result<Result<(), Cause>, Violation> {
        if bytes.is_empty() {
            return Ok(Ok(()));
        }
        let (before, held) = (self.sender.acknowledged(), self.sender.held());
        let Some(name) = self.sender.names().front().copied() else { return Ok(Ok(())) };
        let had_welcome = self.sender.is_welcomed();
        let heard = self.sender.receive(bytes, now(around.time));
        if let Some(number) = self.sender.last_received() {
            let record = name.base + number;
            match options.bug {
                Some(Bug::AcknowledgementNotClamped) => self.sender.assume_acknowledged(record),
                Some(Bug::WelcomeBelieved) if !had_welcome => {
                    self.sender.assume_acknowledged(record.min(name.until).min(self.next - 1));
                }
                _ => {}
            }
        }
        // A process that has ended reported nothing.
        if disk.halted().is_none() {
            self.check_acknowledged(before, held, &name, options, around)?;
        }
        Ok(heard)
    }

    fn check_acknowledged(
        &self,
        before: u64,
        held: Vec<(u64, u64)>,
        name: &Name,
        options: &ClientOptions,
        around: &mut Around<'_>,
    ) -> Result<(), Violation> {
        let (index, after) = (self.index, self.sender.acknowledged());
        if after == before {
            return Ok(());
        }
        note!(around.trace, "client {index} hears that everything up to {after} is acknowledged");
        if after < before || after >= self.next {
            return Err(Violation::new(format!(
                "client {index} counts records up to {after} as acknowledged, before up to {before}, and has {}",
                self.next - 1
            )));
        }
        for number in held.into_iter().flat_map(|(first, last)| first.max(before + 1)..=last.min(after)) {
            let sequence = number.saturating_sub(name.base);
            let sent = around.history.sent(name.stream, sequence);
            let taken = self.taken.get(&number).copied().or(sent);
            let Some(record) = taken.filter(|_| taken == sent) else {
                return Err(Violation::new(format!(
                    "client {index} counts {taken:?} as acknowledged as number {sequence} of {}, but has sent {sent:?} there",
                    name.stream
                )));
            };
            if options.level == AckLevel::Durable {
                around.history.acknowledge(record);
            }
        }
        Ok(())
    }

    /// Checks that the record of a number is always the same.
    fn check_batch(&self, bytes: &[u8], around: &mut Around<'_>) -> Result<(), Violation> {
        let index = self.index;
        let mut scratch = Vec::new();
        let batch = Batch::verified_before(bytes, &mut scratch)
            .map_err(|error| Violation::new(format!("client {index} sends no batch: {error}")))?;
        let header = batch.header;
        around.history.keep_batch(header.stream, bytes);
        note!(
            around.trace,
            "client {index} sends {}..={} of {}",
            header.first_sequence,
            header.last_sequence(),
            header.stream
        );
        for (sequence, text) in (header.first_sequence..).zip(batch.records()) {
            let record = std::str::from_utf8(text).ok().and_then(Record::read);
            let Some(record) = record.filter(|record| self.may_have(record.client)) else {
                return Err(Violation::new(format!("client {index} sends a record that nobody made")));
            };
            if !around.history.send(header.stream, sequence, record) {
                return Err(Violation::new(format!(
                    "client {index} sends {record:?} as number {sequence} of {}, which belongs to another record",
                    header.stream
                )));
            }
        }
        Ok(())
    }

    /// Handles the end of a connection.
    fn leave(
        &mut self,
        outcome: Result<CloseReason, Option<Cause>>,
        around: &mut Around<'_>,
    ) -> Result<(), Violation> {
        let index = self.index;
        note!(around.trace, "client {index} leaves connection {:?}: {outcome:?}", self.connection);
        let problem = outcome.as_ref().err().and_then(|cause| cause.as_ref()?.problem());
        if let Some(problem) = problem
            && !around.may_forget
        {
            return Err(Violation::new(format!("client {index} complains: {problem}")));
        }
        match self.sender.ended(outcome) {
            Retry::Now => {}
            Retry::After(wait) => self.wait_until = now(around.time) + wait,
            Retry::Never => self.is_over = true,
        }
        if let Some(connection) = self.connection.take() {
            around.network.leave(connection);
        }
        Ok(())
    }

    pub(super) fn give_up(&mut self, around: &mut Around<'_>) -> bool {
        // This is not an error.
        self.connection.is_some() && self.leave(Err(None), around).is_ok()
    }

    /// Checks that the sender had a reason for each notice. With a correct server it has no reason to begin another stream.
    fn hear_notices(&mut self, options: &ClientOptions, around: &mut Around<'_>) -> Result<(), Violation> {
        let notices = std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner));
        for notice in notices {
            note!(around.trace, "client {} tells: {notice:?}", self.index);
            let is_expected = match &notice {
                Notice::Connected { .. } | Notice::Unreachable { .. } => true,
                Notice::NewStream { server, .. } if server.starts_with("the spool") => true,
                // A power failure took what was not synced, which is nothing that was sent and acknowledged.
                Notice::Lost { server, .. } if server.starts_with("the spool") => true,
                // The lost records were only in memory.
                Notice::Lost { .. } => options.level != AckLevel::Durable,
                _ => false,
            };
            // What a server has forgotten is not known by its stream any more, and what was sent to another server comes again.
            if around.is_set_back && matches!(notice, Notice::NewStream { .. }) {
                around.history.renumber(|client| self.may_have(client));
            }
            // The checks must find the planted bug by the reused numbers, not by this notice.
            if !is_expected && !around.may_forget && options.bug != Some(Bug::NumberUsedAgain) {
                return Err(Violation::new(format!("client {} tells: {notice:?}", self.index)));
            }
        }
        Ok(())
    }
}
