//! Unbound with every answer as local data, which it has without any lookup, and with the receive buffer that bbq-listen asks
//! for (its default is the system's, a twentieth of that).

use std::fmt::Write;
use std::process::Command;

use anyhow::Context;

use super::peer::{Peer, Transport, configure};
use super::programs::find;
use crate::address;
use crate::load::names::{NAMES, name};
use crate::settings::Settings;

/// Starts it; `so_reuseport` is yes or no.
pub(crate) fn start(settings: &Settings, so_reuseport: &str) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let place = settings.directory.display();
    let mut configuration = format!(
        "server:\n  num-threads: {}\n  interface: {}\n  port: {}\n  so-reuseport: {so_reuseport}\n  so-rcvbuf: 4m\n  do-daemonize: no\n  \
         use-syslog: no\n  logfile: \"{place}/unbound.log\"\n  verbosity: 0\n  statistics-interval: 0\n  chroot: \"\"\n  username: \"\"\n  \
         directory: \"{place}\"\n  pidfile: \"{place}/unbound.pid\"\n  module-config: \"iterator\"\n  do-tcp: no\n  \
         access-control: 127.0.0.0/8 allow\n  local-zone: \"bench.example.\" static\n",
        settings.workers,
        address.ip(),
        address.port(),
    );
    for index in 0..NAMES {
        writeln!(configuration, "  local-data: \"{}. 3600 IN A 192.0.2.1\"", name(index))?;
    }
    configuration += "remote-control:\n  control-enable: no\n";
    let file = configure(settings, "unbound.conf", &configuration)?;
    let mut command = Command::new(find("unbound").context("unbound is not installed")?);
    command.args(["-d", "-p", "-c"]).arg(&file);
    Peer::start("unbound", &command, settings, address, Transport::Udp)
}
