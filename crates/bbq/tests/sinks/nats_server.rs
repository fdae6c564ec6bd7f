//! A real nats-server for the tests, on a free port and with a directory of its own.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::nats_client::Client;
use crate::support::{PATIENCE, free_ports, pause};

/// The version of `xtask/src/go_server.rs`, which `cargo xtask test` builds.
pub(crate) fn new_server() -> PathBuf {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let target = scratch.parent().expect("target/tmp is in target");
    let program = target.join("nats/nats-server");
    assert!(program.exists(), "there is no {}; `cargo xtask test` builds it", program.display());
    program
}

/// Debian's, which has no atomic batches.
pub(crate) fn old_server() -> PathBuf {
    let program = PathBuf::from("/usr/sbin/nats-server");
    assert!(program.exists(), "there is no {}; install Debian's package nats-server", program.display());
    program
}

/// How a server is started.
pub(crate) struct Nats {
    program: PathBuf,
    directory: TempDir,
    pub(crate) port: u16,
    config: String,
    /// What clients connect with.
    pub(crate) credentials: Value,
}

/// A running server. Killed when dropped.
pub(crate) struct NatsServer<'a> {
    nats: &'a Nats,
    child: Child,
}

impl Nats {
    pub(crate) fn new(program: PathBuf) -> Nats {
        let directory = tempfile::tempdir().expect("a directory");
        let config = format!("jetstream {{ store_dir: {:?} }}\n", directory.path().join("store"));
        Nats { program, directory, port: free_ports(1)[0], config, credentials: json!({}) }
    }

    /// Without JetStream.
    pub(crate) fn without_jetstream(program: PathBuf) -> Nats {
        Nats { config: String::new(), ..Nats::new(program) }
    }

    /// With more in its file of configuration.
    pub(crate) fn config(mut self, text: &str) -> Nats {
        self.config.push_str(text);
        self
    }

    /// With something else in its file of configuration.
    pub(crate) fn reconfigured(mut self, from: &str, to: &str) -> Nats {
        assert!(self.config.contains(from), "{}", self.config);
        self.config = self.config.replace(from, to);
        self
    }

    /// `HOST:PORT`.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.directory.path().to_owned()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Starts the server, and waits until it greets and JetStream responds.
    pub(crate) fn start(&self) -> NatsServer<'_> {
        let server = self.launch();
        let start = Instant::now();
        loop {
            if let Some(mut client) = Client::connect(self.port, &self.credentials)
                && (!self.config.contains("jetstream")
                    || client.request("$JS.API.INFO", &json!({})).is_some())
            {
                return server;
            }
            assert!(start.elapsed() < PATIENCE, "nats-server is not ready\n{}", self.log());
            pause();
        }
    }

    /// Starts the server, and waits for nothing.
    pub(crate) fn launch(&self) -> NatsServer<'_> {
        let config = self.directory.path().join("config");
        fs::write(&config, &self.config).expect("a file");
        let log = fs::OpenOptions::new().create(true).append(true).open(self.directory.path().join("log"));
        let mut command = Command::new(&self.program);
        command.args(["--addr", "127.0.0.1", "--port", &self.port.to_string(), "--config"]).arg(config);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log")).spawn();
        NatsServer { nats: self, child: child.expect("the server starts") }
    }
}

impl NatsServer<'_> {
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.nats.port, &self.nats.credentials).expect("the server greets")
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was ours");
    }

    /// SIGSTOP.
    pub(crate) fn freeze(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it runs");
    }
}

impl Drop for NatsServer<'_> {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
