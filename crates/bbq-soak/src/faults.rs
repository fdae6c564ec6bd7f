//! The faults that happen to the server while clients send, drawn from the seed.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;

use crate::book::Book;
use crate::disks::Disks;
use crate::options::Disk;
use crate::random::Random;
use crate::server::Server;

/// The number of faults of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    pub(crate) kills: u64,
    pub(crate) stops: u64,
    pub(crate) reloads: u64,
    pub(crate) upgrades: u64,
    pub(crate) pauses: u64,
    pub(crate) full_disks: u64,
    pub(crate) disk_errors: u64,
}

/// The faults of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Faults that lose nothing: reloads, upgrades, pauses.
    Calm,
    Kills,
    Stops,
    Upgrades,
    Everything,
    Disk,
}

impl Theme {
    pub(crate) fn draw(random: &mut Random, disk: Disk) -> Theme {
        let themes =
            [Theme::Calm, Theme::Kills, Theme::Stops, Theme::Upgrades, Theme::Everything, Theme::Disk];
        let known = if disk == Disk::Well { &themes[..5] } else { &themes[..] };
        *random.one_of(known)
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    KillOne,
    Stop,
    Reload,
    Upgrade,
    Pause,
    FullDisk,
    DiskError,
}

/// How fast faults follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The longest pause between two faults, in milliseconds.
    pub(crate) pause_ms_max: u64,
    /// How long a killed server stays away at most, in milliseconds.
    pub(crate) away_ms_max: u64,
}

impl Pace {
    /// The pace for a single server.
    pub(crate) fn of(theme: Theme) -> Pace {
        Pace { pause_ms_max: if theme == Theme::Calm { 1000 } else { 600 }, away_ms_max: 500 }
    }
}

pub(crate) struct Faults<'a> {
    pub(crate) book: &'a Book,
    pub(crate) server: &'a Server,
    pub(crate) disks: Option<&'a Disks>,
    pub(crate) disk: Disk,
    pub(crate) random: Random,
    /// Draws another configuration.
    pub(crate) draw_config: &'a mut (dyn FnMut(&mut Random) -> String + Send),
    pub(crate) pace: Pace,
    pub(crate) made: Made,
    /// A line for each fault.
    pub(crate) diary: Vec<String>,
}

impl Faults<'_> {
    /// Makes faults until the end of the round. Then the server runs, without disk faults.
    pub(crate) fn round(&mut self, theme: Theme, duration: Duration) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < duration {
            let pause = self.random.below(self.pace.pause_ms_max);
            std::thread::sleep(Duration::from_millis(pause));
            let fault = self.draw(theme);
            self.diary.push(format!("{:8.3} {fault:?}", begin.elapsed().as_secs_f64()));
            self.make(fault)?;
        }
        self.server.signal(Signal::CONT);
        if self.server.pids().is_empty() {
            self.server.start()?;
        }
        self.server.wait_one()
    }

    fn draw(&mut self, theme: Theme) -> Fault {
        let faults: &[Fault] = match theme {
            Theme::Calm => &[Fault::Reload, Fault::Reload, Fault::Reload, Fault::Pause, Fault::Upgrade],
            Theme::Kills => &[Fault::Kill],
            Theme::Stops => &[Fault::Stop, Fault::Stop, Fault::Pause, Fault::Reload],
            Theme::Upgrades => &[Fault::Upgrade, Fault::Upgrade, Fault::KillOne],
            Theme::Everything => {
                &[Fault::Kill, Fault::KillOne, Fault::Stop, Fault::Reload, Fault::Upgrade, Fault::Pause]
            }
            Theme::Disk => match self.disk {
                Disk::Errors => &[Fault::DiskError, Fault::FullDisk, Fault::Kill, Fault::Reload],
                _ => &[Fault::FullDisk, Fault::FullDisk, Fault::Kill, Fault::Stop, Fault::Reload],
            },
        };
        *self.random.one_of(faults)
    }

    fn make(&mut self, fault: Fault) -> Result<()> {
        match fault {
            Fault::Kill => self.kill(true),
            Fault::KillOne => self.kill(false),
            Fault::Stop => self.stop(),
            Fault::Reload => {
                self.made.reloads += 1;
                self.configure()?;
                self.server.ask(Signal::HUP);
                Ok(())
            }
            Fault::Upgrade => {
                self.made.upgrades += 1;
                self.server.ask(Signal::USR2);
                // Without this wait, the next fault may come during the upgrade.
                if self.random.percent(60) { self.server.wait_one() } else { Ok(()) }
            }
            Fault::Pause => {
                self.made.pauses += 1;
                self.server.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(self.random.below(800)));
                self.server.signal(Signal::CONT);
                Ok(())
            }
            Fault::FullDisk => self.full_disk(),
            Fault::DiskError => self.disk_error(),
        }
    }

    fn configure(&mut self) -> Result<()> {
        let text = (self.draw_config)(&mut self.random);
        self.server.configure(&text)
    }

    /// Sends SIGKILL to all processes of the server, or to one of them.
    fn kill(&mut self, all: bool) -> Result<()> {
        self.made.kills += 1;
        // Messages that were only in memory before the kill may be lost, also those that came until the kill happened.
        self.book.end_epoch();
        if all {
            self.server.kill();
        } else {
            let pids = self.server.pids();
            if !pids.is_empty() {
                self.server.kill_one(*self.random.one_of(&pids));
                // A successor whose predecessor is killed during the hand-over either ends or serves.
                std::thread::sleep(Duration::from_millis(300));
                self.wait_decided()?;
            }
        }
        self.book.end_epoch();
        if self.server.pids().is_empty() {
            std::thread::sleep(Duration::from_millis(self.random.below(self.pace.away_ms_max)));
            if self.random.percent(50) {
                self.configure()?;
            }
            // Sometimes the next fault comes during the start.
            if self.random.percent(30) { self.server.spawn().map(drop) } else { self.server.start() }
        } else {
            Ok(())
        }
    }

    /// Waits until the remaining processes of the server serve or have ended.
    fn wait_decided(&self) -> Result<()> {
        match self.server.wait_ready(None) {
            Err(_) if self.server.pids().is_empty() => Ok(()),
            decided => decided,
        }
    }

    /// Stops the server by SIGTERM, and starts it again.
    fn stop(&mut self) -> Result<()> {
        self.made.stops += 1;
        // A server that is still starting handles SIGTERM differently.
        self.wait_decided()?;
        self.book.while_stopping(|| self.server.stop())?;
        if self.random.percent(50) {
            self.configure()?;
        }
        self.server.start()
    }

    fn full_disk(&mut self) -> Result<()> {
        let Some(disks) = self.disks else { return Ok(()) };
        self.made.full_disks += 1;
        self.book.end_epoch();
        let ballast = disks.fill()?;
        std::thread::sleep(Duration::from_millis(self.random.below(3000)));
        drop(ballast);
        self.book.end_epoch();
        Ok(())
    }

    /// Makes writes fail for a while, and then restarts the server: a lane with a failed write accepts nothing until a restart.
    fn disk_error(&mut self) -> Result<()> {
        let Some(disks) = self.disks else { return Ok(()) };
        self.made.disk_errors += 1;
        self.book.end_epoch();
        let ballast = disks.break_writes()?;
        std::thread::sleep(Duration::from_millis(self.random.below(3000)));
        drop(ballast);
        // The exit code may report the failed lane.
        let stopped = self.book.while_stopping(|| self.server.stop());
        if !self.server.pids().is_empty() {
            stopped?;
        }
        self.book.end_epoch();
        self.server.start()
    }
}
