//! A Kafka broker, and Kafka's own tools: one reads what is committed, one finds transactions that the broker will never end.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::book::Book;

pub(super) const TOPIC: &str = "chain";
/// The broker's log has this when it serves.
const STARTED: &str = "Kafka Server started";
/// A broker that was killed is not taken back by the controller before its last session is over.
const SESSION_TIMEOUT_MS: u64 = 1500;
/// A transaction that is open for longer is ended by the broker. Longer than a restart of the broker: one that Kafka 4.4 finds too old when
/// it starts, before it knows the leaders of its partitions, is ended without its markers.
pub(super) const TRANSACTION_TIMEOUT_SECONDS: u64 = 15;
/// The broker's log has this when it ends a transaction without its markers.
const FORGOTTEN: &str = "Couldn't find leader endpoint for partitions";
/// A consumer that gets nothing for so long is at the end of what is committed.
const QUIET_MS: &str = "10000";

/// How the broker and its tools are started.
#[derive(Clone)]
pub(super) struct Kafka {
    pub(super) directory: PathBuf,
    pub(super) jars: PathBuf,
    pub(super) port: u16,
    /// From 1 on.
    pub(super) node: usize,
    /// The controllers of all brokers; each broker is one.
    pub(super) controllers: Vec<u16>,
}

impl Kafka {
    fn java(&self, class: &str) -> Command {
        let mut command = Command::new("java");
        command.args(["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.args([
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
            "-Dorg.slf4j.simpleLogger.log.kafka.coordinator.transaction=info",
        ]);
        command.arg("-cp").arg(self.jars.join("*")).arg(class);
        command
    }

    fn tool(&self, class: &str) -> Command {
        let mut command = self.java(class);
        command.args(["--bootstrap-server", &format!("127.0.0.1:{}", self.port)]);
        command
    }

    fn config(&self) -> PathBuf {
        self.directory.join("server.properties")
    }

    /// Makes the broker's directory.
    pub(super) fn format(&self) -> Result<()> {
        let Kafka { port, node, .. } = self;
        let controller = self.controllers[node - 1];
        let voters = self.controllers.iter().enumerate();
        let voters = voters
            .map(|(index, port)| format!("{}@127.0.0.1:{port}", index + 1))
            .collect::<Vec<_>>()
            .join(",");
        let replicas = self.controllers.len();
        // All but one have what is acknowledged.
        let in_sync = replicas.saturating_sub(1).max(1);
        fs::create_dir_all(&self.directory)?;
        let text = format!(
            "process.roles=broker,controller\nnode.id={node}\ncontroller.quorum.voters={voters}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             log.dirs={}/data\nnum.partitions=3\n\
             default.replication.factor={replicas}\nmin.insync.replicas={in_sync}\n\
             offsets.topic.replication.factor={replicas}\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor={replicas}\ntransaction.state.log.min.isr={in_sync}\n\
             transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n\
             broker.session.timeout.ms={SESSION_TIMEOUT_MS}\nbroker.heartbeat.interval.ms=200\n",
            self.directory.display()
        );
        fs::write(self.config(), text)?;
        let mut format = self.java("kafka.tools.StorageTool");
        format.args(["format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA", "--config"]).arg(self.config());
        let done = format.output().context("cannot run java")?;
        ensure!(done.status.success(), "{format:?}: {done:?}");
        Ok(())
    }

    pub(super) fn broker(&self) -> Command {
        let mut command = self.java("kafka.Kafka");
        command.arg(self.config());
        command
    }

    /// Whether the broker serves for the `starts`th time, by its log.
    pub(super) fn has_started(log: &Path, starts: u64) -> bool {
        let text = fs::read(log).unwrap_or_default();
        String::from_utf8_lossy(&text).matches(STARTED).count() as u64 >= starts
    }

    /// How many transactions the broker has ended without markers in the topic, by its log.
    pub(super) fn forgotten_markers(log: &Path) -> usize {
        let text = fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().filter(|line| line.contains(FORGOTTEN) && line.contains(TOPIC)).count()
    }

    /// Shows the book every committed message, in the order of each partition.
    pub(super) fn read(&self, book: &Book) -> Result<()> {
        let mut command = self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer");
        command.args(["--topic", TOPIC, "--from-beginning"]);
        command.args(["--isolation-level", "read_committed", "--timeout-ms", QUIET_MS]);
        let log = fs::File::create(self.directory.join("consumer.log"))?;
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("piped")?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            book.see(line.strip_suffix(b"\n").unwrap_or(&line));
            line.clear();
        }
        child.wait()?;
        Ok(())
    }

    /// The transactions on this broker that are open although their coordinator has ended them. They are the broker's fault: Kafka 4.4 that is killed
    /// between a commit and its markers may forget the markers when it starts.
    pub(super) fn hanging_transactions(&self) -> Result<Vec<String>> {
        let mut command = self.tool("org.apache.kafka.tools.TransactionsCommand");
        // Open for longer than 0 minutes; those that the coordinator knows are not listed.
        command.args([
            "find-hanging",
            "--broker-id",
            &self.node.to_string(),
            "--max-transaction-timeout",
            "0",
        ]);
        let done = command.output()?;
        ensure!(done.status.success(), "{command:?}: {done:?}");
        // The first line has the names of the columns.
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        Ok(text.lines().skip(1).filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
    }
}
