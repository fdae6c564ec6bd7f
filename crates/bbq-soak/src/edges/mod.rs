//! Several servers: clients -> two edges -> a centre -> files. Sinks are added and removed by rewritten configurations.
//!
//! ```text
//! clients --> north --link--> centre -> messages
//!        \--> south --link----^     \-> copy, at times
//!   each edge, at times: -> copy, and --link--> aside -> messages
//! ```
//!
//! Most clients have two servers, and go on with the other one when theirs fails. A run is a series of rounds: clients send while
//! every server and every client has faults of its own. Then the faults end, all sinks are there, everything is delivered, and the
//! servers are stopped in order. Each message that was acknowledged must be in the central output, once. The order of a client with
//! one server is checked in rounds in which every server has one lane: a link gives it up where unread messages of a stream lie in
//! several lanes of the next server. A sink that was away misses what was deleted meanwhile, which it counts, and nothing else.

pub(crate) mod options;
mod sinks;
mod site;
mod written;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::clients::{self, Crew, Field, end_senders};
use crate::faults::Made;
use crate::output::Output;
use crate::random::Random;
use crate::round::{free_ports, prepare, program};
use crate::settings::WORKERS_MAX;
use crate::watch;
use options::EdgesOptions;
use sinks::Sink;
use site::{Round, Site};
use written::{Copy, Lanes};

/// The faults of a round take between 8 s and 12 s more than this.
const ROUND_SECONDS_MIN: u64 = 8;
const ROUND_SECONDS_MORE: u64 = 12;
/// The most messages that a client sends at a time: all processes share the processors.
const BURST_MAX: u64 = 40;
/// How often a client begins a round with a new spool. A server tells 4,096 gaps of a stream apart, and a sink that was removed
/// leaves gaps for ever in the server behind it.
const RENEWS_PERCENT: u64 = 30;
/// Lines of each server's log in a report.
const LOG_LINES: usize = 15;
/// For each server an address for clients and links, and its admin.
const PORTS: usize = 8;

/// Places in the list of sites.
const CENTRE: usize = 0;
const ASIDE: usize = 1;
const NORTH: usize = 2;
const SOUTH: usize = 3;

/// Runs all rounds. Returns whether all promises were kept.
pub(crate) fn run(options: &EdgesOptions) -> Result<bool> {
    // In an upgrade the old process ends before the new process. The new process then becomes a child of this process.
    let own = watch::to_pid(std::process::id());
    rustix::process::set_child_subreaper(own).context("cannot become the parent of orphans")?;
    let directory = prepare(&options.directory)?;
    let random = Random::new(options.seed);
    let (ports, _reserved) = free_ports(random.clone())?;
    let mut world = World::new(options, &directory, ports)?;
    println!("edges: {}", options.command());
    let begin = Instant::now();
    let done = world.rounds(begin, random.fork(0));
    world.sites.iter().for_each(|site| site.server.kill());
    end_senders(&world.addresses());
    let clean = world.report(begin.elapsed(), &done);
    if clean {
        fs::remove_dir_all(&directory)?;
    }
    Ok(clean)
}

struct World<'a> {
    options: &'a EdgesOptions,
    field: Arc<Field>,
    crew: Crew,
    sites: Vec<Site>,
    central: Output,
    /// Of the centre, of the aside server, and of the edges.
    copies: [Copy; 4],
    /// Messages that sinks have missed while they were away, and before they were added.
    missed: u64,
    /// The faults of the last round.
    diary: Vec<String>,
}

