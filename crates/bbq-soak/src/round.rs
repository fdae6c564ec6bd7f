//! The rounds of a run, and its report.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;

use crate::admin;
use crate::clients::{self, Crew, Field, PATIENCE, end_senders};
use crate::disks::Disks;
use crate::faults::{Faults, Made, Pace, Theme};
use crate::home::Home;
use crate::options::{Disk, Options};
use crate::output::Output;
use crate::random::Random;
use crate::server::{Server, wait};
use crate::settings::{self, Places, Sizes};
use crate::watch;

/// The faults of a round take between 4 s and 4 s more than this.
const ROUND_SECONDS: u64 = 12;
/// The most segments that a server has open for each lane: the one that is written, the one behind it, and one that the sink
/// reads.
const SEGMENTS_PER_LANE: usize = 3;
/// The number of counts of descriptors in a series. The lowest count is the result, and two series must have the same result.
const LOOKS: usize = 10;
/// The interval of these counts.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// A quiet server takes less memory than this: it has buffers for a few lanes and sinks.
const RESIDENT_KIB_MAX: u64 = 512 * 1024;
/// `/health` reports drops for a minute after the last drop.
const HEALTH_PATIENCE: Duration = Duration::from_secs(90);
/// The first of the ports that the system does not give to clients.
const PORT_MIN: u64 = 10_000;
const PORTS: u64 = 20_000;
/// Lines of the server's log in a report.
const LOG_LINES: usize = 40;

/// The most messages that a bbq client sends at a time.
const BURST_MAX: u64 = 400;

/// Runs all rounds. Returns whether all promises were kept.
pub(crate) fn run(options: &Options) -> Result<bool> {
    // In an upgrade the old process ends before the new process. The new process then becomes a child of this process.
    let own = watch::to_pid(std::process::id());
    rustix::process::set_child_subreaper(own).context("cannot become the parent of orphans")?;
    let directory = prepare(&options.directory)?;
    let disks = (options.disk != Disk::Well).then(|| Disks::mount(&directory)).transpose()?;
    let random = Random::new(options.seed);
    let (ports, _reserved) = free_ports(random.clone())?;
    let places = places(&directory, disks.as_ref(), ports)?;
    let bbq = program(&options.bbq)?;
    let field = Arc::new(Field::new(places.clients.clone(), bbq.clone(), BURST_MAX, 0));
    let server = Server::new(bbq, places.home.clone());
    let mut soak = Soak {
        options,
        crew: Crew::new(clients::all(&places, &random)),
        field,
        server,
        disks,
        output: Output::new(places.output.clone()),
        places,
        made: Made::default(),
        descriptors: 0,
        diary: Vec::new(),
    };
    println!("soak: {}", options.command());
    let begin = Instant::now();
    let done = soak.rounds(begin, random.fork(0));
    soak.server.kill();
    end_senders(&soak.places.servers());
    let minutes = begin.elapsed().as_secs_f64() / 60.0;
    Ok(soak.report(minutes, &done))
}

struct Soak<'a> {
    options: &'a Options,
    field: Arc<Field>,
    places: Places,
    crew: Crew,
    server: Server,
    disks: Option<Disks>,
    output: Output,
    made: Made,
    /// Descriptors of the server when the round began, without connections and segments.
    descriptors: usize,
    /// The faults of the last round.
    diary: Vec<String>,
}

