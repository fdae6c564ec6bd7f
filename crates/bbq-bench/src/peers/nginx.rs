//! nginx as a web server that says OK, or as a stream proxy.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::peer::{Peer, Transport, configure};
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

/// The seed's three configurations.
pub(crate) const MODES: [(&str, Mode); 3] = [
    ("nginx reuseport", Mode { listen: "reuseport", events: "" }),
    ("nginx accept_mutex on", Mode { listen: "", events: "accept_mutex on;" }),
    ("nginx accept_mutex off", Mode { listen: "", events: "accept_mutex off;" }),
];
/// Of Debian's package libnginx-mod-stream; other builds have it in them.
const STREAM_MODULE: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// Whether it can carry on connections. If not, `left_out` says what is missing.
pub(crate) fn can_carry_on(left_out: &mut Vec<String>) -> bool {
    if Path::new(STREAM_MODULE).exists() || find("nginx").is_some_and(|program| has_stream(&program)) {
        return true;
    }
    left_out.push(
        "nginx has no stream module: install it (libnginx-mod-stream), or run bench/peers/install in a clone of bbq"
            .to_owned(),
    );
    false
}

/// Whether it was built with the module in it.
fn has_stream(nginx: &Path) -> bool {
    let told = Command::new(nginx).arg("-V").output();
    told.is_ok_and(|told| {
        String::from_utf8_lossy(&told.stderr).split_whitespace().any(|word| word == "--with-stream")
    })
}

/// Starts it; as a proxy if there is an upstream.
pub(crate) fn start(settings: &Settings, mode: Mode, upstream: Option<SocketAddrV4>) -> anyhow::Result<Peer> {
    let address = address::free()?;
    let place = settings.directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {place}/{kind}; "))
        .concat();
    // Its workers become nobody when root starts it, and cannot see the directory then.
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let listen = format!("listen {address} {} backlog=4096", mode.listen);
    let (load, body) = match upstream {
        Some(upstream) => (
            if Path::new(STREAM_MODULE).exists() {
                format!("load_module {STREAM_MODULE};")
            } else {
                String::new()
            },
            format!("stream {{ server {{ {listen}; proxy_pass {upstream}; tcp_nodelay on; }} }}"),
        ),
        None => (
            String::new(),
            format!(
                "http {{ access_log off; keepalive_requests 1000000000; default_type text/plain; {temporary}\n\
                 server {{ {listen}; location / {{ return 200 \"OK\"; }} }} }}"
            ),
        ),
    };
    let configuration = format!(
        "{load}\n{user}\nworker_processes {};\nworker_rlimit_nofile 200000;\ndaemon off;\npid {place}/nginx.pid;\nerror_log {place}/nginx.log warn;\n\
         events {{ worker_connections 110000; {} }}\n{body}\n",
        settings.workers, mode.events,
    );
    let file = configure(settings, "nginx.conf", &configuration)?;
    let mut command = Command::new(find("nginx").context("nginx is not installed")?);
    command
        .arg("-p")
        .arg(&settings.directory)
        .arg("-c")
        .arg(&file)
        .arg("-e")
        .arg(settings.directory.join("nginx.log"));
    let mut peer = Peer::start("nginx", &command, settings, address, Transport::Tcp)?;
    peer.wait_processes(settings.workers)?;
    Ok(peer)
}
