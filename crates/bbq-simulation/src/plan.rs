//! The decisions of a seed before the run: the configuration, and which faults may happen. Each run has only some kinds of
//! faults, so that no kind hides another kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bbq_client::Compress;
use bbq_client::simulated::Sizes;
use bbq_sink_file::Rotation;
use bbq_wire::session::AckLevel;

use crate::bug::Bug;
use crate::client::ClientOptions;
use crate::random::Random;
use crate::receiver::{Receiver, ReceiverOptions};
use crate::server::{Destination, Limits, RULES, ServerOptions, SinkOptions};
use crate::servers::Servers;
use crate::tokens::CLIENTS_MAX;

/// Lanes of a server.
pub(crate) const LANES_MAX: u64 = 4;
/// Steps of the phase with faults.
const STEPS_MIN: u64 = 300;
const STEPS_MAX: u64 = 4000;
const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

/// The least that an operator may set for dead letters.
const LETTERS_BYTES_MIN: u64 = 256 * 1024;

/// How often faults happen, each in 65,536 steps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// A connection breaks.
    pub(crate) cut_connection: u32,
    /// A client gives up a connection that still delivers.
    pub(crate) give_up: u32,
    pub(crate) kill_client: u32,
    /// A client's machine loses power.
    pub(crate) power_client: u32,
    /// A client's application closes its sender.
    pub(crate) close_client: u32,
    /// A client's disk has no room for a while.
    pub(crate) full_client: u32,
    pub(crate) kill_server: u32,
    pub(crate) power_server: u32,
    /// The server is killed in the middle of a call.
    pub(crate) cut_in_call: u32,
    /// The server stops in order and starts again.
    pub(crate) reload: u32,
    /// Another program replaces the server (an upgrade).
    pub(crate) upgrade: u32,
    /// A sink is stuck for a while.
    pub(crate) stick: u32,
    /// The disk has no room for a while.
    pub(crate) full: u32,
    /// The next syncs fail.
    pub(crate) fail_syncs: u32,
    /// Calls fail for a while, at the disk's rates.
    pub(crate) trouble: u32,
    /// A block cannot be read for a while.
    pub(crate) passing_read_error: u32,
    /// A wall clock jumps.
    pub(crate) clock_jump: u32,
    /// The kernel drops clean pages.
    pub(crate) evict: u32,
}

/// The decisions of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) steps: u64,
    pub(crate) clients: Vec<ClientOptions>,
    pub(crate) server: ServerOptions,
    pub(crate) rates: Rates,
    /// The number of lanes may change at a restart.
    pub(crate) lanes_change: bool,
    /// A cursor file is removed at some restarts.
    pub(crate) loses_cursors: bool,
    /// Bits of sealed segments flip, or blocks become unreadable for good.
    pub(crate) rots: bool,
    /// How much more often clients act than servers.
    pub(crate) client_weight: u64,
    /// How often sinks act, compared with the other parts.
    pub(crate) sink_weight: u64,
    pub(crate) crowd: Option<CrowdPlan>,
    pub(crate) operator: Option<OperatorPlan>,
    /// Sinks leave messages out, and their rules may change at each start.
    pub(crate) has_rules: bool,
}

/// How often an operator does something, each in 65,536 steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperatorPlan {
    /// Pauses a sink, or ends its pause.
    pub(crate) pause: u32,
    pub(crate) skip_one: u32,
    pub(crate) skip_before: u32,
    pub(crate) reopen: u32,
    /// Sends the dead letters of a sink again.
    pub(crate) resend: u32,
    pub(crate) rename: u32,
}

fn some(random: &mut Random, one_in: u64, most: u32) -> u32 {
    if random.one_in(one_in) {
        random.between(u64::from(most / 10).max(1), u64::from(most)) as u32
    } else {
        0
    }
}

impl Rates {
    pub(crate) fn new(random: &mut Random) -> Rates {
        Rates {
            cut_connection: some(random, 2, 3000),
            give_up: some(random, 2, 3000),
            kill_client: some(random, 3, 500),
            power_client: some(random, 4, 300),
            kill_server: some(random, 2, 400),
            power_server: some(random, 2, 400),
            cut_in_call: some(random, 2, 500),
            reload: some(random, 3, 400),
            upgrade: some(random, 3, 400),
            stick: some(random, 4, 300),
            full: some(random, 6, 200),
            fail_syncs: some(random, 4, 400),
            trouble: some(random, 8, 200),
            passing_read_error: some(random, 6, 300),
            clock_jump: some(random, 4, 500),
            evict: some(random, 3, 500),
            close_client: some(random, 4, 300),
            full_client: some(random, 6, 200),
        }
    }
}

