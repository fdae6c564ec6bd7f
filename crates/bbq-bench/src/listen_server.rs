//! bbq-listen under test: this program, started again as `bbq bench-server`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddrV4;
use std::process::{ChildStdout, Command};

use anyhow::Context;

use crate::address;
use crate::process::{Output, Process};
use crate::server::ServeOptions;
use crate::settings::Settings;

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
        let mut command = Command::new(&settings.program);
        command.args(["bench-server", "--distribution", &options.distribution]);
        command.args(["--steering", &options.steering]).arg("--steering-pins").arg(&options.steering_pins);
        command.args(["--workers", &options.workers.to_string()]);
        command.args(["--work-us", &options.work.as_micros().to_string()]);
        for address in &options.listen {
            command.args(["--listen", address]);
        }
        if !options.rescue {
            command.arg("--no-rescue");
        }
        let mut process = Process::start("bench-server", &mut command, &settings.directory, Output::Piped)?;
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
                Some(("listening", address)) => self.addresses.push(address::parse(address)?),
                _ => return Ok(()),
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its addresses, in the order of the options.
    pub(crate) fn addresses(&self) -> &[SocketAddrV4] {
        &self.addresses
    }

    /// Ends it, and returns how many requests each worker has served.
    pub(crate) fn stop(mut self) -> anyhow::Result<Vec<u64>> {
        drop(self.process.child().stdin.take());
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        self.process.wait()?;
        serde_json::from_str(&line).with_context(|| format!("the server ended with {line:?}"))
    }
}