impl Soak<'_> {
    fn rounds(&mut self, begin: Instant, mut random: Random) -> Result<()> {
        let mut number = 0;
        while begin.elapsed() < self.options.span.duration() {
            number += 1;
            let mut sizes = Sizes::draw(&mut random, self.options.segment_bytes, settings::WORKERS_MAX);
            let theme = Theme::draw(&mut random, self.options.disk);
            let left = self.options.span.duration().saturating_sub(begin.elapsed());
            let duration = Duration::from_secs(4 + random.below(ROUND_SECONDS)).min(left);
            let config = settings::draw(&mut random, &self.places, &mut sizes);
            self.server.configure(&config)?;
            let round = random.fork(number);
            self.round(theme, duration, (config, sizes), round)
                .with_context(|| format!("in round {number}, {theme:?}"))?;
            watch::collect_ended();
            let counts = self.field.book.counts();
            println!(
                "soak: round {number} ({theme:?}, {} s): {} messages so far",
                duration.as_secs(),
                counts.messages
            );
            ensure!(counts.is_clean(), "messages break their promises, in round {number}, {theme:?}");
        }
        self.server.start()?;
        let health = self.server.wait_healthy(HEALTH_PATIENCE);
        self.server.stop()?;
        health
    }

    fn round(
        &mut self,
        theme: Theme,
        duration: Duration,
        (config, mut sizes): (String, Sizes),
        random: Random,
    ) -> Result<()> {
        self.server.start()?;
        self.check_delivered()?;
        self.descriptors = self.steady_descriptors()?;
        self.crew.start(&self.field)?;
        let places = &self.places;
        let mut faults = Faults {
            book: &self.field.book,
            server: &self.server,
            disks: self.disks.as_ref(),
            disk: self.options.disk,
            random,
            draw_config: &mut |random| settings::draw(random, places, &mut sizes),
            pace: Pace::of(theme),
            made: self.made,
            diary: Vec::new(),
        };
        let made = faults.round(theme, duration);
        (self.made, self.diary) = (faults.made, faults.diary);
        self.field.stopping.store(true, Ordering::Release);
        made?;
        self.crew.stop(&self.field)?;
        let status = self.server.wait_quiet()?;
        let unwritten = admin::sum(&status["ledger"]["dropped"]["unwritten"]);
        ensure!(
            self.disks.is_some() || unwritten == 0,
            "{unwritten} messages are counted as unwritten, but the disk had no faults"
        );
        // The configuration of the round's start needs as many descriptors as it did then.
        self.server.configure(&config)?;
        self.server.ask(Signal::HUP);
        self.check_resources()?;
        self.field.book.while_stopping(|| self.server.stop())?;
        self.output.read(|line| self.field.book.see(line))?;
        self.field.book.judge();
        Ok(())
    }

    /// Checks that the ledger counts as many delivered messages as the sink's file has.
    fn check_delivered(&self) -> Result<()> {
        let status = admin::status(self.server.home().admin)?;
        let delivered = admin::sum(&status["ledger"]["delivered"]);
        let written = self.field.book.counts().messages;
        ensure!(
            delivered == written,
            "the ledger counts {delivered} messages as delivered, but the sink's file has {written}"
        );
        Ok(())
    }

    /// The number of descriptors when nothing changes: workers may still open some when the server is ready. The lowest of
    /// several counts is used, because the connection of the last query may not be closed yet.
    fn steady_descriptors(&self) -> Result<usize> {
        let mut last = None;
        wait(PATIENCE, || {
            let mut fewest = usize::MAX;
            for _ in 0..LOOKS {
                fewest = fewest.min(self.server.own_descriptors()?.others);
                std::thread::sleep(LOOK_INTERVAL);
            }
            ensure!(last.replace(fewest) == Some(fewest), "the server's descriptors vary: {fewest} now");
            Ok(fewest)
        })
    }

    fn check_resources(&self) -> Result<()> {
        let segments_max = SEGMENTS_PER_LANE * settings::WORKERS_MAX as usize;
        // The descriptors of a connection or a worker are closed a moment after it has ended.
        wait(PATIENCE, || {
            let own = self.server.own_descriptors()?;
            ensure!(
                own.others <= self.descriptors && own.segments <= segments_max,
                "the quiet server has {} descriptors beside its connections, {} when the round began, and {} segments, \
                 {segments_max} at most",
                own.others,
                self.descriptors,
                own.segments
            );
            Ok(())
        })?;
        for pid in self.server.pids() {
            let resident = watch::resident_kib(pid);
            ensure!(
                resident <= RESIDENT_KIB_MAX,
                "the quiet server takes {resident} KiB of memory; allowed are {RESIDENT_KIB_MAX} KiB"
            );
        }
        Ok(())
    }

    /// Prints the result. Returns whether all promises were kept.
    fn report(&self, minutes: f64, done: &Result<()>) -> bool {
        let counts = self.field.book.counts();
        let clean = counts.is_clean() && done.is_ok();
        if !clean {
            println!(
                "soak: faults of the last round, by seconds from its beginning:\n{}",
                self.diary.join("\n")
            );
            println!("soak: the server's log ends with\n{}", self.server.log_tail(LOG_LINES));
            self.field.book.findings().iter().for_each(|finding| println!("soak: {finding}"));
            if let Err(error) = done {
                println!("soak: {error:#}");
            }
            let kept = self.disks.as_ref().map_or(Ok(()), |disks| disks.keep(&self.options.directory));
            if let Err(error) = kept {
                println!("soak: the data directory cannot be kept: {error:#}");
            }
            println!("soak: everything is kept in {}", self.options.directory.display());
            println!("soak: repeat with {}", self.options.command());
        }
        let made = self.made;
        println!(
            "soak: {minutes:.1} minutes, {} kills, {} of clients, {} stops, {} reloads, {} upgrades, {} pauses, {} full disks, \
             {} disk errors, {} messages, {} lost, {} doubled, {} disordered, {} foreign: {}",
            made.kills,
            self.field.client_kills.load(Ordering::Relaxed),
            made.stops,
            made.reloads,
            made.upgrades,
            made.pauses,
            made.full_disks,
            made.disk_errors,
            counts.messages,
            counts.lost,
            counts.doubled,
            counts.disordered,
            counts.foreign,
            if clean { "all promises kept" } else { "promises BROKEN" },
        );
        clean
    }
}

