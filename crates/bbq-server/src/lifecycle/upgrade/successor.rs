//! The new program, as the old one sees it: started, prepared, and ready.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use bbq_config::UPGRADE_VARIABLE;
use bbq_intake::{ListenSpec, PausedConnection, Unfinished};
use bbq_spool::DirectoryLock;
use bbq_wire::Peer;
use bbq_wire::framing::Suspended;
use data_encoding::BASE64;

use super::channel::Channel;
use super::message::{Connection, Handed, Offer, OfferedSockets, Prepared, Ready};
use super::program::Program;
use crate::lifecycle::listeners::OfferedGroup;

/// The environment variable with the id of the process that hands over.
pub(super) const FROM: &str = UPGRADE_VARIABLE;
/// Variables of systemd that are meant for this process only.
const NOT_INHERITED: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];
/// Connections in one message.
const CONNECTIONS_PER_MESSAGE: usize = 256;
/// No connection is added to a message that has this many bytes of unfinished messages.
const HELD_BYTES_PER_MESSAGE: usize = 16 * 1024 * 1024;
/// Most bytes of a line on the successor's standard error that are copied at once.
const LINE_BYTES_MAX: u64 = 4096;
/// How long to wait for the end of the successor's standard error after it has ended, or now writes its log itself.
const STDERR_PATIENCE: Duration = Duration::from_secs(1);

/// A new program that has been started. It is killed when this is dropped, unless it is ready.
pub(crate) struct Successor {
    child: Child,
    channel: Channel,
    patience: Duration,
    last_line: Receiver<String>,
    kept: Vec<String>,
    adopts_lock: bool,
    is_ready: bool,
}

impl Successor {
    /// Starts the program and offers it every socket. Returns when the program is prepared.
    ///
    /// # Errors
    /// Why the program could not be prepared. It has been killed.
    pub(crate) fn prepare(
        program: &Program,
        offered: &[OfferedGroup],
        patience: Duration,
    ) -> Result<Successor, String> {
        let path = program.path.display();
        let mut successor = Successor::spawn(program, patience)
            .map_err(|error| format!("{path} cannot be started: {error}"))?;
        match successor.offer(offered) {
            Ok(prepared) => {
                (successor.kept, successor.adopts_lock) = (prepared.kept, prepared.adopts_lock);
                Ok(successor)
            }
            Err(error) => Err(successor.explain("was prepared", &error)),
        }
    }

