//! The experiments that there are.

use std::fmt;

use crate::experiments;
use crate::plan::Plan;
use crate::settings::{DURATION_DEFAULT, ROUNDS_DEFAULT, Settings};

/// One that can be run.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// As it is called on the command line.
    pub name: &'static str,
    /// About how long it takes with the default rounds and duration, without peers.
    pub lasts: &'static str,
    /// What it tells, in a line.
    pub summary: &'static str,
    pub(crate) plan: fn(&Settings) -> anyhow::Result<Plan>,
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All of them, a line each.
pub fn list() -> String {
    let mut text = format!(
        "Experiments, and about how long each takes with {ROUNDS_DEFAULT} rounds of {} s, without peers:\n",
        DURATION_DEFAULT.as_secs()
    );
    let width = EXPERIMENTS.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    for Experiment { name, lasts, summary, .. } in EXPERIMENTS {
        text += &format!("  {name:width$}  {lasts:>6}  {summary}\n");
    }
    text
}

/// All of them, in the order in which they are listed.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "listen",
        lasts: "3 min",
        summary: "which way of spreading connections over workers to choose",
        plan: experiments::listen::plan,
    },
    Experiment {
        name: "stream",
        lasts: "3 min",
        summary: "messages a second, by size, connections, acknowledgement",
        plan: experiments::stream::plan,
    },
    Experiment {
        name: "durable",
        lasts: "2 min",
        summary: "what it costs to wait until a message is on disk",
        plan: experiments::durable::plan,
    },
    Experiment {
        name: "udp",
        lasts: "45 s",
        summary: "datagrams lost as they come faster, and if that is counted",
        plan: experiments::udp::plan,
    },
    Experiment {
        name: "burst",
        lasts: "10 s",
        summary: "4 KiB messages as fast as they come, a connection for each",
        plan: experiments::burst::plan,
    },
    Experiment {
        name: "greeter",
        lasts: "30 s",
        summary: "a greeting a connection, by every way of spreading them",
        plan: experiments::greeter::plan,
    },
    Experiment {
        name: "stall",
        lasts: "30 s",
        summary: "how long new connections wait while one worker is blocked",
        plan: experiments::stall::plan,
    },
    Experiment {
        name: "duplicate",
        lasts: "50 s",
        summary: "whether more listening sockets help, at one address or two",
        plan: experiments::duplicate::plan,
    },
    Experiment {
        name: "http",
        lasts: "30 s",
        summary: "HTTP requests a second, by way of spreading; beside nginx",
        plan: experiments::http::plan,
    },
    Experiment {
        name: "dns",
        lasts: "50 s",
        summary: "DNS answers: processor time against rate; beside Unbound",
        plan: experiments::dns::plan,
    },
    Experiment {
        name: "client",
        lasts: "40 s",
        summary: "how long a call of send holds up your program",
        plan: experiments::client::plan,
    },
    Experiment {
        name: "idle",
        lasts: "40 s",
        summary: "memory of the server for a connection that says nothing",
        plan: experiments::idle::plan,
    },
    Experiment {
        name: "scale",
        lasts: "7 min",
        summary: "a message's cost with more connections, sinks, and spool",
        plan: experiments::scale::plan,
    },
];
