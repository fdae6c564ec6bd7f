//! A chain: senders -> edge bbq -> central bbq -> a file, NATS JetStream, Apache Kafka and a bucket of S3, each of which must have each
//! message once, and those of a sender in order (in a bucket, in each lane). Meanwhile every process is killed at random moments, and at
//! times stays away for longer than JetStream recognizes duplicates (1 s) and Kafka keeps a transaction open (15 s).
//!
//! It is no test of the disk: a killed process leaves what it has written in the page cache.

mod ends;
mod kafka;
mod nats;
pub(crate) mod options;
mod s3;
mod victim;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use rustix::process::Signal;
use serde_json::Value;

use crate::random::Random;
use crate::round::{free_ports, prepare};
use crate::{admin, watch};
use ends::Ends;
use kafka::Kafka;
use options::ChainOptions;
use s3::S3;
use victim::{LOOK_INTERVAL, PATIENCE, Running, Span, Victim, kill_often, start_all};

/// Each sends a stream of its own.
const SENDERS: u64 = 4;
/// About how long a kill of each process takes, with the restart; decides how fast the senders send, so that they do until the last kill.
const SECONDS_PER_KILL: u64 = 9;
/// Servers of each kind of broker.
const BROKERS_MAX: usize = 3;
/// Of a member of NATS and of one of Kafka: for clients, and for the other members.
const PORTS_PER_BROKER: usize = 4;
/// bbq of the edge and of the center, their admins, and S3.
const PORTS: usize = 5 + BROKERS_MAX * PORTS_PER_BROKER;
/// When nothing is delivered for so long, something is stuck.
const STUCK: Duration = Duration::from_secs(90);

/// Processes that serve.
struct Servers {
    edge: Running,
    central: Running,
    /// Ends last: a killed sender of messages leaves them in a spool, a broker must be there to be read.
    _brokers: [Vec<Running>; 3],
}

/// Runs the chain. Returns whether all promises were kept.
pub(crate) fn run(options: &ChainOptions) -> Result<bool> {
    let directory = prepare(&options.directory)?;
    let random = Random::new(options.seed);
    let (ports, _reserved) = free_ports(random.clone())?;
    let chain = Chain::new(options, directory, ports)?;
    println!(
        "chain: cargo xtask soak chain --messages {} --kills {} --brokers {} --seed {}",
        options.messages, options.kills, options.brokers, options.seed
    );
    let begin = Instant::now();
    let ends = Ends::new(SENDERS, options.messages / SENDERS);
    let done = chain.work(&random, &ends);
    let clean = ends.report(&done, begin.elapsed());
    if clean {
        fs::remove_dir_all(&chain.directory)?;
    } else {
        println!("chain: everything is kept in {}", chain.directory.display());
    }
    Ok(clean)
}

struct Chain {
    options: ChainOptions,
    directory: PathBuf,
    ports: [u16; PORTS],
    /// One for each broker.
    kafka: Vec<Kafka>,
    s3: S3,
}

impl Chain {
    fn new(options: &ChainOptions, directory: PathBuf, ports: [u16; PORTS]) -> Result<Chain> {
        let found = |path: &Path| {
            fs::canonicalize(path)
                .with_context(|| format!("{}: `cargo xtask soak chain` gets it", path.display()))
        };
        let mut options = options.clone();
        options.bbq = found(&options.bbq)?;
        options.nats_server = found(&options.nats_server)?;
        let jars = found(&options.kafka_jars)?;
        let controllers: Vec<u16> = (0..options.brokers).map(|broker| ports[port_of(broker, 3)]).collect();
        let kafka = |broker| Kafka {
            directory: directory.join(format!("kafka-{}", broker + 1)),
            jars: jars.clone(),
            port: ports[port_of(broker, 2)],
            node: broker + 1,
            controllers: controllers.clone(),
        };
        let kafka = (0..options.brokers).map(kafka).collect();
        let s3 = S3 {
            program: found(&options.versitygw)?,
            directory: directory.join("s3"),
            address: ([127, 0, 0, 1], ports[4]).into(),
        };
        Ok(Chain { options, directory, ports, kafka, s3 })
    }

    fn address(&self, index: usize) -> SocketAddr {
        ([127, 0, 0, 1], self.ports[index]).into()
    }

