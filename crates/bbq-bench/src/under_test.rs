//! The servers that are measured: bbq-listen alone, and bbq as a whole.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::http;
use crate::pause::wait_for;
use crate::process::{Output, Process};
use crate::server::{ServeOptions, Service, Totals};
use crate::settings::Settings;

/// A server that is not ready by then will never be.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// Without progress for so long, messages are lost or it hangs.
const DELIVERED_WITHIN: Duration = Duration::from_secs(60);

/// bbq-listen with a protocol that costs next to nothing.
#[derive(Debug)]
pub(crate) struct ListenServer {
    process: Process,
    said: BufReader<ChildStdout>,
    addresses: Vec<SocketAddrV4>,
}

impl ListenServer {
    /// Starts it, and returns when it is ready.
    pub(crate) fn start(settings: &Settings, options: &ServeOptions) -> anyhow::Result<ListenServer> {
        let service = match options.service {
            Service::Http => "http",
            Service::Greeter => "greeter",
            Service::Names => "names",
        };
        let mut command = Command::new(&settings.program);
        command.args(["bench-server", service, "--distribution", &options.distribution]);
        command.args(["--workers", &options.workers.to_string()]);
        command.args(["--work-us", &options.work.as_micros().to_string()]);
        command.arg("--logs").arg(&options.logs);
        for address in &options.listen {
            command.args(["--listen", address]);
        }
        if !options.rescue {
            command.arg("--no-rescue");
        }
        let mut process = Process::start("bench-server", &mut command, &options.logs, Output::Piped)?;
        let stdout = process.child().stdout.take().context("its output is piped")?;
        let mut server = ListenServer { process, said: BufReader::new(stdout), addresses: Vec::new() };
        server.wait_ready()?;
        Ok(server)
    }

    fn wait_ready(&mut self) -> anyhow::Result<()> {
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line)? == 0 {
                self.process.wait()?;
                anyhow::bail!("the server ended before it was ready");
            }
            match line.trim_end().split_once(' ') {
                Some(("listening", address)) => self.addresses.push(address_of(address)?),
                _ => return Ok(()),
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Where it listens, in the order in which it was told to.
    pub(crate) fn addresses(&self) -> &[SocketAddrV4] {
        &self.addresses
    }

    /// Ends it; what its workers have had.
    pub(crate) fn stop(mut self) -> anyhow::Result<Totals> {
        drop(self.process.child().stdin.take());
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        self.process.wait()?;
        serde_json::from_str(&line).with_context(|| format!("the server ended with {line:?}"))
    }
}

/// `bbq serve` with its spool, and file sinks.
#[derive(Debug)]
pub(crate) struct Product {
    process: Process,
    admin: SocketAddrV4,
    addresses: Vec<SocketAddrV4>,
    outputs: Vec<PathBuf>,
}

/// How it is configured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProductOptions<'a> {
    /// SPECs, best with port 0 of 127.0.0.1.
    pub(crate) listen: &'a [&'a str],
    /// Files that every message is written to.
    pub(crate) sinks: usize,
    /// Lines of its configuration file.
    pub(crate) configuration: &'a str,
}

