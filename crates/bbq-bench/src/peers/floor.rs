//! The bare-C floors of bench/floor, compiled when they are needed and the repository is here.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use crate::address;
use crate::leash::{self, End};
use crate::load::Load;
use crate::meter::Meter;
use crate::process::{Output, Process};
use crate::sample::Sample;
use crate::settings::Settings;

/// In a directory with a Makefile, from the repository's root; the program is in its `build`.
fn compile(directory: &str, program: &str) -> anyhow::Result<PathBuf> {
    let directory = Path::new(directory);
    let is_here = directory.join("Makefile").is_file();
    anyhow::ensure!(is_here, "{} is not here; run it in the repository", directory.display());
    let built = format!("build/{program}");
    let output =
        Command::new("make").arg("--silent").arg("-C").arg(directory).arg(&built).output().context("make")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "it does not compile: {}",
        said.lines().next().unwrap_or_default()
    );
    Ok(directory.join(built).canonicalize()?)
}

/// A program of the repository in C, compiled.
#[derive(Debug, Clone)]
pub(crate) struct Floor(PathBuf);

/// Compiles the floor of that name, if peers are asked for.
pub(crate) fn available(settings: &Settings, program: &str, left_out: &mut Vec<String>) -> Option<Floor> {
    available_in("bench/floor", settings, program, left_out)
}

/// The same in another directory.
pub(super) fn available_in(
    directory: &str,
    settings: &Settings,
    program: &str,
    left_out: &mut Vec<String>,
) -> Option<Floor> {
    if !settings.peers {
        return None;
    }
    let compiled = compile(directory, program);
    compiled.map(Floor).map_err(|error| left_out.push(format!("{program} in C: {error:#}"))).ok()
}

impl Floor {
    /// To run it with arguments.
    pub(crate) fn command(&self) -> Command {
        Command::new(&self.0)
    }

    /// The same for a client, with its server as the first two.
    pub(crate) fn client(&self, server: SocketAddrV4) -> Command {
        let mut command = self.command();
        command.args([server.ip().to_string(), server.port().to_string()]);
        command
    }

    /// Starts it, loads it, and checks that it has received what was sent. Its processor time is what it says itself.
    pub(crate) fn measure(
        &self,
        settings: &Settings,
        arguments: &[&str],
        ends_by_itself: bool,
        load: impl FnOnce(SocketAddrV4) -> anyhow::Result<Load>,
    ) -> anyhow::Result<Sample> {
        let server = self.start(settings, arguments)?;
        let meter = Meter::start(None)?;
        let load = load(server.address())?;
        let totals = server.stop(ends_by_itself)?;
        let (messages, bytes) =
            (totals.messages.unwrap_or(load.operations), totals.bytes.unwrap_or(load.bytes));
        anyhow::ensure!(
            (messages, bytes) == (load.operations, load.bytes),
            "{} messages of {} bytes were sent, {messages} of {bytes} came",
            load.operations,
            load.bytes
        );
        meter.stop_ended(&load, totals.cpu())
    }

    /// Starts it at a free port, which is its first argument, and waits for its `ready`.
    pub(crate) fn start(&self, settings: &Settings, arguments: &[&str]) -> anyhow::Result<RunningFloor> {
        // The floors know no other address.
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, address::free_on(Ipv4Addr::LOCALHOST)?.port());
        let mut command = Command::new(&self.0);
        command.arg(address.port().to_string()).args(arguments);
        let mut command = leash::put_on(&command, End::Kill)?;
        let mut process = Process::start("floor", &mut command, &settings.directory, Output::Piped)?;
        let mut said = BufReader::new(process.child().stdout.take().context("its output is piped")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        anyhow::ensure!(line == "ready\n", "the floor said {line:?} instead of being ready");
        Ok(RunningFloor { process, said, address })
    }
}

/// What a floor says at its end.
#[derive(Debug, Deserialize)]
pub(crate) struct Totals {
    /// Where it counts them.
    #[serde(alias = "datagrams")]
    pub(crate) messages: Option<u64>,
    pub(crate) bytes: Option<u64>,
    cpu_user_us: u64,
    cpu_system_us: u64,
}

impl Totals {
    /// Of its process, since it was ready.
    pub(crate) fn cpu(&self) -> Duration {
        Duration::from_micros(self.cpu_user_us + self.cpu_system_us)
    }
}

/// One that runs.
#[derive(Debug)]
pub(crate) struct RunningFloor {
    process: Process,
    said: BufReader<std::process::ChildStdout>,
    address: SocketAddrV4,
}

impl RunningFloor {
    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Ends it, if it does not end by itself.
    pub(crate) fn stop(mut self, ends_by_itself: bool) -> anyhow::Result<Totals> {
        if ends_by_itself {
            self.process.wait()?
        } else {
            self.process.terminate()?
        };
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("the floor ended with {line:?}"))
    }
}