    /// Starts everything, kills, waits until all is delivered, stops in order, and reads the ends.
    fn work(&self, random: &Random, ends: &Ends) -> Result<()> {
        self.kafka.iter().try_for_each(Kafka::format)?;
        let brokers = 0..self.options.brokers;
        let mut nats: Vec<Victim> = brokers.clone().map(|broker| self.nats(broker)).collect();
        let mut kafka: Vec<Victim> = brokers.map(|broker| self.kafka_broker(broker)).collect();
        self.s3.make_bucket()?;
        let mut s3 = self.s3();
        let brokers = (start_all(&mut nats)?, start_all(&mut kafka)?, s3.start()?);
        nats::Client::connect(self.nats_address(0))?.create_stream(self.options.brokers)?;
        let (mut central, mut edge) = (self.central(), self.edge());
        let servers = (central.start()?, edge.start()?);
        let kills = self.options.kills;
        let (servers, sent) = thread::scope(|scope| {
            let kill = |mut victims: Vec<Victim>, running: Vec<Running>, number: u64| {
                let random = random.fork(number);
                scope.spawn(move || kill_often(&mut victims, running, kills, random))
            };
            let senders: Vec<_> = (0..SENDERS)
                .map(|number| {
                    let mut sender = self.sender(number);
                    let random = random.fork(10 + number);
                    scope.spawn(move || {
                        let first = vec![sender.start()?];
                        let mut last = kill_often(std::slice::from_mut(&mut sender), first, kills, random)?;
                        let status = wait_end(&mut last[0], 4 * PATIENCE)?;
                        ensure!(status == Some(0), "{} ended with {status:?}; see its log", sender.name);
                        Ok(())
                    })
                })
                .collect();
            let threads = [
                kill(nats, brokers.0, 1),
                kill(kafka, brokers.1, 2),
                kill(vec![central], vec![servers.0], 3),
                kill(vec![edge], vec![servers.1], 4),
                kill(vec![s3], vec![brokers.2], 5),
            ];
            let ended =
                threads.map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked")).flatten());
            let sent: Vec<Result<()>> = senders
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked")).flatten())
                .collect();
            (ended, sent)
        });
        let [nats, kafka, central, edge, s3] = servers;
        let one = |running: Result<Vec<Running>>| running?.pop().context("it runs");
        let mut servers =
            Servers { edge: one(edge)?, central: one(central)?, _brokers: [nats?, kafka?, s3?] };
        sent.into_iter().collect::<Result<Vec<()>>>()?;
        println!(
            "chain: each sender, the edge, the central bbq, nats-server and Kafka ({} of each), and S3 were killed {kills} times, and all \
             senders have ended",
            self.options.brokers
        );
        self.finish(&mut servers, ends)
    }

    fn finish(&self, servers: &mut Servers, ends: &Ends) -> Result<()> {
        self.wait_delivered(2).context("the edge")?;
        let delivered = self.wait_delivered(3).context("the central server");
        let hanging = self.kafka.iter().map(Kafka::hanging_transactions).collect::<Result<Vec<_>>>()?;
        let forgotten = (0..self.kafka.len()).map(|broker| Kafka::forgotten_markers(&self.kafka_log(broker)));
        ends.hanging(hanging.concat(), forgotten.sum());
        if !ends.has_hanging() {
            delivered?;
        }
        for (name, server) in [("the edge", &mut servers.edge), ("the central server", &mut servers.central)]
        {
            watch::signal(server.0.id(), Signal::TERM);
            let code = wait_end(server, PATIENCE)?;
            ensure!(code == Some(0), "{name} ended with {code:?} at SIGTERM; see its log");
        }
        ends.read_file(self.directory.join("out/messages.log"))?;
        ends.read(1, |book| nats::Client::connect(self.nats_address(0))?.read(book))?;
        ends.read(2, |book| self.kafka[0].read(book))?;
        ends.read(3, |book| self.s3.read(book))
    }

    fn kafka_log(&self, broker: usize) -> PathBuf {
        self.directory.join(format!("{}.log", kafka_name(broker)))
    }

    fn nats_address(&self, broker: usize) -> SocketAddr {
        self.address(port_of(broker, 0))
    }