impl Product {
    /// Starts it with its data in `directory`, and returns when it is ready.
    pub(crate) fn start(
        settings: &Settings,
        directory: &Path,
        options: &ProductOptions<'_>,
    ) -> anyhow::Result<Product> {
        let admin = free_address()?;
        let configuration = directory.join("bbq.toml");
        fs::write(&configuration, options.configuration)
            .with_context(|| format!("cannot write {}", configuration.display()))?;
        let mut command = Command::new(&settings.program);
        command.arg("serve").arg("--config").arg(&configuration);
        command.arg("--data").arg(directory.join("data"));
        command.args(["--admin", &admin.to_string(), "--workers", &settings.workers.to_string()]);
        for spec in options.listen {
            command.args(["--listen", spec]);
        }
        let outputs: Vec<PathBuf> =
            (0..options.sinks).map(|index| directory.join(format!("output-{index}"))).collect();
        for path in &outputs {
            command.arg("--sink").arg(format!("file:{}", path.display()));
        }
        let process = Process::start("bbq", &mut command, directory, Output::Kept)?;
        let mut product = Product { process, admin, addresses: Vec::new(), outputs };
        let status = wait_for(READY_WITHIN, || {
            product.process.check_alive()?;
            // Refused until it listens.
            Ok(product.status().ok().filter(|status| status["ready"] == Value::Bool(true)))
        })?;
        let status = status.context("bbq serve is not ready")?;
        product.addresses = listeners(&status)
            .map(|listener| address_of(listener["address"].as_str().unwrap_or_default()))
            .collect::<anyhow::Result<_>>()?;
        Ok(product)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Where it listens, in the order of the SPECs.
    pub(crate) fn addresses(&self) -> &[SocketAddrV4] {
        &self.addresses
    }

    /// What `bbq status --json` shows.
    pub(crate) fn status(&self) -> anyhow::Result<Value> {
        let body = http::get(self.admin.into(), "/status")?;
        serde_json::from_slice(&body).context("the status is not JSON")
    }

    /// Waits until `messages` were received, handed to every sink, and stand in the files; answers the status then.
    ///
    /// Looks first at the files, which costs the server nothing.
    pub(crate) fn wait_delivered(&mut self, messages: u64, bytes: u64) -> anyhow::Result<Value> {
        let written = wait_for(DELIVERED_WITHIN, || {
            self.process.check_alive()?;
            let all =
                self.outputs.iter().all(|path| fs::metadata(path).is_ok_and(|file| file.len() >= bytes));
            Ok(all.then_some(()))
        })?;
        let settled = match written {
            None => None,
            Some(()) => wait_for(DELIVERED_WITHIN, || {
                let status = self.status()?;
                let ledger = &status["ledger"];
                let is_settled = ledger["received"] == messages && ledger["queued"] == 0;
                Ok(is_settled.then_some(status))
            })?,
        };
        settled.with_context(|| {
            let ledger = self.status().map(|status| status["ledger"].to_string()).unwrap_or_default();
            format!("{messages} messages were sent, and not all arrived: ledger {ledger}")
        })
    }

    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.process.terminate()
    }
}

/// Connections or datagrams that each worker took from its own sockets; empty where sockets are common.
pub(crate) fn shares(status: &Value, workers: usize) -> Vec<u64> {
    let mut shares = vec![0; workers];
    for socket in listeners(status).flat_map(|listener| listener["sockets"].as_array().into_iter().flatten())
    {
        let worker = socket["worker"].as_u64().and_then(|worker| usize::try_from(worker).ok());
        match worker.and_then(|worker| shares.get_mut(worker)) {
            Some(share) => *share += socket["accepted"].as_u64().unwrap_or(0),
            None => return Vec::new(),
        }
    }
    shares
}

/// Of a status.
pub(crate) fn listeners(status: &Value) -> impl Iterator<Item = &Value> {
    status["listeners"].as_array().into_iter().flatten()
}

/// An address of loopback with a port that nobody holds there. As the address is one of millions, the port is not given to
/// anybody else before it is used.
pub(crate) fn free_address() -> anyhow::Result<SocketAddrV4> {
    let [one, two, three, _] = getrandom::u32().context("no random number")?.to_le_bytes();
    let address = Ipv4Addr::new(127, 1 + one % 254, 1 + two % 254, 1 + three % 254);
    free_port(address)
}

/// A port that nobody held a moment ago.
pub(crate) fn free_port(address: Ipv4Addr) -> anyhow::Result<SocketAddrV4> {
    let probe = TcpListener::bind((address, 0)).with_context(|| format!("no port is free on {address}"))?;
    Ok(SocketAddrV4::new(address, probe.local_addr()?.port()))
}

/// `tcp://127.0.0.1:7701`.
fn address_of(text: &str) -> anyhow::Result<SocketAddrV4> {
    let address = text.split_once("://").map_or(text, |(_, address)| address);
    address.parse().with_context(|| format!("{text:?} is no IPv4 address with a port"))
}
