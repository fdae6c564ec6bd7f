//! Another server that runs.

use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::leash::{self, End};
use crate::load::Load;
use crate::meter::Meter;
use crate::pause::{self, wait_for};
use crate::process::{Output, Process};
use crate::sample::Sample;
use crate::settings::Settings;

const READY_WITHIN: Duration = Duration::from_secs(20);
/// Without a byte for this long, lines are lost.
const WRITTEN_WITHIN: Duration = Duration::from_secs(20);

/// What a peer receives by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// One that runs.
#[derive(Debug)]
pub(crate) struct Peer {
    process: Process,
    address: SocketAddrV4,
    output: PathBuf,
}

impl Peer {
    /// Starts it, and waits for its socket.
    pub(crate) fn start(
        name: &str,
        command: &Command,
        settings: &Settings,
        address: SocketAddrV4,
        transport: Transport,
    ) -> anyhow::Result<Peer> {
        let mut command = leash::put_on(command, End::Terminate)?;
        let process = Process::start(name, &mut command, &settings.directory, Output::Kept)?;
        let mut peer = Peer { process, address, output: output(settings) };
        let ready = wait_for(READY_WITHIN, || {
            peer.process.check_alive()?;
            Ok(is_there(address, transport).then_some(()))
        })?;
        ready.with_context(|| format!("{name} does not listen"))?;
        Ok(peer)
    }

    /// Waits until it has started `count` processes. It may listen before that.
    pub(super) fn wait_processes(&mut self, count: usize) -> anyhow::Result<()> {
        let started = wait_for(READY_WITHIN, || {
            self.process.check_alive()?;
            Ok((crate::cpu::family(self.pid()).len() > count).then_some(()))
        })?;
        started.with_context(|| format!("it has not started {count} processes"))
    }

    /// How many of its sockets listen for connections.
    pub(crate) fn listening(&self) -> usize {
        sockets("/proc/net/tcp", self.address, ":0000 0A ")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The file that it writes.
    pub(crate) fn output(&self) -> &Path {
        &self.output
    }

    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// Waits until its file has at least `bytes` bytes.
    pub(crate) fn wait_written(&mut self, bytes: u64) -> anyhow::Result<()> {
        let (mut length, mut since) = (0, Instant::now());
        loop {
            let written = wait_for(Duration::from_secs(1), || {
                self.process.check_alive()?;
                Ok((self.length() >= bytes).then_some(()))
            })?;
            if written.is_some() {
                return Ok(());
            }
            if self.length() > length {
                (length, since) = (self.length(), Instant::now());
            }
            anyhow::ensure!(
                since.elapsed() < WRITTEN_WITHIN,
                "it wrote {length} of {bytes} bytes, and no more"
            );
        }
    }

    /// Waits until its file has not grown for `quiet`; returns its length.
    pub(crate) fn wait_quiet(&mut self, quiet: Duration) -> anyhow::Result<u64> {
        let (mut length, mut since) = (self.length(), Instant::now());
        while since.elapsed() < quiet {
            self.process.check_alive()?;
            pause::until(Instant::now() + quiet / 10);
            if self.length() != length {
                (length, since) = (self.length(), Instant::now());
            }
        }
        Ok(length)
    }

    fn length(&self) -> u64 {
        std::fs::metadata(&self.output).map_or(0, |file| file.len())
    }

    /// Loads it and ends it.
    pub(crate) fn measure(
        mut self,
        load: impl FnOnce(SocketAddrV4) -> anyhow::Result<Load>,
    ) -> anyhow::Result<Sample> {
        let meter = Meter::start(Some(self.pid()))?;
        let load = load(self.address)?;
        let mut sample = meter.stop(&load)?;
        self.process.terminate()?;
        sample.set_workers(&self.process.said());
        Ok(sample)
    }

    /// Ends it; returns its processor time from start to end.
    pub(crate) fn stop(mut self) -> anyhow::Result<Duration> {
        self.process.terminate()
    }

    /// Kills it: for servers that report a failure when they are asked to end.
    pub(crate) fn kill(self) {
        drop(self.process);
    }
}

/// Writes its configuration.
pub(super) fn configure(settings: &Settings, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = settings.directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The file that it writes.
pub(super) fn output(settings: &Settings) -> PathBuf {
    settings.directory.join("output.log")
}

fn is_there(address: SocketAddrV4, transport: Transport) -> bool {
    match transport {
        Transport::Tcp => TcpStream::connect_timeout(&address.into(), Duration::from_secs(1)).is_ok(),
        Transport::Udp => sockets("/proc/net/udp", address, "") > 0,
    }
}

/// How many sockets of this list of the kernel's have this address and, behind their peer's, this state.
fn sockets(list: &str, address: SocketAddrV4, state: &str) -> usize {
    let list = std::fs::read_to_string(list).unwrap_or_default();
    let local = format!(" {:08X}:{:04X} ", u32::from_le_bytes(address.ip().octets()), address.port());
    let is_one = |line: &&str| line.split_once(&local).is_some_and(|(_, rest)| rest.contains(state));
    list.lines().filter(is_one).count()
}
