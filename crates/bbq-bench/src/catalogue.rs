//! The experiments that there are.

use std::fmt;

use crate::experiments;
use crate::plan::Plan;
use crate::settings::Settings;

/// One that can be run.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// As it is called on the command line.
    pub name: &'static str,
    /// What it tells, in a line.
    pub summary: &'static str,
    pub(crate) plan: fn(&Settings) -> anyhow::Result<Plan>,
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All of them, in the order in which they are listed.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "listen",
        summary: "which distribution of connections over the workers to choose on this machine",
        plan: experiments::listen::plan,
    },
    Experiment {
        name: "stream",
        summary: "messages and bytes a second: by size, connections, acknowledgement; and lines over TCP",
        plan: experiments::stream::plan,
    },
    Experiment {
        name: "durable",
        summary: "what it costs to wait until a message is on disk: rate against latency",
        plan: experiments::durable::plan,
    },
    Experiment {
        name: "udp",
        summary: "datagrams: loss against the rate, and whether it is counted",
        plan: experiments::udp::plan,
    },
    Experiment {
        name: "burst",
        summary: "seed 002: 4 KiB messages, a connection each, the seed's table",
        plan: experiments::burst::plan,
    },
    Experiment {
        name: "greeter",
        summary: "seed 000: a name per connection, by every distribution",
        plan: experiments::greeter::plan,
    },
    Experiment {
        name: "stall",
        summary: "seed 003's weakness: what waits when one worker is blocked",
        plan: experiments::stall::plan,
    },
    Experiment {
        name: "duplicate",
        summary: "seed 004: duplicated listen sockets, at one address and at two",
        plan: experiments::duplicate::plan,
    },
    Experiment {
        name: "http",
        summary: "seed 003: requests a second, beside nginx with --peers",
        plan: experiments::http::plan,
    },
    Experiment {
        name: "dns",
        summary: "seed 001: DNS from memory, processor time against the rate, beside Unbound with --peers",
        plan: experiments::dns::plan,
    },
    Experiment {
        name: "client",
        summary: "what a call of send costs the application, whatever its server does",
        plan: experiments::client::plan,
    },
    Experiment {
        name: "idle",
        summary: "memory of a connection that says nothing",
        plan: experiments::idle::plan,
    },
    Experiment {
        name: "scale",
        summary: "what a message costs with more connections, more sinks, and more in the spool",
        plan: experiments::scale::plan,
    },
];