impl World<'_> {
    fn new<'a>(options: &'a EdgesOptions, directory: &Path, ports: [u16; PORTS]) -> Result<World<'a>> {
        let bbq = program(&options.bbq)?;
        let file = |site: &str, name: &str| directory.join(site).join(name).join("messages.log");
        let site = |name: &'static str, index: usize, sinks: Vec<Sink>| -> Result<Site> {
            fs::create_dir_all(directory.join(name))?;
            Ok(Site::new(name, directory, &bbq, [ports[2 * index], ports[2 * index + 1]], sinks))
        };
        let files = vec![
            Sink::file("main", &file("centre", "main"), false),
            Sink::file("copy", &file("centre", "copy"), true),
        ];
        let centre = site("centre", CENTRE, files)?;
        let aside = site("aside", ASIDE, vec![Sink::file("main", &file("aside", "main"), false)])?;
        let edge = |name: &'static str, index: usize| {
            let copy = Sink::file("copy", &file(name, "copy"), true);
            let sinks = vec![
                Sink::link("centre", &centre.addresses, false),
                copy,
                Sink::link("aside", &aside.addresses, true),
            ];
            site(name, index, sinks)
        };
        let (north, south) = (edge("north", NORTH)?, edge("south", SOUTH)?);
        let field = Field::new(clients_directory(directory)?, bbq.clone(), BURST_MAX, RENEWS_PERCENT);
        let tcp = |site: &Site| site.addresses[0].clone();
        let crew = clients::of_edges(&field, [&tcp(&north), &tcp(&south), &tcp(&centre)], options.seed);
        let copies = [("centre", "copy"), ("aside", "main"), ("north", "copy"), ("south", "copy")]
            .map(|(site, name)| Copy::new(site, &file(site, name)));
        Ok(World {
            options,
            field: Arc::new(field),
            crew: Crew::new(crew),
            sites: vec![centre, aside, north, south],
            central: Output::new(file("centre", "main")),
            copies,
            missed: 0,
            diary: Vec::new(),
        })
    }

    fn addresses(&self) -> Vec<String> {
        self.sites.iter().flat_map(|site| site.addresses.clone()).collect()
    }

    fn rounds(&mut self, begin: Instant, mut random: Random) -> Result<()> {
        let mut number = 0;
        while begin.elapsed() < self.options.span.duration() {
            number += 1;
            let left = self.options.span.duration().saturating_sub(begin.elapsed());
            let drawn = Duration::from_secs(ROUND_SECONDS_MIN + random.below(ROUND_SECONDS_MORE));
            self.round(drawn.min(left), random.fork(number)).with_context(|| format!("in round {number}"))?;
            watch::collect_ended();
            println!(
                "edges: round {number} ({} s): {} messages so far",
                drawn.min(left).as_secs(),
                self.field.book.counts().messages
            );
            let copies_are_clean = self.copies.iter().all(|copy| copy.counts.is_clean());
            let is_clean = self.field.book.counts().is_clean() && copies_are_clean;
            ensure!(is_clean, "messages break their promises, in round {number}");
        }
        Ok(())
    }

    fn round(&mut self, duration: Duration, mut random: Random) -> Result<()> {
        let has_one_lane = random.percent(50);
        let workers_max = if has_one_lane { 1 } else { WORKERS_MAX };
        self.field.keeps_order.store(has_one_lane, Ordering::Release);
        let additions = self.centre_additions();
        self.sites.iter_mut().try_for_each(|site| site.start(workers_max, &mut random))?;
        self.crew.start(&self.field)?;
        let faults = self.faults(duration, &random);
        self.field.stopping.store(true, Ordering::Release);
        faults?;
        for site in &mut self.sites {
            site.add_all_sinks(&self.field.bbq, &mut random)?;
        }
        self.crew.stop(&self.field)?;
        let delivered = self.settle()?;
        let central = written::read_central(&mut self.central, &self.field.book)?;
        self.field.book.judge();
        self.read_copies(&central, &delivered, self.centre_additions() - additions)
    }

    /// How often the sink of the centre that comes and goes was added.
    fn centre_additions(&self) -> u64 {
        self.sites[CENTRE].plan.sinks.iter().map(|sink| sink.additions).sum()
    }

    /// Every server has faults of its own at the same time.
    fn faults(&mut self, duration: Duration, random: &Random) -> Result<()> {
        let book = &self.field.book;
        let rounds: Vec<Result<Round>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..)
                .zip(&mut self.sites)
                .map(|(number, site)| {
                    let random = random.fork(number);
                    scope.spawn(move || site.faults(book, duration, random))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked")))
                .collect()
        });
        self.diary.clear();
        let mut done = Ok(());
        for round in rounds {
            let round = round?;
            self.diary.extend(round.diary);
            done = done.and(round.done);
        }
        done
    }

    /// Waits until everything is delivered, and stops the servers: first those that pass messages on. Returns how many messages each
    /// copy must have.
    fn settle(&mut self) -> Result<[u64; 4]> {
        let quiet = |index: usize| self.sites[index].wait_quiet();
        let [north, south, aside, centre] = [quiet(NORTH)?, quiet(SOUTH)?, quiet(ASIDE)?, quiet(CENTRE)?];
        for index in [NORTH, SOUTH, ASIDE, CENTRE] {
            let site = &self.sites[index];
            self.field.book.while_stopping(|| site.server.stop()).context(site.name)?;
        }
        self.missed = [&north, &south, &aside, &centre]
            .into_iter()
            .flat_map(|sinks| sinks.values())
            .map(|sink| sink.missed)
            .sum();
        Ok([centre["copy"], aside["main"], north["copy"], south["copy"]].map(|sink| sink.messages))
    }

    fn read_copies(&mut self, central: &Lanes, delivered: &[u64; 4], additions: u64) -> Result<()> {
        for (index, (copy, delivered)) in self.copies.iter_mut().zip(delivered).enumerate() {
            let own = copy.read(central, &self.field.book)?;
            if index == CENTRE {
                copy.compare(central, &own, additions);
            }
            ensure!(
                copy.counts.messages == *delivered,
                "{}: the ledger counts {delivered} messages as delivered, but the sink's file has {}",
                copy.name,
                copy.counts.messages
            );
        }
        Ok(())
    }

    /// Prints the result. Returns whether all promises were kept.
    fn report(&self, took: Duration, done: &Result<()>) -> bool {
        let counts = self.field.book.counts();
        let mut sum = counts;
        let mut copied = 0;
        for copy in &self.copies {
            copied += copy.counts.messages;
            sum.lost += copy.counts.lost;
            sum.doubled += copy.counts.doubled;
            sum.disordered += copy.counts.disordered;
            sum.foreign += copy.counts.foreign;
        }
        let clean = sum.is_clean() && done.is_ok();
        if !clean {
            self.report_failure(done);
        }
        let made = |count: fn(&Made) -> u64| self.sites.iter().map(|site| count(&site.made)).sum::<u64>();
        let kills = |index: usize| self.sites[index].made.kills;
        println!(
            "edges: {:.1} minutes, {} kills of edges, {} of the centre, {} of the server aside, {} of clients, {} stops, {} reloads, {} upgrades, {} pauses, {} sinks added, {} messages, \
             {copied} in other outputs, {} missed by removed sinks, {} lost, {} doubled, {} disordered, {} foreign: {}",
            took.as_secs_f64() / 60.0,
            kills(NORTH) + kills(SOUTH),
            kills(CENTRE),
            kills(ASIDE),
            self.field.client_kills.load(Ordering::Relaxed),
            made(|made| made.stops),
            made(|made| made.reloads),
            made(|made| made.upgrades),
            made(|made| made.pauses),
            self.sites.iter().flat_map(|site| &site.plan.sinks).map(|sink| sink.additions).sum::<u64>(),
            counts.messages,
            self.missed,
            sum.lost,
            sum.doubled,
            sum.disordered,
            sum.foreign,
            if clean { "all promises kept" } else { "promises BROKEN" },
        );
        clean
    }

    fn report_failure(&self, done: &Result<()>) {
        println!(
            "edges: faults of the last round, by seconds from its beginning:\n{}",
            self.diary.join("\n")
        );
        for site in &self.sites {
            println!("edges: the log of {} ends with\n{}", site.name, site.server.log_tail(LOG_LINES));
        }
        self.field.book.findings().iter().for_each(|finding| println!("edges: {finding}"));
        for copy in &self.copies {
            copy.findings
                .iter()
                .for_each(|finding| println!("edges: the other output of {}: {finding}", copy.name));
        }
        if let Err(error) = done {
            println!("edges: {error:#}");
        }
        println!("edges: everything is kept in {}", self.options.directory.display());
        println!("edges: repeat with {}", self.options.command());
    }
}

fn clients_directory(directory: &Path) -> Result<PathBuf> {
    let clients = directory.join("clients");
    fs::create_dir_all(&clients)?;
    Ok(clients)
}
