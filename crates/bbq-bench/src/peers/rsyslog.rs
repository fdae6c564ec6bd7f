//! rsyslog: lines or datagrams to a file, as they came; its queue waits when full, so that it does not drop.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::peer::{Peer, Transport, configure, output};
use super::programs::{find, unpacked};
use crate::address;
use crate::settings::Settings;

pub(super) fn start(settings: &Settings, transport: Transport) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let (module, input) = match transport {
        Transport::Tcp => ("imptcp", "supportOctetCountedFraming=\"off\""),
        Transport::Udp => ("imudp", "rcvbufSize=\"4m\""),
    };
    let configuration = format!(
        "global(workDirectory=\"{}\")\n\
         main_queue(queue.type=\"FixedArray\" queue.size=\"200000\" queue.dequeueBatchSize=\"1024\" queue.timeoutEnqueue=\"600000\")\n\
         module(load=\"{module}\")\ntemplate(name=\"line\" type=\"string\" string=\"%rawmsg%\\n\")\n\
         input(type=\"{module}\" address=\"{}\" port=\"{}\" {input})\n\
         action(type=\"omfile\" file=\"{}\" template=\"line\" ioBufferSize=\"64k\")\n",
        settings.directory.display(),
        address.ip(),
        address.port(),
        output(settings).display(),
    );
    let file = configure(settings, "rsyslog.conf", &configuration)?;
    let program = find("rsyslogd").context("rsyslogd is not installed")?;
    let mut command = Command::new(&program);
    command.arg("-n").arg("-f").arg(&file).arg("-i").arg(settings.directory.join("rsyslog.pid"));
    if let Some(modules) = unpacked().filter(|root| program.starts_with(root)).and_then(|root| modules(&root))
    {
        command.arg("-M").arg(modules);
    }
    Peer::start("rsyslog", &command, settings, address, transport)
}

/// Of a package that was only unpacked: usr/lib/ARCHITECTURE/rsyslog.
fn modules(root: &Path) -> Option<std::path::PathBuf> {
    let architectures = fs::read_dir(root.join("usr/lib")).ok()?;
    architectures.flatten().map(|entry| entry.path().join("rsyslog")).find(|path| path.is_dir())
}
