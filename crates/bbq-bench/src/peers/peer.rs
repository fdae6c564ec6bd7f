//! Another server that runs.

use std::net::{SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use crate::leash::{self, End};
use crate::pause::{self, wait_for};
use crate::process::{Output, Process};

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
        directory: &Path,
        address: SocketAddrV4,
        transport: Transport,
    ) -> anyhow::Result<Peer> {
        let mut command = leash::put_on(command, End::Terminate)?;
        let process = Process::start(name, &mut command, directory, Output::Kept)?;
        let mut peer = Peer { process, address, output: output(directory) };
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

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
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

    /// Stops one of its worker processes with a signal, as if it were blocked, for `duration`.
    pub(crate) fn stop_one_worker(&self, duration: Duration) -> anyhow::Result<Stopped> {
        let worker = crate::cpu::family(self.pid()).into_iter().nth(1).context("it has no worker process")?;
        let worker =
            i32::try_from(worker).ok().and_then(Pid::from_raw).context("no process has this number")?;
        Stopped::new(worker, duration)
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.process.terminate()
    }

    /// Kills it: for servers that report a failure when they are asked to end.
    pub(crate) fn kill(self) {
        drop(self.process);
    }
}

/// A process that is stopped by a signal.
#[derive(Debug)]
pub(crate) struct Stopped(Option<std::thread::JoinHandle<()>>);

impl Stopped {
    fn new(process: Pid, duration: Duration) -> anyhow::Result<Stopped> {
        kill_process(process, Signal::STOP).context("SIGSTOP")?;
        let going_on = Instant::now() + duration;
        let thread = std::thread::Builder::new().name("going-on".to_owned()).spawn(move || {
            pause::until(going_on);
            // It may have ended with its server.
            let _ = kill_process(process, Signal::CONT);
        })?;
        Ok(Stopped(Some(thread)))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// The file that it writes.
pub(super) fn output(directory: &Path) -> PathBuf {
    directory.join("output.log")
}

fn is_there(address: SocketAddrV4, transport: Transport) -> bool {
    match transport {
        Transport::Tcp => TcpStream::connect_timeout(&address.into(), Duration::from_secs(1)).is_ok(),
        Transport::Udp => {
            let sockets = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
            let address =
                format!("{:08X}:{:04X} ", u32::from_le_bytes(address.ip().octets()), address.port());
            sockets.contains(&address)
        }
    }
}
