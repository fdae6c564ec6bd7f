//! Kafka's own broker for the tests, in KRaft mode, on free ports and with a directory of its own; and its tools.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use super::authority::Authority;
use crate::support::{PATIENCE, free_ports, pause, run};

/// The broker's log has this when it serves.
const STARTED: &str = "Kafka Server started";
/// Of the plain listener, the one with TLS and SASL, and the controller.
pub(crate) const PORTS: usize = 3;
/// Who has no permission, and both users' password.
pub(crate) const STRANGER: &str = "stranger";
pub(crate) const PASSWORD: &str = "sesame";
/// A consumer that gets nothing for so long is at the end of what is committed; or, if it got nothing at all, the machine may be slow.
const QUIET_MS: &str = "4000";
const SLOW_MS: &str = "30000";

/// `TCP_ESTABLISHED`, as /proc/net/tcp writes it.
const ESTABLISHED: &str = "01";

/// A broker, running or not. Everybody may do everything over the plain port.
pub(crate) struct Kafka {
    directory: PathBuf,
    /// Removed when this is dropped.
    temporary: Option<TempDir>,
    plain: u16,
    secure: u16,
    /// Of each listener that clients reach through a proxy of a test: its port, and the proxy's, which clients are told.
    proxied: Vec<[u16; 2]>,
    starts: Cell<usize>,
}

/// A running broker. Killed when dropped.
pub(crate) struct Broker {
    child: Child,
}

/// A record, as the console consumer shows it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    headers: String,
    pub(crate) key: String,
    pub(crate) value: String,
}

impl Record {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.split(',').find_map(|header| header.strip_prefix(name)?.strip_prefix(':'))
    }
}

/// The jars of `xtask/src/kafka.pom.xml`, which `cargo xtask test` gets.
pub(crate) fn jars() -> PathBuf {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let jars = scratch.parent().expect("target/tmp is in target").join("kafka/jars");
    assert!(jars.exists(), "there is no {}; `cargo xtask test` gets it", jars.display());
    jars
}

fn java(class: &str) -> Command {
    // Ends with its thread: no test leaves a broker behind.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "java", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.args([
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
        "-Dorg.slf4j.simpleLogger.log.kafka.coordinator.transaction=info",
    ]);
    // A killed broker leaves libraries behind that it had unpacked.
    command.arg(concat!("-Djava.io.tmpdir=", env!("CARGO_TARGET_TMPDIR")));
    // Classes that were loaded before. Java says nothing if it cannot use them: what the tools print is read.
    let archive = jars().with_file_name("classes.jsa");
    if archive.exists() {
        command.arg(format!("-XX:SharedArchiveFile={}", archive.display())).arg("-Xlog:disable");
    }
    command.arg("-cp").arg(jars().join("*")).arg(class);
    command
}

impl Kafka {
    /// With more in its configuration.
    pub(crate) fn new(config: &str) -> Kafka {
        Kafka::with_ports(&free_ports(PORTS), config)
    }

    /// With these ports; the last one is the controller's.
    pub(crate) fn with_ports(ports: &[u16], config: &str) -> Kafka {
        let temporary = tempfile::tempdir().expect("a directory");
        let mut kafka = Kafka::in_directory(temporary.path().to_owned(), ports, config);
        kafka.temporary = Some(temporary);
        kafka
    }

