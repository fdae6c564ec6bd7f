//! An example of this crate as a process: started on a free port, asked, ended.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// An answer takes less than a millisecond; so long only one that never comes.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A running example. Killed when it is dropped.
pub(crate) struct Example {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) pid: Pid,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

/// How it ended.
pub(crate) struct Ended {
    pub(crate) success: bool,
    /// What each worker said.
    pub(crate) workers: Vec<String>,
}

impl Example {
    /// Starts the example `name` on a port of the system's choice and waits until it listens.
    pub(crate) fn start(name: &str, options: &[&str]) -> Self {
        Self::run(&mut command(name), options)
    }

    /// The same with the command that runs it.
    pub(crate) fn run(command: &mut Command, options: &[&str]) -> Self {
        Self::spawn(command.args(["--listen", "127.0.0.1:0"]).args(options))
    }

    /// The same with all arguments given.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::spawn_with_input(command.stdin(Stdio::null()))
    }

    /// The same with the standard input that the command has.
    pub(crate) fn spawn_with_input(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on ").and_then(|rest| rest.split(' ').next());
        // Some say no scheme.
        let address = address.and_then(|address| address.rsplit("://").next()?.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            panic!("{command:?} said {line:?}, ended {:?}", child.wait());
        };
        let pid = Pid::from_child(&child);
        Self { child, output, pid, address }
    }

    /// Connects to it. What is not answered fails the test, and does not hang it.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        stream
    }

    /// Ends it by SIGTERM.
    pub(crate) fn terminate(self) -> Ended {
        kill_process(self.pid, Signal::TERM).unwrap();
        self.wait()
    }

    /// Waits until it ends.
    pub(crate) fn wait(mut self) -> Ended {
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        let workers = said.lines().filter(|line| line.starts_with("worker ")).map(str::to_owned).collect();
        Ended { success: self.child.wait().unwrap().success(), workers }
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of an example, which cargo builds with the tests, beside their own directory.
pub(crate) fn command(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let directory: PathBuf = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples");
    let program = directory.join(name);
    // `cargo test --test NAME` builds no example.
    assert!(
        program.exists(),
        "{}: cargo build --release -p {} --examples",
        program.display(),
        env!("CARGO_PKG_NAME")
    );
    Command::new(program)
}
