//! The servers, each with its own way to be replaced and to be stopped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::example::{ANSWER_TIMEOUT, Example, command};
use crate::late::catching;

/// A running server.
pub(crate) trait Server {
    fn address(&self) -> SocketAddr;
    /// Returns when the old process has ended and another one serves.
    fn replace(&mut self);
    /// Tells it to stop.
    fn stop(&mut self);
    /// Waits until it has ended.
    fn wait(self: Box<Self>);
}

/// An example that gets a socket which is open already, as systemd passes it. Its successor gets the same one.
pub(crate) struct SocketsPassed {
    name: &'static str,
    options: &'static [&'static str],
    socket: TcpListener,
    serving: Option<Example>,
}

impl SocketsPassed {
    pub(crate) fn start(name: &'static str, options: &'static [&'static str]) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut server = Self { name, options, socket, serving: None };
        server.serving = Some(server.spawn());
        server
    }

    fn spawn(&self) -> Example {
        let passes = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", passes]).arg(command(self.name).get_program()).args(self.options);
        shell.stdin(OwnedFd::from(self.socket.try_clone().unwrap()));
        catching(Example::spawn_with_input(&mut shell))
    }
}

impl Server for SocketsPassed {
    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn replace(&mut self) {
        let successor = self.spawn();
        assert!(self.serving.replace(successor).unwrap().terminate().success);
    }

    fn stop(&mut self) {
        kill_process(self.serving.as_ref().unwrap().pid, Signal::TERM).unwrap();
    }

    fn wait(self: Box<Self>) {
        let Self { socket, serving, .. } = *self;
        // Nobody serves what would be queued now.
        drop(socket);
        assert!(serving.unwrap().wait().success);
    }
}

/// An example that opens its own socket. It cannot be replaced.
pub(crate) struct Alone(Example);

impl Alone {
    pub(crate) fn start(name: &str, options: &[&str]) -> Self {
        Self(catching(Example::spawn(command(name).args(options))))
    }
}

impl Server for Alone {
    fn address(&self) -> SocketAddr {
        self.0.address
    }

    fn replace(&mut self) {
        unreachable!("it passes its socket on to nobody");
    }

    fn stop(&mut self) {
        kill_process(self.0.pid, Signal::TERM).unwrap();
    }

    fn wait(self: Box<Self>) {
        assert!(self.0.wait().success);
    }
}

/// The example `hand_over`, which passes its sockets on by itself.
pub(crate) struct Own {
    directory: TempDir,
    serving: Option<Example>,
}

impl Own {
    pub(crate) fn start() -> Self {
        let mut server = Self { directory: TempDir::new().unwrap(), serving: None };
        server.serving = Some(server.spawn());
        // The first one says that it listens before it can be replaced.
        wait_until("a place for successors", || server.path().exists());
        server.serving = server.serving.map(catching);
        server
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("hand-over")
    }

    fn spawn(&self) -> Example {
        Example::spawn(command("hand_over").arg("127.0.0.1:0").arg(self.path()))
    }
}

impl Server for Own {
    fn address(&self) -> SocketAddr {
        self.serving.as_ref().unwrap().address
    }

    fn replace(&mut self) {
        let successor = self.spawn();
        // Nobody tells it to.
        assert!(self.serving.replace(successor).unwrap().wait().success);
    }

    fn stop(&mut self) {
        kill_process(self.serving.as_ref().unwrap().pid, Signal::TERM).unwrap();
    }

