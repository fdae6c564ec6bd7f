//! A real server process for the tests, on free ports and in a directory of its own, ready when `start` returns.

#![expect(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "test support; each test program uses a part of it"
)]

pub mod client;
pub mod connecting;
pub mod control_group;
pub mod fault;
pub mod flood;
pub mod lineage;
pub mod mounts;
pub mod namespace;
pub mod native;
pub mod process;
pub mod program;
pub mod protocol;
pub mod random;
pub mod session;
pub mod stranger;
pub mod unpacked;

use std::fs;
use std::io::{ErrorKind, Read, Seek as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
pub const BBQ: &str = env!("CARGO_BIN_EXE_bbq");
/// Only a test that hangs takes longer.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// See [`pause`]. Nobody notices it, and a look costs less.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Between two looks at what others do, which has no signal: without it, those who look would take the processors from those at work.
pub fn pause() {
    std::thread::park_timeout(LOOK_EVERY);
}

/// How a server is started. Each has its own ports.
pub struct Setup {
    pub directory: TempDir,
    pub ports: Vec<u16>,
    listen: Vec<String>,
    arguments: Vec<String>,
    sink_query: String,
    /// Instead of the one file.
    sinks: Option<Vec<String>>,
    prefix: Vec<String>,
    program: PathBuf,
}

impl Setup {
    /// Listeners as SPECs in which `{0}`, `{1}` stand for free ports and `{dir}` for the directory.
    pub fn new(listen: &[&str]) -> Setup {
        let directory = tempfile::tempdir().expect("a directory");
        let ports = free_ports(listen.len() + 1);
        let mut setup = Setup {
            directory,
            ports,
            listen: Vec::new(),
            arguments: Vec::new(),
            sink_query: String::new(),
            sinks: None,
            prefix: Vec::new(),
            program: BBQ.into(),
        };
        setup.listen = listen.iter().map(|spec| setup.fill(spec)).collect();
        setup
    }

    /// Puts ports and directory into the placeholders.
    pub fn fill(&self, spec: &str) -> String {
        let mut spec = spec.replace("{dir}", &self.path().display().to_string());
        for (index, port) in self.ports.iter().enumerate() {
            spec = spec.replace(&format!("{{{index}}}"), &port.to_string());
        }
        spec
    }

    /// More options for `bbq serve`, with the same placeholders.
    pub fn with(mut self, arguments: &[&str]) -> Setup {
        let filled: Vec<String> = arguments.iter().map(|argument| self.fill(argument)).collect();
        self.arguments.extend(filled);
        self
    }

    /// Options of the file sink, such as `?format=json`.
    pub fn sink_query(mut self, query: &str) -> Setup {
        self.sink_query = query.to_owned();
        self
    }

    /// Sinks instead of the one file, for this and all later starts. If there are none, those of the configuration file count.
    pub fn set_sinks(&mut self, specs: &[&str]) {
        self.sinks = Some(specs.iter().map(|spec| self.fill(spec)).collect());
    }

    /// Listeners instead of those before, for all later starts, with the same placeholders.
    pub fn set_listen(&mut self, specs: &[&str]) {
        self.listen = specs.iter().map(|spec| self.fill(spec)).collect();
    }

    /// Starts with a configuration file of this text.
    pub fn config(self, text: &str) -> Setup {
        fs::write(self.path().join("bbq.toml"), text).expect("a configuration");
        self.with(&["--config", "{dir}/bbq.toml"])
    }

    /// What the sinks have committed: the texts of their cursors.
    pub fn cursors(&self) -> String {
        let Ok(cursors) = fs::read_dir(self.data().join("cursors")) else { return String::new() };
        let read = |entry: std::io::Result<fs::DirEntry>| fs::read_to_string(entry.ok()?.path()).ok();
        cursors.filter_map(read).collect()
    }

    /// A command in front of the program, such as `prlimit --nofile=256`.
    pub fn prefix(mut self, words: &[&str]) -> Setup {
        self.prefix = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Starts a copy of the program, in the directory, which the test may replace. Returns its path.
    pub fn copy_program(&mut self) -> PathBuf {
        self.program = self.path().join("bbq");
        fs::copy(BBQ, &self.program).expect("a copy");
        self.program.clone()
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The file that the sink writes.
    pub fn output(&self) -> PathBuf {
        self.path().join("out.log")
    }

    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    pub fn admin(&self) -> String {
        format!("127.0.0.1:{}", self.ports.last().expect("there is one more than listeners"))
    }

    /// The address of a listener, by its place.
    pub fn address(&self, index: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[index]))
    }

    /// The command that starts the server; its log goes to `log` in the directory.
    pub fn command(&self) -> Command {
        let mut words = self.prefix.clone();
        words.push(self.program.display().to_string());
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .arg("serve")
            .arg("--data")
            .arg(self.data())
            .args(["--admin", &self.admin()]);
        match &self.sinks {
            Some(sinks) => command.args(sinks.iter().flat_map(|spec| ["--sink", spec])),
            None => command.arg("--sink").arg(format!("file:{}{}", self.output().display(), self.sink_query)),
        };
        for spec in &self.listen {
            command.args(["--listen", spec]);
        }
        command.args(&self.arguments).current_dir(self.path()).stdin(Stdio::null()).env("NO_COLOR", "1");
        // Which a server would warn of.
        command.env_remove(mounts::VARIABLE);
        command
    }

    /// Starts the server and waits until it is ready.
    pub fn start(&self) -> Server<'_> {
        self.start_writing_to(Stdio::null())
    }

    /// The same, with a number of workers.
    pub fn start_with_workers(&self, workers: usize) -> Server<'_> {
        let mut command = self.command();
        command.args(["--workers", &workers.to_string()]);
        self.start_command(command, Stdio::null())
    }

    /// The same, with a standard output that a `stdout:` sink writes to.
    pub fn start_writing_to(&self, stdout: impl Into<Stdio>) -> Server<'_> {
        self.start_command(self.command(), stdout)
    }

    fn start_command(&self, mut command: Command, stdout: impl Into<Stdio>) -> Server<'_> {
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.path().join("log")).expect("a log");
        command.stdout(stdout).stderr(log);
        let child = command.spawn().expect("the server starts");
        let server = Server { setup: self, child };
        self.wait_ready();
        server
    }

    /// Waits until the server is ready.
    pub fn wait_ready(&self) {
        let waited = Command::new(BBQ).args(["status", "--wait", "30", "--admin", &self.admin()]).output();
        let waited = waited.expect("status runs");
        assert!(waited.status.success(), "the server is not ready: {waited:?}\n{}", self.log());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    /// Waits until the log has these words: a thread of the server writes it, a moment after what it tells of.
    pub fn wait_log(&self, words: &str) {
        let start = Instant::now();
        while !self.log().contains(words) {
            assert!(start.elapsed() < PATIENCE, "{words:?} did not come\n{}", self.log());
            pause();
        }
    }

    /// What the sink has written.
    pub fn written(&self) -> Vec<u8> {
        fs::read(self.output()).unwrap_or_default()
    }
}