    fn spawn(program: &Program, patience: Duration) -> io::Result<Successor> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(&program.path);
        command
            .args(&program.arguments)
            .env(FROM, std::process::id().to_string())
            .stdin(OwnedFd::from(theirs))
            .stderr(Stdio::piped());
        for name in NOT_INHERITED {
            command.env_remove(name);
        }
        let mut child = command.spawn()?;
        let (tell, last_line) = sync_channel(1);
        let channel = Channel::new(ours);
        let standard_error = child.stderr.take();
        let successor = Successor {
            child,
            channel,
            patience,
            last_line,
            kept: Vec::new(),
            adopts_lock: false,
            is_ready: false,
        };
        successor.channel.set_patience(Some(patience))?;
        if let Some(standard_error) = standard_error {
            std::thread::Builder::new().name("upgrade-log".to_owned()).spawn(move || {
                // Fails if the successor is dropped already.
                let _unwanted = tell.try_send(relay(standard_error));
            })?;
        }
        Ok(successor)
    }

    fn offer(&mut self, offered: &[OfferedGroup]) -> io::Result<Prepared> {
        let groups = offered.iter().map(|group| OfferedSockets {
            address: group.address.to_string(),
            sockets: group.sockets.len(),
            owns_file: group.owns_file,
            steering_key: group.steering_key.as_ref().map(|key| BASE64.encode(&key.to_bytes())),
        });
        let standard_error = io::stderr();
        let mut descriptors = vec![standard_error.as_fd()];
        descriptors.extend(offered.iter().flat_map(|group| &group.sockets).map(AsFd::as_fd));
        self.channel.send(&Offer { groups: groups.collect() }, &descriptors)?;
        Ok(self.channel.receive()?.0)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the successor keeps a listener.
    pub(crate) fn keeps(&self, spec: &ListenSpec) -> bool {
        self.kept.iter().any(|kept| kept == spec.head())
    }

    /// Whether the successor goes on with the lock of the data directory; otherwise the lock has to be free.
    pub(crate) fn adopts_lock(&self) -> bool {
        self.adopts_lock
    }

    /// Hands over the connections, and the data directory with its lock, if that is held. Returns when the program serves.
    ///
    /// # Errors
    /// Why the program does not serve. It has been killed, and `paused` has the connections again.
    pub(crate) fn take_over(
        &mut self,
        listeners: &[Arc<ListenSpec>],
        paused: &mut Vec<PausedConnection>,
        kernel_seen: Vec<u64>,
        lock: Option<&DirectoryLock>,
    ) -> Result<(), String> {
        let handed = self
            .hand(listeners, paused)
            .and_then(|()| self.channel.send(&Handed::Go { kernel_seen }, lock.map(AsFd::as_fd).as_slice()));
        match handed.and_then(|()| self.channel.receive::<Ready>()) {
            Ok(_ready) => {
                self.is_ready = true;
                // Until the successor was ready, its standard error went through this process: copy the rest.
                let _all_read = self.last_line.recv_timeout(STDERR_PATIENCE);
                Ok(())
            }
            Err(error) => Err(self.explain("was ready", &error)),
        }
    }

    fn hand(&mut self, listeners: &[Arc<ListenSpec>], paused: &mut Vec<PausedConnection>) -> io::Result<()> {
        // To describe a connection, what is unfinished is suspended. It is resumed at once, in case the hand-over fails.
        let mut described = Vec::with_capacity(paused.len());
        for connection in std::mem::take(paused) {
            let spec = &listeners[connection.listener_index];
            let suspended = connection.unfinished.suspend();
            let description = describe(spec, connection.worker, connection.peer, &suspended);
            if let Some(unfinished) = Unfinished::resume(spec.protocol, suspended) {
                paused.push(PausedConnection { unfinished, ..connection });
                described.push(description);
            }
        }
        let mut described = described.into_iter().peekable();
        let mut streams = paused.iter().map(|connection| connection.stream.as_fd());
        while described.peek().is_some() {
            let mut bytes = 0;
            let mut message = Vec::new();
            while message.len() < CONNECTIONS_PER_MESSAGE
                && let Some(next) = described.next_if(|_| bytes < HELD_BYTES_PER_MESSAGE)
            {
                bytes += next.held.len();
                message.push(next);
            }
            let streams: Vec<_> = streams.by_ref().take(message.len()).collect();
            self.channel.send(&Handed::Connections(message), &streams)?;
        }
        Ok(())
    }

    /// Kills the program, and returns how it failed.
    fn explain(&mut self, wanted: &str, error: &io::Error) -> String {
        let timed_out = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        let seconds = self.patience.as_secs();
        if timed_out {
            self.end();
            return format!("it was stopped after {seconds} s, before it {wanted} (upgrade_timeout_seconds)");
        }
        // The channel closes a moment before the process ends.
        let status = self.wait(STDERR_PATIENCE);
        self.end();
        let stderr = self.last_line.recv_timeout(STDERR_PATIENCE).unwrap_or_default();
        match status {
            Some(status) => format!("it ended with {status} before it {wanted}: {stderr}"),
            None => {
                format!("it was stopped, as it sent no valid message before it {wanted} ({error}): {stderr}")
            }
        }
    }

    fn wait(&mut self, patience: Duration) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::park_timeout(Duration::from_millis(2)),
                _ => return None,
            }
        }
    }

    fn end(&mut self) {
        // The process may have ended by itself. Waiting for it frees its process id, and makes sure that its lock is released.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn describe(spec: &ListenSpec, worker: usize, peer: Peer, suspended: &Suspended) -> Connection {
    let mut name = Vec::new();
    peer.encode(&mut name);
    Connection {
        source: spec.head().to_owned(),
        worker,
        peer: BASE64.encode(&name),
        held: BASE64.encode(&suspended.held),
        lost: suspended.lost,
        last: suspended.last,
        mode: suspended.mode,
        digits: suspended.digits,
        number: suspended.number,
        is_given_up: suspended.is_given_up,
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.is_ready {
            self.end();
        }
    }
}

/// Copies to this process's standard error until the end, and returns the last line.
fn relay(from: impl Read) -> String {
    let mut from = BufReader::new(from);
    let mut last = String::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return last,
            Ok(_) => {}
        }
        // Like any line of the log, this one is lost if nobody reads it.
        let _lost = io::stderr().write_all(&line);
        let text = String::from_utf8_lossy(&line);
        if !text.trim().is_empty() {
            last = text.trim().to_owned();
        }
    }
}