/// Sizes of a client's spool that are so small that segments are created and deleted within a run.
fn sizes(random: &mut Random) -> Sizes {
    let segment_bytes_min = 1024 << random.below(4);
    Sizes {
        bytes_max: if random.one_in(4) { 64 * 1024 } else { 1024 * 1024 },
        extent_bytes: 256 << random.below(6),
        segment_bytes_min,
        segment_bytes_max: 4 * segment_bytes_min,
        reset_bytes_min: 256 << random.below(6),
    }
}

pub(crate) fn client(random: &mut Random, bug: Option<Bug>) -> ClientOptions {
    ClientOptions {
        servers: Servers::one(0),
        level: if random.one_in(6) { AckLevel::Received } else { AckLevel::Durable },
        has_spool: random.one_in(2),
        queue_bytes_max: (64 * 1024) << random.below(3),
        batch_bytes: 1024 << random.below(4),
        sizes: sizes(random),
        compress: if random.one_in(8) { Compress::On } else { Compress::Off },
        drops_oldest: random.one_in(8),
        delivery_timeout: Duration::from_millis([100, 1000, 30_000][random.index(3)]),
        record_bytes_max: [60, 200, 1000, 3000][random.index(4)],
        has_token: false,
        collects_one_in: random.between(1, 8),
        // Some streams are quiet for a long time.
        one_record_in: [2, 2, 4, 30, 100][random.index(5)],
        bug,
    }
}

pub(crate) fn server(random: &mut Random, bug: Option<Bug>) -> ServerOptions {
    let lanes = random.between(1, LANES_MAX) as u32;
    let segment_bytes = SEGMENT_BYTES_MIN << random.below(3);
    let least = segment_bytes * 2 * LANES_MAX;
    ServerOptions {
        lanes,
        segment_bytes,
        bytes_max: if random.one_in(3) { least } else { least * 64 },
        flush_interval: Duration::from_micros(random.between(1, 10_000)),
        hot_bytes_max: if random.one_in(3) { 4 * 1024 * 1024 } else { 0 },
        drops_oldest: random.one_in(6),
        sinks: (0..random.between(1, 3)).map(|_| sink(random)).collect(),
        receivers: BTreeMap::new(),
        has_crowd: false,
        bug,
        salt: 0,
    }
}

/// Draws a sink: its files have a few messages or many, or one file has all.
pub(crate) fn sink(random: &mut Random) -> SinkOptions {
    let bytes = [None, None, Some(400), Some(2000), Some(8000), Some(30_000)][random.index(6)];
    let daily = random.one_in(4);
    let is_rotated = bytes.is_some() || daily;
    let keep = (is_rotated && random.one_in(3)).then(|| random.between(1, 5) as u32);
    let destination = Destination::File(Rotation { bytes, daily, keep });
    let clock_rate = [1, 30, 1000][random.index(3)];
    SinkOptions { destination, clock_rate, limits: Limits::default(), name: 0, rules: 0 }
}

/// Draws limits that a run reaches: in one, some hundred messages come, and a second passes.
pub(crate) fn limits(random: &mut Random) -> Limits {
    Limits {
        bytes_max: [None, Some(2000), Some(16_000), Some(64_000)][random.index(4)],
        age_max: [None, None, Some(Duration::from_millis(20)), Some(Duration::from_millis(500))]
            [random.index(4)],
        drops_oldest: random.one_in(3),
        letters_bytes: random.one_in(4).then_some(LETTERS_BYTES_MIN),
    }
}

/// What is around the server of a crowd.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrowdPlan {
    /// A stranger comes.
    pub(crate) has_stranger: bool,
    /// How often the crowd acts, compared with the other parts.
    pub(crate) weight: u64,
}