/// A running server. Killed when dropped.
pub struct Server<'a> {
    pub setup: &'a Setup,
    pub child: Child,
}

impl Server<'_> {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `bbq status --json`.
    pub fn status(&self) -> Value {
        let output = Command::new(BBQ).args(["status", "--json", "--admin", &self.setup.admin()]).output();
        let output = output.expect("status runs");
        assert!(output.status.success(), "{output:?}\n{}", self.setup.log());
        serde_json::from_slice(&output.stdout).expect("status is JSON")
    }

    /// Waits until the status is as wanted.
    pub fn wait_status(&self, what: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            let log = self.setup.log();
            assert!(start.elapsed() < PATIENCE, "{what} did not come\n{status:#}\n{log}");
            pause();
        }
    }

    /// Code and text of `/health`.
    pub fn health(&self) -> (u16, String) {
        self.probe("/health")
    }

    /// Code and text of a path of the admin.
    pub fn probe(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.setup.admin()).expect("the admin listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        (code.unwrap_or_else(|| panic!("no HTTP: {answer}")), answer)
    }

    /// Waits until this many messages were received and delivered, and checks that the ledger balances.
    pub fn wait_delivered(&self, messages: u64) -> Value {
        let status = self.wait_status(&format!("delivery of {messages}"), |status| {
            status["ledger"]["delivered"].as_u64() >= Some(messages) && status["ledger"]["queued"] == 0
        });
        assert_eq!(status["ledger"]["delivered"], messages, "{status:#}");
        assert_balanced(&status);
        status
    }

    /// Waits until the log has these words.
    pub fn wait_log(&self, words: &str) {
        self.setup.wait_log(words);
    }

    pub fn killed_if_this_fails(&self) -> KilledIfThisFails {
        KilledIfThisFails::of(&self.child)
    }

    /// Waits until nothing is queued for any sink, and one sink has delivered or dropped this many messages.
    pub fn wait_delivered_by(&self, sink: usize, messages: u64) -> Value {
        self.wait_status(&format!("delivery of {messages} by sink {sink}"), |status| {
            let sink = &status["sinks"][sink];
            let dropped: u64 = sink["dropped"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
            let done = sink["delivered"].as_u64().unwrap() + dropped >= messages;
            done && status["sinks"].as_array().unwrap().iter().all(|sink| sink["queued"] == 0)
        })
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was ours");
    }

    /// SIGTERM; returns the exit code.
    pub fn stop(self) -> Option<i32> {
        self.signal(libc::SIGTERM);
        self.wait_end()
    }

    /// Waits until the server has ended by itself; returns the exit code.
    pub fn wait_end(mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("it was ours") {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "the server does not stop\n{}", self.setup.log());
            pause();
        }
    }

    pub fn signal(&self, signal: i32) {
        let number = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, number).expect("it runs");
    }

    /// Stops every thread, and returns when all have stopped: after the signal they may run for a while.
    pub fn freeze(&self) {
        self.signal(libc::SIGSTOP);
        let pid = rustix::process::Pid::from_child(&self.child);
        let stopped = rustix::process::WaitIdOptions::STOPPED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), stopped).expect("it is a child");
    }

    /// Connects to a listener, sends, and ends the connection in order.
    pub fn send(&self, listener: usize, bytes: &[u8]) {
        let mut stream = TcpStream::connect(self.setup.address(listener)).expect("it listens");
        stream.write_all(bytes).expect("it reads");
    }
}