    fn in_directory(directory: PathBuf, ports: &[u16], config: &str) -> Kafka {
        let (plain, secure, controller) = (ports[0], ports[1], ports[2]);
        let authority = Authority::new("the authority of Kafka");
        let pair = authority.sign("localhost");
        fs::write(directory.join("ca.pem"), authority.certificate()).expect("a file");
        fs::write(directory.join("broker.pem"), pair.key + &pair.certificate).expect("a file");
        fs::write(directory.join("password"), PASSWORD).expect("a file");
        let shown = directory.display();
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
        let plain_users = format!(
            "org.apache.kafka.common.security.plain.PlainLoginModule required user_bbq=\"{PASSWORD}\" user_{STRANGER}=\"{PASSWORD}\";"
        );
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{plain},SASL_SSL://localhost:{secure},CONTROLLER://127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT\n\
             sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN\n\
             listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram}\n\
             listener.name.sasl_ssl.plain.sasl.jaas.config={plain_users}\n\
             ssl.keystore.type=PEM\nssl.keystore.location={shown}/broker.pem\n\
             authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
             super.users=User:ANONYMOUS;User:bbq\n\
             log.dirs={shown}/data\nnum.partitions=3\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n\
             transaction.abort.timed.out.transaction.cleanup.interval.ms=200\n{config}"
        );
        fs::write(directory.join("server.properties"), text).expect("a file");
        let users = ["bbq", STRANGER].map(|user| format!("SCRAM-SHA-512=[name={user},password={PASSWORD}]"));
        let mut format = java("kafka.tools.StorageTool");
        format.args(["format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAA"]);
        format.args(["--add-scram", &users[0], "--add-scram", &users[1]]);
        run(format.arg("--config").arg(directory.join("server.properties")), b"");
        Kafka { directory, temporary: None, plain, secure, proxied: Vec::new(), starts: Cell::new(0) }
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.plain)
    }

    /// The port with TLS and SASL.
    pub(crate) fn secure_address(&self) -> String {
        format!("localhost:{}", self.secure)
    }

    /// The port of a listener of the shared broker, and that of the proxy through which clients reach it.
    pub(crate) fn proxied(&self, place: usize) -> [u16; 2] {
        self.proxied[place]
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Starts the broker, and waits until it serves.
    pub(crate) fn start(&self) -> Broker {
        let mut broker = self.launch();
        self.wait_started(&mut broker);
        broker
    }

    /// Starts the broker, and waits for nothing.
    pub(crate) fn launch(&self) -> Broker {
        self.starts.set(self.starts.get() + 1);
        Broker { child: launch(&self.directory) }
    }

    pub(crate) fn wait_started(&self, broker: &mut Broker) {
        wait_started(&self.directory, &mut broker.child, self.starts.get());
    }

    /// Whether something has come over the plain port that the broker has not read (proc_net(5)).
    pub(crate) fn has_unread(&self) -> bool {
        // Java's sockets are of IPv6 where there is IPv6.
        let table =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
        let local = format!(":{:04X}", self.plain);
        table.iter().flat_map(|table| table.lines().skip(1)).any(|line| {
            let mut fields = line.split_whitespace();
            let is_ours = fields.nth(1).is_some_and(|address| address.ends_with(&local));
            let (state, queues) = (fields.nth(1), fields.next().and_then(|queues| queues.split_once(':')));
            is_ours && state == Some(ESTABLISHED) && queues.is_some_and(|(_, unread)| unread != "00000000")
        })
    }

    /// Cuts the marks off the ends of a topic's partitions, while the broker is not there: what they ended is open then, although its
    /// coordinator has ended it.
    pub(crate) fn cut_marks(&self, topic: &str) {
        let is_of_topic = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let partition = name.strip_prefix(topic).and_then(|rest| rest.strip_prefix('-'));
            partition.is_some_and(|partition| partition.parse::<u32>().is_ok())
        };
        let entries = fs::read_dir(self.file("data")).expect("a directory");
        entries
            .map(|entry| entry.expect("an entry").path())
            .filter(is_of_topic)
            .for_each(|path| cut_mark(&path));
    }

    pub(crate) fn tool(&self, class: &str, arguments: &[&str]) {
        let mut command = java(class);
        run(command.args(["--bootstrap-server", &self.address()]).args(arguments), b"");
    }

    /// Makes a topic with one partition.
    pub(crate) fn create(&self, topic: &str, config: &[&str]) {
        let mut arguments = vec!["--create", "--topic", topic, "--partitions", "1"];
        arguments.extend(config.iter().flat_map(|config| ["--config", config]));
        self.tool("org.apache.kafka.tools.TopicCommand", &arguments);
    }

    /// Changes a setting of a topic.
    pub(crate) fn configure(&self, topic: &str, config: &str) {
        let what = ["--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", config];
        self.tool("org.apache.kafka.tools.ConfigCommand", &what);
    }

    /// Lets a user do what a sink needs, with topics that begin with these letters.
    pub(crate) fn allow(&self, user: &str, prefix: &str) {
        let principal = format!("User:{user}");
        let each = |what: &[&str]| {
            let mut arguments = vec!["--force", "--resource-pattern-type", "prefixed"];
            arguments.extend(what);
            self.tool("org.apache.kafka.tools.AclCommand", &arguments);
        };
        let rights =
            ["Describe", "Read", "Write", "Create"].map(|operation| ["--operation", operation]).concat();
        let topic = [&["--add", "--allow-principal", &principal, "--topic", prefix][..], &rights].concat();
        each(&topic);
        each(&["--add", "--allow-principal", &principal, "--transactional-id", "bbq-", "--operation", "All"]);
    }

    /// Forbids a user to write to a topic; that it may describe the topic stays.
    pub(crate) fn forbid_writing(&self, user: &str, topic: &str) {
        let principal = format!("User:{user}");
        let what =
            ["--add", "--deny-principal", &principal, "--topic", topic, "--operation", "Write", "--force"];
        self.tool("org.apache.kafka.tools.AclCommand", &what);
    }

    /// What Kafka's tool says of a topic.
    pub(crate) fn describe(&self, topic: &str) -> String {
        let mut command = java("org.apache.kafka.tools.TopicCommand");
        command.args(["--bootstrap-server", &self.address(), "--describe", "--topic", topic]);
        String::from_utf8(run(&mut command, b"").stdout).expect("a text")
    }

    /// What Kafka's tool says of the states of all transactions.
    pub(crate) fn transactions(&self) -> String {
        let mut command = java("org.apache.kafka.tools.TransactionsCommand");
        let listed = run(command.args(["--bootstrap-server", &self.address(), "list"]), b"");
        String::from_utf8(listed.stdout).expect("a text")
    }

    /// The names of all topics.
    pub(crate) fn topics(&self) -> Vec<String> {
        let mut command = java("org.apache.kafka.tools.TopicCommand");
        let listed = run(command.args(["--bootstrap-server", &self.address(), "--list"]), b"");
        String::from_utf8(listed.stdout).expect("names").lines().map(str::to_owned).collect()
    }

    /// Writes records with a key, which other servers might have written.
    pub(crate) fn write(&self, topic: &str, key: &str, count: usize) {
        let mut command = java("org.apache.kafka.tools.ConsoleProducer");
        command.args(["--bootstrap-server", &self.address(), "--topic", topic]);
        command.args(["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]);
        run(&mut command, format!("{key}:x\n").repeat(count).as_bytes());
    }

    /// All records of a topic that are committed, by partition and offset. Their values are of one line each.
    pub(crate) fn read(&self, topic: &str) -> Vec<Record> {
        let mut records: Vec<Record> = self.committed(topic).lines().map(record).collect();
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }

    pub(crate) fn has_committed(&self, topic: &str) -> bool {
        !self.committed(topic).is_empty()
    }

    fn committed(&self, topic: &str) -> String {
        let found = self.committed_within(topic, QUIET_MS);
        if found.is_empty() { self.committed_within(topic, SLOW_MS) } else { found }
    }

    fn committed_within(&self, topic: &str, quiet_ms: &str) -> String {
        let mut command = java("org.apache.kafka.tools.consumer.ConsoleConsumer");
        command.args(["--bootstrap-server", &self.address(), "--topic", topic, "--from-beginning"]);
        command.args(["--isolation-level", "read_committed", "--timeout-ms", quiet_ms]);
        for shown in ["key", "partition", "offset", "headers"] {
            command.args(["--formatter-property", &format!("print.{shown}=true")]);
        }
        String::from_utf8(run(&mut command, b"").stdout).expect("texts")
    }
}

fn record(line: &str) -> Record {
    let mut fields = line.splitn(5, '\t');
    let mut next = || fields.next().unwrap_or_else(|| panic!("not a record: {line}"));
    let number = |text: &str| text.split_once(':').and_then(|(_, number)| number.parse().ok());
    let (partition, offset) = (number(next()), number(next()));
    let (partition, offset) = (partition.expect("a partition") as u32, offset.expect("an offset"));
    Record { partition, offset, headers: next().to_owned(), key: next().to_owned(), value: next().to_owned() }
}

/// Cuts the last batch off a partition that has one segment, if it is a mark:
///
/// ```text
/// base offset (8)  length of the rest (4)  leader epoch (4)  format (1)  checksum (4)  attributes (2): bit 5 is set in marks ..
/// ```
fn cut_mark(partition: &Path) {
    const HEAD: usize = 12;
    const ATTRIBUTES: usize = 21;
    const IS_MARK: u8 = 1 << 5;
    let segment = partition.join("00000000000000000000.log");
    let bytes = fs::read(&segment).expect("a segment");
    let (mut last, mut next) = (0, 0);
    while let Some(length) = bytes.get(next + 8..next + HEAD) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
        (last, next) = (next, next + HEAD + length as usize);
    }
    if bytes.get(last + ATTRIBUTES + 1).is_some_and(|attributes| attributes & IS_MARK != 0) {
        fs::write(&segment, &bytes[..last]).expect("it is written");
    }
}

