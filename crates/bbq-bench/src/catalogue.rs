//! The experiments that there are.

use std::fmt;

use anyhow::Context;

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

impl Experiment {
    /// What it measures on this machine.
    ///
    /// # Errors
    /// If it cannot run on this machine.
    pub fn plan(&self, settings: &Settings) -> anyhow::Result<Plan> {
        (self.plan)(settings).with_context(|| format!("experiment {}", self.name))
    }
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
    text += "greeter, dns, servers and shapes measure the examples of bbq-listen, which are in no package; build them from source.\n";
    text
}

/// Makes the list, a line for each experiment, which is a module of that name.
macro_rules! experiments {
    ($($name:ident $lasts:literal $summary:literal)*) => {
        /// All of them, in the order in which they are listed.
        pub const EXPERIMENTS: &[Experiment] = &[$(Experiment {
            name: stringify!($name),
            lasts: $lasts,
            summary: $summary,
            plan: experiments::$name::plan,
        }),*];
    };
}

experiments! {
    listen    "3 min"  "which way of spreading connections over workers to choose"
    stream    "3 min"  "messages a second, by size, connections, acknowledgement"
    durable   "2 min"  "what it costs to wait until a message is on disk"
    otlp      "20 s"   "OpenTelemetry's logs and HTTP POST, until they are on disk"
    udp       "45 s"   "datagrams lost as they come faster, and if that is counted"
    burst     "10 s"   "4 KiB messages as fast as they come, a connection for each"
    greeter   "30 s"   "a greeting a connection, by every way of spreading them"
    stall     "2 min"  "how long new connections wait for a worker that is stuck"
    skew      "5 min"  "how long others wait when few connections bring most of the work"
    duplicate "50 s"   "whether more listening sockets help, at one address or two"
    http      "30 s"   "HTTP requests a second, by way of spreading; beside nginx"
    dns       "2 min"  "DNS answers: processor time against rate; beside Unbound"
    client    "40 s"   "how long a call of send holds up your program"
    idle      "40 s"   "memory of the server for a connection that says nothing"
    scale     "7 min"  "a message's cost with more connections, sinks, and spool"
    marks     "3 min"  "bbq beside its marks: bare C, syslog-ng, rsyslog"
    servers   "2 min"  "the examples of bbq-listen beside nginx and Unbound"
    shapes    "5 min"  "the same with few and many client threads, connections, sockets"
}