    /// Waits until a server has handed on everything, for as long as it goes on.
    fn wait_delivered(&self, admin: usize) -> Result<()> {
        let (mut seen, mut since) = (Value::Null, Instant::now());
        loop {
            let status = admin::status(self.address(admin));
            if let Ok(status) = &status {
                if admin::check_quiet(status).is_ok() {
                    return Ok(());
                }
                if seen != status["sinks"] {
                    // The numbers of the ledger alone: other fields change all the time.
                    let numbers = delivered(status);
                    if numbers != delivered(&serde_json::json!({ "sinks": seen })) {
                        since = Instant::now();
                    }
                    seen = status["sinks"].clone();
                }
            }
            if since.elapsed() > STUCK {
                bail!("nothing was delivered for {} s: {}", STUCK.as_secs(), status?["sinks"]);
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    fn nats(&self, broker: usize) -> Victim {
        let name = format!("nats-server-{}", broker + 1);
        let (program, store) = (self.options.nats_server.clone(), self.directory.join(&name));
        let address = self.nats_address(broker);
        let brokers = self.options.brokers;
        let route = |broker| format!("nats://{}", self.address(port_of(broker, 1)));
        let (own, routes) = (route(broker), (0..brokers).map(route).collect::<Vec<_>>().join(","));
        let (port, server) = (address.port().to_string(), name.clone());
        let command = move || {
            let mut command = Command::new(&program);
            command.args(["--addr", "127.0.0.1", "--port", &port, "--jetstream", "--store_dir"]).arg(&store);
            if brokers > 1 {
                command.args([
                    "--name",
                    &server,
                    "--cluster_name",
                    "chain",
                    "--cluster",
                    &own,
                    "--routes",
                    &routes,
                ]);
            }
            command
        };
        let is_ready = move |_| {
            let client = nats::Client::connect(address);
            client.and_then(|mut client| client.api("INFO", &serde_json::json!({}))).is_ok()
        };
        self.victim(&name, command, is_ready)
    }

    fn kafka_broker(&self, broker: usize) -> Victim {
        let (kafka, log) = (self.kafka[broker].clone(), self.kafka_log(broker));
        let is_ready = move |starts| Kafka::has_started(&log, starts);
        let victim = self.victim(&kafka_name(broker), move || kafka.broker(), is_ready);
        // Soon after a start it would mostly be killed before it has taken anything.
        Victim { up: Span { least: 3000, more: 4000 }, long_away: Span { least: 1000, more: 1000 }, ..victim }
    }

    fn s3(&self) -> Victim {
        let (server, ready) = (self.s3.clone(), self.s3.clone());
        self.victim("versitygw", move || server.server(), move |_| ready.is_ready())
    }

    fn central(&self) -> Victim {
        let directory = self.directory.display();
        let timeout = kafka::TRANSACTION_TIMEOUT_SECONDS;
        let all = |address: &dyn Fn(usize) -> String| {
            (0..self.options.brokers).map(address).collect::<Vec<_>>().join(",")
        };
        let nats = all(&|broker| self.nats_address(broker).to_string());
        let kafka = all(&|broker| self.address(port_of(broker, 2)).to_string());
        let sinks = [
            format!("file:{directory}/out/messages.log?rotate_bytes=16MiB"),
            format!("nats://{nats}/{}?stream={}&progress={}", nats::SUBJECT, nats::STREAM, nats::PROGRESS),
            format!("kafka://{kafka}/{}?transaction_timeout_seconds={timeout}", kafka::TOPIC),
            self.s3.sink(),
        ];
        let long_away = Span { least: 1000 * timeout + 1000, more: 1000 };
        Victim { up: Span { least: 200, more: 8000 }, long_away, ..self.server("central", 1, 3, &sinks) }
    }

    fn edge(&self) -> Victim {
        self.server("edge", 0, 2, &[format!("bbq://{}", self.address(1))])
    }

    fn server(&self, name: &str, port: usize, admin: usize, sinks: &[String]) -> Victim {
        let (program, data) = (self.options.bbq.clone(), self.directory.join(name));
        let listen = format!("bbq+tcp://{}", self.address(port));
        let (admin, sinks) = (self.address(admin), sinks.to_vec());
        let command = move || {
            let mut command = Command::new(&program);
            command.args(["serve", "--listen", &listen, "--admin", &admin.to_string(), "--data"]).arg(&data);
            command.args(sinks.iter().flat_map(|sink| ["--sink", sink]));
            command
        };
        let is_ready = move |_| admin::status(admin).is_ok_and(|status| status["ready"] == true);
        self.victim(name, command, is_ready)
    }

    fn sender(&self, number: u64) -> Victim {
        let spool = self.directory.join(format!("spool-{number}"));
        let (to, each) = (format!("bbq://{}", self.address(0)), self.options.messages / SENDERS);
        let rate = each / (self.options.kills * SECONDS_PER_KILL).max(1) + 1;
        let command = move || {
            // /proc/self/exe is this program, also if its file is built anew meanwhile.
            let mut command = Command::new("/proc/self/exe");
            command.args(["sender", "--to", &to, "--run", &number.to_string(), "--spool"]).arg(&spool);
            let (messages, rate) = (each.to_string(), rate.to_string());
            command.args(["--messages", &messages, "--messages-per-second", &rate]);
            command
        };
        self.victim(&format!("sender-{number}"), command, |_| true)
    }

    fn victim(
        &self,
        name: &str,
        command: impl Fn() -> Command + Send + 'static,
        is_ready: impl Fn(u64) -> bool + Send + 'static,
    ) -> Victim {
        Victim {
            name: name.to_owned(),
            command: Box::new(command),
            log: self.directory.join(format!("{name}.log")),
            is_ready: Box::new(is_ready),
            up: Span { least: 200, more: 14_000 },
            long_away: Span { least: 1500, more: 1500 },
            starts: 0,
        }
    }
}

/// The place of one of the ports of the members number `broker`, of NATS (0 and 1) and Kafka (2 and 3).
fn port_of(broker: usize, which: usize) -> usize {
    PORTS - (broker + 1) * PORTS_PER_BROKER + which
}

fn kafka_name(broker: usize) -> String {
    format!("kafka-{}", broker + 1)
}

/// What each sink has delivered.
fn delivered(status: &Value) -> Vec<u64> {
    status["sinks"].as_array().into_iter().flatten().map(|sink| admin::sum(&sink["delivered"])).collect()
}

/// Waits until a process has ended by itself. Returns its exit code.
fn wait_end(running: &mut Running, patience: Duration) -> Result<Option<i32>> {
    let begin = Instant::now();
    loop {
        if let Some(status) = running.0.try_wait()? {
            return Ok(status.code());
        }
        ensure!(begin.elapsed() < patience, "a process does not end within {} s", patience.as_secs());
        thread::sleep(LOOK_INTERVAL);
    }
}
