//! Programs that load a server from outside: the clients of bench/floor, loggen, wrk, dnsperf and `bbq send`.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;

use super::peer::configure;
use super::programs::find;
use crate::load::Load;
use crate::load::names::{NAMES, name};
use crate::process::{END_WITHIN, Ended, Process};
use crate::settings::Settings;

/// As wrk and dnsperf are mostly told.
pub(crate) const CONNECTIONS: usize = 64;
const THREADS: usize = 2;

/// What a client of bench/floor prints at its end.
#[derive(Debug, Deserialize)]
struct Sent {
    sent: u64,
    seconds: f64,
    cpu_user_us: u64,
    cpu_system_us: u64,
}

/// Runs a client that says in JSON what it has sent, with so many threads and bytes of a message.
pub(crate) fn send(
    name: &str,
    command: &mut Command,
    settings: &Settings,
    (threads, message_bytes): (usize, u64),
) -> anyhow::Result<Load> {
    let sent: Sent = Process::measured(name, command, &settings.directory, limit(settings))?;
    Ok(Load {
        operations: sent.sent,
        bytes: sent.sent * message_bytes,
        took: Duration::from_secs_f64(sent.seconds),
        cpu: Duration::from_micros(sent.cpu_user_us + sent.cpu_system_us),
        threads,
        latency: None,
    })
}

/// syslog-ng's client, with so many lines of so many bytes over so many connections. It notices its own end only every half
/// second, so its rate is too low.
pub(crate) fn loggen(
    settings: &Settings,
    server: SocketAddrV4,
    (lines, bytes, connections): (u64, u64, u64),
) -> anyhow::Result<Load> {
    let mut command = command("loggen")?;
    command.args(["--inet", "--stream", "--quiet", "--rate", "10000000"]);
    command.args(["--interval", &limit(settings).as_secs().to_string(), "--size", &bytes.to_string()]);
    command.args(["--active-connections", &connections.to_string()]);
    command.args(["--number", &(lines / connections).to_string()]);
    command.args([server.ip().to_string(), server.port().to_string()]);
    let ended = Process::run("loggen", &mut command, &settings.directory, limit(settings))?;
    let sent =
        number_behind(&ended.said, "count=").with_context(|| format!("loggen said {:?}", ended.said))?;
    Ok(load(&ended, sent, bytes, connections as usize, ended.took))
}

/// `bbq send` of a file with so many messages of so many bytes.
pub(crate) fn bbq_send(
    settings: &Settings,
    server: SocketAddrV4,
    (file, messages, bytes): (&Path, u64, u64),
) -> anyhow::Result<Load> {
    let mut command = Command::new(&settings.program);
    command.args(["send", "--to", &format!("bbq://{server}"), "--ack", "durable"]).arg(file);
    let ended = Process::run("bbq-send", &mut command, &settings.directory, limit(settings))?;
    Ok(load(&ended, messages, bytes, 2, ended.took))
}

/// HTTP requests as fast as they are answered, by wrk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wrk {
    pub(crate) threads: usize,
    /// Of all threads.
    pub(crate) connections: usize,
    /// A connection for each request.
    pub(crate) close: bool,
}

impl Wrk {
    pub(crate) const USUAL: Wrk = Wrk { threads: THREADS, connections: CONNECTIONS, close: false };

    /// An answer that is not OK is an error.
    pub(crate) fn run(self, settings: &Settings, server: SocketAddrV4) -> anyhow::Result<Load> {
        let Wrk { threads, connections, close } = self;
        let seconds = whole_seconds(settings);
        let mut command = command("wrk")?;
        command.args([
            "-t",
            &threads.to_string(),
            "-c",
            &connections.to_string(),
            "-d",
            &seconds.to_string(),
        ]);
        if close {
            command.args(["-H", "Connection: close"]);
        }
        command.arg(format!("http://{server}/"));
        let ended = Process::run("wrk", &mut command, &settings.directory, limit(settings))?;
        let requests =
            ended.said.lines().find_map(|line| line.trim().split_once(" requests in")?.0.parse().ok());
        let is_fine = !["Non-2xx", "Socket errors"].iter().any(|bad| ended.said.contains(bad));
        let requests = requests.filter(|_| is_fine).with_context(|| format!("wrk said {:?}", ended.said))?;
        Ok(load(&ended, requests, 0, threads, Duration::from_secs(seconds)))
    }
}

/// Queries from so many sockets, as fast as they are answered. An answer that is not NOERROR is an error.
pub(crate) fn dnsperf(settings: &Settings, server: SocketAddrV4, sockets: usize) -> anyhow::Result<Load> {
    let seconds = whole_seconds(settings);
    let lines: String = (0..NAMES).map(|index| format!("{} A\n", name(index))).collect();
    let queries = configure(settings, "queries", &lines)?;
    let mut command = command("dnsperf")?;
    command.args(["-s", &server.ip().to_string(), "-p", &server.port().to_string(), "-d"]).arg(&queries);
    command.args(["-l", &seconds.to_string(), "-c", &sockets.to_string(), "-T", &THREADS.to_string()]);
    command.args(["-q", "512"]);
    let ended = Process::run("dnsperf", &mut command, &settings.directory, limit(settings))?;
    let codes = ended.said.lines().find_map(|line| line.trim().strip_prefix("Response codes:"));
    let is_fine = codes.is_some_and(|codes| codes.contains("NOERROR") && codes.contains("(100.00%)"));
    let answers = number_behind(&ended.said, "Queries completed:").filter(|_| is_fine);
    let answers = answers.with_context(|| format!("dnsperf said {:?}", ended.said))?;
    Ok(load(&ended, answers, 0, THREADS, Duration::from_secs(seconds)))
}

/// They know no parts of a second.
pub(crate) fn whole_seconds(settings: &Settings) -> u64 {
    settings.duration.as_secs_f64().ceil().max(1.0) as u64
}

fn limit(settings: &Settings) -> Duration {
    settings.duration + END_WITHIN
}

fn command(program: &str) -> anyhow::Result<Command> {
    Ok(Command::new(find(program).with_context(|| format!("{program} is not installed"))?))
}

fn load(ended: &Ended, operations: u64, bytes: u64, threads: usize, took: Duration) -> Load {
    Load { operations, bytes: operations * bytes, took, cpu: ended.cpu, threads, latency: None }
}

fn number_behind(said: &str, label: &str) -> Option<u64> {
    let (_, rest) = said.split_once(label)?;
    let rest = rest.trim_start();
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_behind_their_labels() {
        assert_eq!(number_behind("rate = 8.5 msg/sec, count=17, time=2", "count="), Some(17));
        assert_eq!(number_behind("  Queries completed:    42 (100.00%)", "Queries completed:"), Some(42));
        assert_eq!(number_behind("count=", "count="), None);
        assert_eq!(number_behind("", "count="), None);
    }
}
