//! A program with bbq-client's sender. At times the program drops the sender with unacknowledged messages.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bbq_client::{AckLevel, Notice, OnFull, SendError, Sender, ServerAddress};

use super::client::{Client, Field, PATIENCE, owned, pause};
use crate::book::Promise;
use crate::message::Message;
use crate::random::Random;

/// How long `send` waits for room before the client checks whether to stop.
const ROOM_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) struct Library {
    servers: Vec<String>,
    ack: AckLevel,
    spool: Option<PathBuf>,
    random: Random,
    sender: Option<Sender>,
    /// The present run. With a spool, the next sender continues the run.
    run: Option<Run>,
}

#[derive(Clone, Copy)]
struct Run {
    number: u32,
    /// Whether order is promised.
    ordered: bool,
    /// The epoch in which the run began.
    epoch: u64,
    /// Messages that were acknowledged to former senders.
    acknowledged_before: u64,
}

impl Library {
    pub(super) fn new(servers: &[&str], ack: AckLevel, spool: Option<PathBuf>, random: Random) -> Library {
        Library { servers: owned(servers), ack, spool, random, sender: None, run: None }
    }

    fn begin(&mut self, field: &Field) -> Result<(), String> {
        if self.run.is_none() {
            let ordered = field.keeps_order_over(&self.servers);
            let durable = matches!(self.ack, AckLevel::Durable | AckLevel::Replicated);
            let promise = Promise { ordered, no_holes: durable, durable };
            let epoch = field.book.epoch();
            let number = field.book.begin(self.name(), promise);
            self.run = Some(Run { number, ordered, epoch, acknowledged_before: 0 });
        }
        let address = |server: &String| server.parse().map_err(|error| format!("{server}: {error}"));
        let addresses = self.servers.iter().map(address).collect::<Result<Vec<ServerAddress>, String>>()?;
        let mut builder = Sender::builder()
            .servers(addresses)
            .ack(self.ack)
            .on_full(OnFull::Block(Some(ROOM_TIMEOUT)))
            .report_drops(false)
            .queue_bytes_max(1 << *self.random.one_of(&[17, 20, 24]))
            .batch_bytes(1 << *self.random.one_of(&[10, 14, 17]))
            .name("soak");
        if let Some(spool) = &self.spool {
            builder = builder.spool(spool);
        }
        // Logged for the analysis of a failure.
        let log = File::options().create(true).append(true).open(field.directory.join("notices.log"));
        let (log, name) = (log.map_err(|error| format!("notices.log: {error}"))?, self.name());
        builder = builder.on_notice(move |notice| {
            if matches!(notice, Notice::NewStream { .. } | Notice::Lost { .. } | Notice::Ended { .. }) {
                let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let _best_effort =
                    writeln!(&log, "{}.{:03} {name}: {notice:?}", time.as_secs(), time.subsec_millis());
            }
        });
        let sender = builder.start().map_err(|error| format!("{}: cannot start: {error}", self.name()))?;
        self.sender = Some(sender);
        Ok(())
    }

    fn burst(&mut self, field: &Field) -> Result<(), String> {
        let (Some(sender), Some(run)) = (&self.sender, self.run) else { return Ok(()) };
        let mut text = Vec::new();
        for _ in 0..self.random.below(field.burst_max) {
            let number = field.book.send(run.number, 1);
            text.clear();
            Message { run: run.number, number }.write(&mut text);
            match sender.send(&text) {
                Ok(()) => {}
                Err(SendError::Full { .. } | SendError::SpoolFull { .. }) => {
                    field.book.unsend(run.number, 1);
                    return Ok(());
                }
                Err(error) => return Err(format!("{}, run {:08x}: {error}", self.name(), run.number)),
            }
        }
        Ok(())
    }

    fn note_acknowledged(&self, field: &Field, in_this_life: u64) {
        if let Some(run) = self.run
            && self.ack != AckLevel::None
        {
            field.book.acknowledge(run.number, run.acknowledged_before + in_this_life, run.epoch);
        }
    }

    /// Drops the sender without waiting.
    fn drop_sender(&mut self, field: &Field) {
        let Some(sender) = self.sender.take() else { return };
        let _left = sender.close(Duration::ZERO);
        let acknowledged = sender.counters().acknowledged;
        self.note_acknowledged(field, acknowledged);
        match (&self.spool, &mut self.run) {
            (Some(_), Some(run)) => run.acknowledged_before += acknowledged,
            _ => self.run = None,
        }
    }

    fn settle(&mut self, field: &Field) -> Result<(), String> {
        let Some(sender) = &self.sender else { return Ok(()) };
        let flushed = sender.flush(PATIENCE);
        let counters = sender.counters();
        if let (Ok(()), Some(run)) = (&flushed, self.run)
            && self.ack != AckLevel::None
        {
            // A former sender may have got an acknowledgement after its counters were read.
            field.book.acknowledge(run.number, field.book.send(run.number, 0), run.epoch);
        }
        let (name, servers) = (self.name(), sender.servers());
        flushed.map_err(|error| format!("{name}: flush: {error}; {counters:?} {servers:?}"))
    }
}

impl Client for Library {
    fn name(&self) -> String {
        let spool = if self.spool.is_some() { ", spool" } else { "" };
        format!("sender, {:?}{spool}, {}", self.ack, self.servers.join(", "))
    }

    fn work(&mut self, field: &Field) -> Result<(), String> {
        if self.run.is_some_and(|run| run.ordered != field.keeps_order_over(&self.servers)) {
            // Everything is acknowledged, so the next sender has nothing of this run.
            self.drop_sender(field);
            self.run = None;
            if let Some(spool) = &self.spool {
                field.renews(spool, &mut self.random)?;
            }
        }
        while !field.is_stopping() {
            let is_old = self.run.is_some_and(|run| run.epoch != field.book.epoch());
            if is_old && self.ack == AckLevel::Received && self.random.percent(20) {
                self.drop_sender(field);
            }
            if self.sender.is_none() {
                self.begin(field)?;
            }
            self.burst(field)?;
            if self.random.percent(1) {
                self.drop_sender(field);
            }
            pause(&mut self.random, 40);
        }
        if self.sender.is_none() && self.spool.is_some() {
            // Its spool may hold messages of a sender that was dropped.
            self.begin(field)?;
        }
        self.settle(field)
    }
}