/// Kills a program when the test fails, for scopes whose threads wait for it: the scope would never end.
pub struct KilledIfThisFails(rustix::process::Pid);

impl KilledIfThisFails {
    pub fn of(child: &Child) -> KilledIfThisFails {
        KilledIfThisFails(rustix::process::Pid::from_child(child))
    }
}

impl Drop for KilledIfThisFails {
    fn drop(&mut self) {
        // Not after it was waited for: its number may be another process's then.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.as_raw_nonzero())).unwrap_or_default();
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let is_ours = behind_name.split_whitespace().nth(1) == Some(&std::process::id().to_string());
        if std::thread::panicking() && is_ours {
            // Ended already, or ended now.
            let _ended = rustix::process::kill_process(self.0, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // Ended already, or ended now.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// received = delivered + queued + dropped + filtered.
pub fn assert_balanced(status: &Value) {
    let ledger = &status["ledger"];
    let dropped: u64 =
        ledger["dropped"].as_object().expect("dropped").values().filter_map(Value::as_u64).sum();
    let sum = ledger["delivered"].as_u64().unwrap() + ledger["queued"].as_u64().unwrap() + dropped;
    let sum = sum + ledger["filtered"].as_u64().expect("filtered");
    assert_eq!(ledger["received"].as_u64(), Some(sum), "the ledger does not balance\n{status:#}");
}

/// Ports that are free for tcp and udp, and that no other test of this machine gets while this process runs. They are outside of the
/// range that the system gives to clients: while a server is down, a client could get its port, or even connect to itself.
pub fn free_ports(count: usize) -> Vec<u16> {
    const LOWEST: u16 = 10_000;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let given_from = range.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(32_768);
    assert!(given_from > LOWEST + 1000, "ip_local_port_range leaves no ports for servers: {range}");
    let mut random = random::Random::from_system();
    let mut held = Vec::new();
    while held.len() < count {
        let port = LOWEST + random.below(u64::from(given_from - LOWEST)) as u16;
        let Some(reserved) = reserve(port) else { continue };
        let address = ("127.0.0.1", port);
        if TcpListener::bind(address).is_ok() && std::net::UdpSocket::bind(address).is_ok() {
            held.push(port);
            RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(reserved);
        }
    }
    held
}

/// Reserves ports until this process ends, as a test's server may be down for a while.
static RESERVED: Mutex<Vec<UnixDatagram>> = Mutex::new(Vec::new());

/// Only one process of the machine (of its network namespace, as for ports) can have an abstract socket of this name.
fn reserve(port: u16) -> Option<UnixDatagram> {
    let name = format!("bbq-test-port-{port}");
    UnixDatagram::bind_addr(&UnixAddress::from_abstract_name(name).expect("a short name")).ok()
}

/// Listens at a port of [`free_ports`], also again. A child that another test starts at that moment has a copy of the listener before,
/// until it executes its program: so the port may not be free at once.
pub fn listen_at(port: u16) -> TcpListener {
    let begin = Instant::now();
    loop {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return listener,
            Err(error) if error.kind() == ErrorKind::AddrInUse && begin.elapsed() < PATIENCE => pause(),
            Err(error) => panic!("127.0.0.1:{port}: {error}"),
        }
    }
}

/// Runs a command to its end, with standard input, and expects it to succeed.
pub fn run(command: &mut Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(
            |error| panic!("{command:?} cannot be started ({error}); `cargo xtask test` installs it"),
        );
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    // A program that ends before it has read everything is judged by its exit code.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("it was ours");
    writer.join().expect("it only writes");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// Runs a command that has to end by itself; returns its exit code, and all of its output.
pub fn refused_start(command: &mut Command) -> (Option<i32>, String) {
    // Files: a pipe that nobody reads meanwhile would stop a command that prints much.
    let [mut stdout, mut stderr] = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
    command.stdin(Stdio::null()).env("NO_COLOR", "1");
    command
        .stdout(stdout.try_clone().expect("a descriptor"))
        .stderr(stderr.try_clone().expect("a descriptor"));
    let mut child = command.spawn().expect("it starts");
    let start = Instant::now();
    while child.try_wait().expect("it was ours").is_none() {
        if start.elapsed() > PATIENCE {
            // The command is judged by its output.
            let _ended = child.kill();
        }
        pause();
    }
    let status = child.wait().expect("it was ours");
    let mut text = Vec::new();
    for file in [&mut stdout, &mut stderr] {
        file.rewind().expect("a file");
        file.read_to_end(&mut text).expect("it was written");
    }
    (status.code(), String::from_utf8_lossy(&text).into_owned())
}