fn launch(directory: &Path) -> Child {
    let log = directory.join("log");
    let file = fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log");
    let mut command = java("kafka.Kafka");
    command.arg(directory.join("server.properties"));
    command.stdin(Stdio::null()).stdout(file.try_clone().expect("a descriptor")).stderr(file);
    command.spawn().expect("setpriv is there")
}

/// Waits until the broker serves for the `starts`th time.
fn wait_started(directory: &Path, child: &mut Child, starts: usize) {
    let log = directory.join("log");
    let begin = Instant::now();
    loop {
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.matches(STARTED).count() >= starts {
            return;
        }
        let has_ended = child.try_wait().expect("it was ours").is_some();
        assert!(!has_ended && begin.elapsed() < PATIENCE, "Kafka is not ready\n{text}");
        pause();
    }
}

/// How many listeners of the shared broker are reached through proxies.
const PROXIED: usize = 5;

/// More listeners, all without TLS, which are advertised with the ports of proxies.
fn proxied_config(ports: &[u16], proxied: &[[u16; 2]]) -> String {
    let own = format!("PLAINTEXT://127.0.0.1:{},SASL_SSL://localhost:{}", ports[0], ports[1]);
    let each = |text: &dyn Fn(usize, &[u16; 2]) -> String| {
        proxied.iter().enumerate().map(|(number, ports)| text(number, ports)).collect::<String>()
    };
    let listeners = each(&|number, [listener, _]| format!(",PROXIED{number}://127.0.0.1:{listener}"));
    let advertised = each(&|number, [_, proxy]| format!(",PROXIED{number}://127.0.0.1:{proxy}"));
    let protocols = each(&|number, _| format!(",PROXIED{number}:PLAINTEXT"));
    format!(
        "listeners={own},CONTROLLER://127.0.0.1:{}{listeners}\nadvertised.listeners={own}{advertised}\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT{protocols}\n",
        ports[2]
    )
}