/// Makes an empty directory. Removes the files that a former run left there.
pub(crate) fn prepare(directory: &Path) -> Result<PathBuf> {
    let marker = directory.join("soak");
    if directory.exists() {
        if !marker.exists() && fs::read_dir(directory)?.next().is_some() {
            bail!("{} is not empty, and was not made by a soak", directory.display());
        }
        fs::remove_dir_all(directory).with_context(|| format!("cannot empty {}", directory.display()))?;
    }
    fs::create_dir_all(directory)?;
    fs::write(&marker, "made by cargo xtask soak\n")?;
    Ok(fs::canonicalize(directory)?)
}

/// The path of the program under test.
pub(crate) fn program(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).with_context(|| format!("{}: build it first", path.display()))
}

fn places(directory: &Path, disks: Option<&Disks>, ports: [u16; 7]) -> Result<Places> {
    let places = Places {
        ports,
        socket: directory.join("socket"),
        home: Home {
            config: directory.join("bbq.toml"),
            data: disks.map_or(directory, Disks::data).join("data"),
            log: directory.join("server.log"),
            admin: ([127, 0, 0, 1], ports[6]).into(),
        },
        output: directory.join("out").join("messages.log"),
        clients: directory.join("clients"),
    };
    fs::create_dir_all(&places.clients)?;
    fs::create_dir_all(directory.join("out"))?;
    Ok(places)
}

/// Returns ports that are free for tcp and udp, and sockets that reserve them against tests and other soaks on this machine. Only
/// one process can bind an abstract socket name, and the tests use the same names.
pub(crate) fn free_ports<const N: usize>(mut random: Random) -> Result<([u16; N], Vec<UnixDatagram>)> {
    let mut ports = [0; N];
    let mut reserved = Vec::new();
    for port in &mut ports {
        let found = (0..1000).find_map(|_| {
            let port = (PORT_MIN + random.below(PORTS)) as u16;
            let name = UnixAddress::from_abstract_name(format!("bbq-test-port-{port}")).ok()?;
            let reserved = UnixDatagram::bind_addr(&name).ok()?;
            let address = ("127.0.0.1", port);
            let is_free = TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok();
            is_free.then_some((port, reserved))
        });
        let (free, own) = found.context("no port is free")?;
        *port = free;
        reserved.push(own);
    }
    Ok((ports, reserved))
}
