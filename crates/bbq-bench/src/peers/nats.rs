//! NATS: its core, which stores nothing, without a subscriber; and JetStream, which stores and syncs each message.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::peer::{Peer, Transport, configure};
use super::programs::{find, installed, unpacked};
use crate::address;
use crate::load::Load;
use crate::load::pipe::{self, PIECE_BYTES, Pipe};
use crate::settings::Settings;

const PROGRAM: &str = "nats-server";
/// The first that can sync each message, `sync_interval: always`.
const SYNCS_FROM: (u32, u32) = (2, 10);

/// Starts its core.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let mut command = Command::new(find(PROGRAM).context("nats-server is not installed")?);
    command.args(["--addr", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.arg("--log").arg(settings.directory.join("nats.log"));
    Peer::start(PROGRAM, &command, settings, address, Transport::Tcp)
}

/// Publishes for as long as the settings say, and waits until all was read.
pub(crate) fn publish(settings: &Settings, peer: &Peer, message_bytes: usize) -> anyhow::Result<Load> {
    let message: String = ('a'..='z').cycle().take(message_bytes).collect();
    let publication = format!("PUB bench {message_bytes}\r\n{message}\r\n");
    let messages = PIECE_BYTES / publication.len();
    pipe::run(&Pipe {
        server: peer.address(),
        duration: settings.duration,
        hello: b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n",
        piece: publication.repeat(messages).as_bytes(),
        messages: messages as u64,
        message_bytes: message_bytes as u64,
        question: b"PING\r\n",
        is_answer: |said| said.ends_with(b"PONG\r\n"),
    })
}

/// A nats-server whose JetStream can sync each message.
#[derive(Debug, Clone)]
pub(crate) struct JetStream(PathBuf);

/// If peers are asked for: the one that `bench/peers/install` compiled, or the system's if that is new enough.
pub(crate) fn jetstream(settings: &Settings, left_out: &mut Vec<String>) -> Option<JetStream> {
    if !settings.peers {
        return None;
    }
    let compiled = unpacked().map(|root| root.join("bin").join(PROGRAM)).filter(|path| path.is_file());
    if compiled.is_none() && !installed(PROGRAM, left_out) {
        return None;
    }
    let program = compiled.or_else(|| find(PROGRAM))?;
    match version(&program) {
        Some(version) if version >= SYNCS_FROM => Some(JetStream(program)),
        _ => {
            let (major, minor) = SYNCS_FROM;
            left_out.push(format!(
                "NATS JetStream that syncs each message: {} is older than {major}.{minor}, see bench/peers/install",
                program.display()
            ));
            None
        }
    }
}

/// Major and minor.
fn version(program: &Path) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").output().ok()?;
    version_of(&String::from_utf8_lossy(&output.stdout))
}

/// `nats-server: v2.10.29`
fn version_of(said: &str) -> Option<(u32, u32)> {
    let (_, numbers) = said.trim().rsplit_once('v')?;
    let mut numbers = numbers.split('.');
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

impl JetStream {
    /// Starts it; its store is in the directory of the settings, and nothing is acknowledged before it is synced.
    pub(crate) fn start(&self, settings: &Settings) -> anyhow::Result<Peer> {
        let address = address::free()?;
        let place = settings.directory.display();
        let configuration = format!(
            "listen: \"{address}\"\nlog_file: \"{place}/nats.log\"\n\
             jetstream {{ store_dir: \"{place}/jetstream\", sync_interval: always }}\n"
        );
        let file = configure(settings, "nats.conf", &configuration)?;
        let mut command = Command::new(&self.0);
        command.arg("--config").arg(&file);
        Peer::start(PROGRAM, &command, settings, address, Transport::Tcp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_by_its_numbers() {
        assert_eq!(version_of("nats-server: v2.9.10\n"), Some((2, 9)));
        assert!(version_of("nats-server: v2.10.29\n").unwrap() >= SYNCS_FROM);
        assert!(version_of("nats-server: v2.9.10\n").unwrap() < SYNCS_FROM);
        assert_eq!(version_of("nats-server: who knows"), None);
    }
}