    fn wait(self: Box<Self>) {
        assert!(self.serving.unwrap().wait().success);
    }
}

/// bbq with a listener for HTTP. SIGUSR2 replaces it.
pub(crate) struct Bbq {
    directory: TempDir,
    address: SocketAddr,
    child: Child,
    /// Of the process that serves now.
    pid: Pid,
}

impl Bbq {
    pub(crate) fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let address = free_address();
        let log = File::create(directory.path().join("log")).unwrap();
        let examples = command("http_ok");
        let program = Path::new(examples.get_program()).parent().unwrap().with_file_name("bbq");
        assert!(program.exists(), "{}: cargo build --release", program.display());
        let mut bbq = Command::new(program);
        bbq.args(["serve", "--admin", "off", "--sink", "null:", "--workers", "2", "--listen"]);
        bbq.arg(format!("http+tcp://{address}?distribution=reuseport"));
        bbq.arg("--data").arg(directory.path().join("data"));
        let child = bbq.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let server = Self { directory, address, child, pid };
        wait_until("bbq that is ready", || server.said("ready pid=").len() == 1);
        server
    }

    /// The numbers behind these words in its log.
    fn said(&self, words: &str) -> Vec<i32> {
        let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
        let after = log.split(words).skip(1);
        after
            .filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok())
            .collect()
    }
}

impl Server for Bbq {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn replace(&mut self) {
        let before = self.said("ready pid=").len();
        kill_process(self.pid, Signal::USR2).unwrap();
        wait_until("successor", || self.said("ready pid=").len() > before);
        let old = self.pid;
        self.pid = Pid::from_raw(*self.said("ready pid=").last().unwrap()).unwrap();
        if old == Pid::from_child(&self.child) {
            assert!(self.child.wait().unwrap().success());
        } else {
            wait_until("end of the old process", || has_ended(old));
        }
    }

    fn stop(&mut self) {
        kill_process(self.pid, Signal::TERM).unwrap();
    }

    fn wait(mut self: Box<Self>) {
        if self.pid == Pid::from_child(&self.child) {
            assert!(self.child.wait().unwrap().success());
        } else {
            wait_until("end of bbq", || has_ended(self.pid));
        }
    }
}

impl Drop for Bbq {
    fn drop(&mut self) {
        if !has_ended(self.pid) {
            let _ended = kill_process(self.pid, Signal::KILL);
        }
        let _waited = self.child.wait();
    }
}

/// nginx without logs. SIGHUP replaces its workers, and SIGQUIT stops it in order.
pub(crate) struct Nginx {
    _directory: TempDir,
    address: SocketAddr,
    child: Child,
}

impl Nginx {
    pub(crate) fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let (address, place) = (free_address(), directory.path().display());
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {place}/{kind};"))
            .concat();
        let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
        let configuration = format!(
            "{user} worker_processes 2; daemon off; pid {place}/pid; error_log {place}/log;
             events {{ worker_connections 10000; }}
             http {{ access_log off; {temporary}
               server {{ listen {address} backlog=4096; location / {{ return 200 \"OK\"; }} }} }}"
        );
        let file = directory.path().join("nginx.conf");
        fs::write(&file, configuration).unwrap();
        let mut nginx = Command::new("nginx");
        nginx
            .arg("-p")
            .arg(directory.path())
            .arg("-c")
            .arg(&file)
            .arg("-e")
            .arg(directory.path().join("log"));
        let child = nginx.stdin(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("nginx, of Debian's package nginx-light: {error}"));
        let server = Self { _directory: directory, address, child };
        wait_until("workers of nginx", || server.workers().len() == 2);
        server
    }

    fn workers(&self) -> Vec<i32> {
        let master = self.child.id();
        let children =
            fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap_or_default();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Server for Nginx {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn replace(&mut self) {
        let old = self.workers();
        self.signal(Signal::HUP);
        wait_until("new workers of nginx", || {
            let now = self.workers();
            now.len() == 2 && now.iter().all(|pid| !old.contains(pid))
        });
    }

    fn stop(&mut self) {
        self.signal(Signal::QUIT);
    }

    fn wait(mut self: Box<Self>) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // Its workers end with it.
            self.signal(Signal::TERM);
        }
        let _waited = self.child.wait();
    }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Whether there is no such process, or nobody has waited for it.
fn has_ended(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < ANSWER_TIMEOUT * 3, "no {what}");
        thread::yield_now();
    }
}