/// A broker for all tests that do not stop it; each has a topic of its own. It ends with this process.
pub(crate) fn shared() -> Kafka {
    static SHARED: OnceLock<(PathBuf, u16, u16, Vec<[u16; 2]>)> = OnceLock::new();
    let (directory, plain, secure, proxied) = SHARED.get_or_init(|| {
        let (send, ready) = sync_channel(1);
        // The broker ends with the thread that started it, which must not be a test's.
        thread::spawn(move || {
            let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kafka-shared");
            let _of_an_earlier_run = fs::remove_dir_all(&directory);
            fs::create_dir_all(&directory).expect("a directory");
            let (ports, others) = (free_ports(PORTS), free_ports(2 * PROXIED));
            let proxied: Vec<[u16; 2]> = others.chunks(2).map(|pair| [pair[0], pair[1]]).collect();
            let kafka = Kafka::in_directory(directory, &ports, &proxied_config(&ports, &proxied));
            let mut broker = kafka.start();
            let found = (kafka.directory.clone(), kafka.plain, kafka.secure, proxied);
            send.send(found).expect("somebody waits");
            broker.child.wait().expect("it was ours")
        });
        ready.recv().expect("Kafka starts")
    });
    Kafka {
        directory: directory.clone(),
        temporary: None,
        plain: *plain,
        secure: *secure,
        proxied: proxied.clone(),
        starts: Cell::new(1),
    }
}

impl Broker {
    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was ours");
    }

    /// Stops every thread, and returns when all have stopped.
    pub(crate) fn freeze(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).expect("it runs");
        waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT).expect("it is a child");
    }

    pub(crate) fn thaw(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("it runs");
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