impl Plan {
    /// A world with a crowd: its server remembers few streams, and everybody shows a token.
    pub(crate) fn crowd(random: &mut Random, bug: Option<Bug>) -> Plan {
        let mut plan = Plan::new(random, bug);
        let crowd = CrowdPlan { has_stranger: random.one_in(2), weight: random.between(3, 12) };
        plan.clients.truncate(CLIENTS_MAX as usize);
        for client in &mut plan.clients {
            // The order of what both ends forget as received is looked at in the worlds without a crowd.
            (client.has_token, client.level) = (true, AckLevel::Durable);
        }
        // What is lost for good is looked at in the worlds without a crowd.
        (plan.server.has_crowd, plan.server.drops_oldest, plan.rots) = (true, false, false);
        if crowd.has_stranger {
            // So each client has one stream, which nobody makes the server forget.
            plan.clients.iter_mut().for_each(|client| client.has_spool = true);
        }
        plan.crowd = Some(crowd);
        plan
    }

    /// A world where sinks have limits, and an operator gives them orders.
    pub(crate) fn operator(random: &mut Random, bug: Option<Bug>) -> Plan {
        let mut plan = Plan::new(random, bug);
        for sink in &mut plan.server.sinks {
            sink.limits = if random.one_in(3) { Limits::default() } else { limits(random) };
        }
        plan.operator = Some(OperatorPlan {
            pause: some(random, 2, 1000),
            skip_one: some(random, 2, 1000),
            skip_before: some(random, 2, 500),
            reopen: some(random, 2, 500),
            resend: 0,
            rename: 0,
        });
        plan
    }

    /// A world with sinks that make requests, to receivers that may do anything, and with an operator who sends dead letters again and
    /// renames sinks.
    pub(crate) fn requests(random: &mut Random, bug: Option<Bug>) -> Plan {
        let mut plan = Plan::new(random, bug);
        // What is lost for good is looked at in the other worlds.
        (plan.server.drops_oldest, plan.rots, plan.loses_cursors) = (false, false, false);
        let has_limits = random.one_in(4);
        for (index, sink) in plan.server.sinks.iter_mut().enumerate() {
            sink.limits = match has_limits {
                true => limits(random),
                false => Limits {
                    letters_bytes: random.one_in(8).then_some(LETTERS_BYTES_MIN),
                    ..Limits::default()
                },
            };
            if index == 0 || random.one_in(2) {
                let options = ReceiverOptions::new(random);
                (sink.destination, sink.clock_rate) = (Destination::Requests, options.clock_rate);
                plan.server.receivers.insert(index, Arc::new(Receiver::new(options, bug, random.fork())));
            }
        }
        let skips = random.one_in(4);
        plan.operator = Some(OperatorPlan {
            pause: some(random, 2, 1000),
            skip_one: if skips { some(random, 2, 1000) } else { 0 },
            skip_before: if skips { some(random, 2, 500) } else { 0 },
            reopen: some(random, 4, 500),
            resend: some(random, 2, 1000),
            rename: some(random, 2, 800),
        });
        plan
    }

    /// A world where sinks leave messages out.
    pub(crate) fn rules(random: &mut Random, bug: Option<Bug>) -> Plan {
        let mut plan = Plan::new(random, bug);
        // What is lost for good is looked at in the other worlds.
        (plan.server.drops_oldest, plan.rots, plan.loses_cursors) = (false, false, false);
        for sink in &mut plan.server.sinks {
            sink.rules = random.index(RULES.len());
        }
        plan.operator = Some(OperatorPlan {
            pause: some(random, 2, 1000),
            skip_one: some(random, 2, 1000),
            skip_before: some(random, 2, 500),
            reopen: some(random, 2, 500),
            resend: 0,
            rename: some(random, 2, 800),
        });
        plan.has_rules = true;
        plan
    }

    pub(crate) fn new(random: &mut Random, bug: Option<Bug>) -> Plan {
        let clients = random.between(1, 5);
        Plan {
            steps: random.between(STEPS_MIN, STEPS_MAX),
            clients: (0..clients).map(|_| client(random, bug)).collect(),
            server: server(random, bug),
            rates: Rates::new(random),
            lanes_change: random.one_in(3),
            loses_cursors: random.one_in(16),
            rots: random.one_in(16),
            client_weight: random.between(1, 6),
            sink_weight: random.between(1, 6),
            crowd: None,
            operator: None,
            has_rules: false,
        }
    }
}
