//! Other servers, measured in the same run if they are installed (`bench/peers/install` does that). Each is set up to do the
//! least that gives the same behaviour.

pub(crate) mod collector;
pub(crate) mod examples;
pub(crate) mod floor;
pub(crate) mod nats;
pub(crate) mod nginx;
mod peer;
mod programs;
mod rsyslog;
pub(crate) mod send_cost;
mod syslog_ng;
pub(crate) mod tools;
pub(crate) mod unbound;
pub(crate) mod zeromq;

use crate::settings::Settings;
pub(crate) use peer::Peer;
use peer::Transport;
pub(crate) use programs::{find, installed};

/// Starts a server, with its files in the directory of the settings.
pub(crate) type Start = fn(&Settings) -> anyhow::Result<Peer>;
/// The name of a row, the program that it needs, and how that is started.
type Known = (&'static str, &'static str, Start);

/// Servers that write the lines of TCP connections to a file.
pub(crate) const LINE_SERVERS: [Known; 2] = [
    ("syslog-ng", "syslog-ng", |settings| syslog_ng::start(settings, Transport::Tcp)),
    ("rsyslog imptcp", "rsyslogd", |settings| rsyslog::start(settings, Transport::Tcp)),
];
/// Servers that write datagrams to a file.
pub(crate) const DATAGRAM_SERVERS: [Known; 2] = [
    ("syslog-ng", "syslog-ng", |settings| syslog_ng::start(settings, Transport::Udp)),
    ("rsyslog imudp", "rsyslogd", |settings| rsyslog::start(settings, Transport::Udp)),
];

/// Those of `known` that are installed, if peers are asked for.
pub(crate) fn available(
    settings: &Settings,
    known: &[Known],
    left_out: &mut Vec<String>,
) -> Vec<(&'static str, Start)> {
    if !settings.peers {
        return Vec::new();
    }
    let is_here = |(_, program, _): &&Known| installed(program, left_out);
    known.iter().filter(is_here).map(|(name, _, start)| (*name, *start)).collect()
}
