//! The bare-C floors of bench/floor, compiled when they are needed and the repository is here.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::process::{Output, Process};
use crate::settings::Settings;
use crate::under_test::free_port;

/// A program that was compiled.
#[derive(Debug)]
pub(crate) struct Floor(PathBuf);

/// Compiles the floors, if peers are asked for; answers the one of that name.
pub(crate) fn available(settings: &Settings, name: &str, left_out: &mut Vec<String>) -> Option<Floor> {
    if !settings.peers {
        return None;
    }
    match compile() {
        Ok(build) => Some(Floor(build.join(name))),
        Err(error) => {
            left_out.push(format!("the floor in C, {name}: {error:#}"));
            None
        }
    }
}

/// Where they are.
fn compile() -> anyhow::Result<PathBuf> {
    let sources = Path::new("bench/floor");
    anyhow::ensure!(sources.join("Makefile").is_file(), "bench/floor is not here; run it in the repository");
    let made = Command::new("make").arg("--silent").arg("-C").arg(sources).output().context("make")?;
    let said = String::from_utf8_lossy(&made.stderr);
    anyhow::ensure!(made.status.success(), "bench/floor does not compile: {}", said.trim());
    Ok(sources.join("build").canonicalize()?)
}

impl Floor {
    /// Starts it at a free port, which is its first argument, and waits for its `ready`.
    pub(crate) fn start(&self, directory: &Path, arguments: &[&str]) -> anyhow::Result<RunningFloor> {
        // The floors know no other address.
        let address = free_port(Ipv4Addr::LOCALHOST)?;
        let mut command = Command::new(&self.0);
        command.arg(address.port().to_string()).args(arguments);
        let mut process = Process::start("floor", &mut command, directory, Output::Piped)?;
        let mut said = BufReader::new(process.child().stdout.take().context("its output is piped")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        anyhow::ensure!(line == "ready\n", "the floor said {line:?} instead of being ready");
        Ok(RunningFloor { process, said, address })
    }
}

/// One that runs until it is told to end.
#[derive(Debug)]
pub(crate) struct RunningFloor {
    process: Process,
    said: BufReader<std::process::ChildStdout>,
    address: SocketAddrV4,
}

impl RunningFloor {
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.process.terminate()?;
        // Its totals: read, so that it never writes to a closed pipe.
        self.said.read_line(&mut String::new())?;
        Ok(())
    }
}
