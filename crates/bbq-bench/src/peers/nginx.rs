//! nginx as a web server that says OK.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::peer::{Peer, Transport};
use super::programs::find;
use crate::address;
use crate::settings::Settings;

/// What the seed compares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode {
    /// Words of the listen directive.
    pub(crate) listen: &'static str,
    /// Directives of the events block.
    pub(crate) events: &'static str,
}

/// Starts it.
pub(crate) fn start(settings: &Settings, directory: &Path, mode: Mode) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let place = directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind}; "))
        .concat();
    // Its workers become nobody when root starts it, and cannot see the directory then.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let configuration = format!(
        "{user}\nworker_processes {};\nworker_rlimit_nofile 200000;\ndaemon off;\npid {place}/nginx.pid;\nerror_log {place}/nginx.log warn;\n\
         events {{ worker_connections 110000; {} }}\n\
         http {{ access_log off; keepalive_requests 1000000000; default_type text/plain; {temporary}\n\
         server {{ listen {address} {} backlog=4096; location / {{ return 200 \"OK\"; }} }} }}\n",
        settings.workers, mode.events, mode.listen,
    );
    let file = directory.join("nginx.conf");
    fs::write(&file, configuration).with_context(|| format!("cannot write {}", file.display()))?;
    let mut command = Command::new(find("nginx").context("nginx is not installed")?);
    command.arg("-p").arg(directory).arg("-c").arg(&file).arg("-e").arg(directory.join("nginx.log"));
    let mut peer = Peer::start("nginx", &command, directory, address, Transport::Tcp)?;
    peer.wait_processes(settings.workers)?;
    Ok(peer)
}
