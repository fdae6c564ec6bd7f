//! syslog-ng: lines or datagrams to a file, unparsed; with flow control, so that it slows down and does not drop.

use std::process::Command;

use anyhow::Context;

use super::peer::{Peer, Transport, configure, output};
use super::programs::find;
use crate::address;
use crate::settings::Settings;

pub(super) fn start(settings: &Settings, transport: Transport) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let source = match transport {
        Transport::Tcp => {
            "transport(\"tcp\") flags(no-parse) max-connections(64) log-iw-size(64000) log-fetch-limit(1000)"
        }
        Transport::Udp => {
            "transport(\"udp\") flags(no-parse) so-rcvbuf(4194304) log-fetch-limit(1000) log-iw-size(64000)"
        }
    };
    let configuration = format!(
        "@version: 3.35\noptions {{ stats-freq(0); use-dns(no); log-fifo-size(200000); }};\n\
         source input {{ network(ip(\"{}\") port({}) {source}); }};\n\
         destination output {{ file(\"{}\" template(\"$MSG\\n\") flush-lines(1000)); }};\n\
         log {{ source(input); destination(output); flags(flow-control); }};\n",
        address.ip(),
        address.port(),
        output(settings).display(),
    );
    let file = configure(settings, "syslog-ng.conf", &configuration)?;
    let mut command = Command::new(find("syslog-ng").context("syslog-ng is not installed")?);
    command.args(["--foreground", "--no-caps", "--cfgfile"]).arg(&file);
    command.arg("--persist-file").arg(settings.directory.join("syslog-ng.persist"));
    command.arg("--pidfile").arg(settings.directory.join("syslog-ng.pid"));
    command.arg("--control").arg(settings.directory.join("syslog-ng.ctl"));
    Peer::start("syslog-ng", &command, settings, address, transport)
}
