//! NATS: its core, which stores nothing, without a subscriber.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::{Peer, Transport, find};
use crate::address;
use crate::load::Load;
use crate::load::pipe::{self, PIECE_BYTES, Pipe};
use crate::settings::Settings;

/// Starts it.
pub(crate) fn start(_settings: &Settings, directory: &Path) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let mut command = Command::new(find("nats-server").context("nats-server is not installed")?);
    command.args(["--addr", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.arg("--log").arg(directory.join("nats.log"));
    Peer::start("nats-server", &mut command, directory, address, Transport::Tcp)
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
