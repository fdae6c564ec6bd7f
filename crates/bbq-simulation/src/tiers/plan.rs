//! The decisions of a seed of the world of several servers: how they are connected, and which faults may happen.

use super::older_disk::SetBack;
use crate::bug::Bug;
use crate::client::ClientOptions;
use crate::plan::{self, LANES_MAX, Rates};
use crate::random::Random;
use crate::server::{Destination, Limits, ServerOptions, SinkOptions};
use crate::servers::Servers;

/// Steps of the phase with faults. A step is that of one server of several, so there are more than in a world of one.
const STEPS_MIN: u64 = 400;
const STEPS_MAX: u64 = 4000;
/// Segments in which all messages of a run have room: a sink that appears late finds them.
const LARGE_SEGMENT_BYTES: u64 = 2 * 1024 * 1024;

/// The configuration of one server.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub(crate) options: ServerOptions,
    /// Sinks that are added at a later start.
    pub(crate) late_sinks: Vec<SinkOptions>,
    /// The number of lanes may change at a restart.
    pub(crate) lanes_change: bool,
}

/// The decisions of a seed.
#[derive(Clone, Debug)]
pub(crate) struct TiersPlan {
    pub(crate) steps: u64,
    pub(crate) clients: Vec<ClientOptions>,
    /// The last one has the outputs that count.
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) rates: Rates,
    /// How long a server that was lost may stay away, in steps.
    pub(crate) away_max: u64,
    pub(crate) client_weight: u64,
    pub(crate) sink_weight: u64,
    pub(crate) set_back: Option<SetBack>,
    /// Every message has one way to the outputs, and so the order of a stream is kept.
    pub(crate) has_one_way: bool,
}

/// Which server passes on to which, and which ones clients send to.
struct Shape {
    /// By server, the next ones; the last server has none.
    next: Vec<Option<Servers>>,
    /// Servers that clients send to.
    clients: Servers,
}

impl Shape {
    /// Clients with one server, which passes on to one next server.
    fn one_way() -> Shape {
        Shape { next: vec![Some(Servers::one(1)), None], clients: Servers::one(0) }
    }
}

fn shape(random: &mut Random) -> Shape {
    let to = |server| Some(Servers::one(server));
    let two = |first, second| Servers { first, second: Some(second) };
    let (next, clients) = match random.below(8) {
        // Two servers that pass on to a third.
        0 | 1 => (vec![to(2), to(2), None], two(0, 1)),
        // The next server is also the client's second one, or its first.
        2 => (vec![to(1), None], two(0, 1)),
        3 => (vec![to(1), None], Servers::one(0)),
        // Three tiers, with one way or several.
        4 => (vec![to(1), to(2), None], Servers::one(0)),
        5 => (vec![to(1), to(2), None], two(0, [1, 2][random.index(2)])),
        6 => (vec![Some(two(1, 2)), to(3), to(3), None], Servers::one(0)),
        _ => (vec![to(2), to(2), to(3), None], two(0, 1)),
    };
    Shape { next, clients }
}

fn node(random: &mut Random, next: Option<Servers>, salt: u64, bug: Option<Bug>) -> NodePlan {
    let mut options = plan::server(random, bug);
    // What is dropped for want of room is counted; the worlds of one server look at that.
    options.drops_oldest = false;
    options.salt = salt;
    if random.one_in(3) {
        options.lanes = 1;
    }
    let lanes_change = random.one_in(4);
    let Some(servers) = next else {
        options.sinks.truncate(2);
        return NodePlan { options, late_sinks: Vec::new(), lanes_change };
    };
    let (destination, limits) = (Destination::Servers(servers), Limits::default());
    let link = SinkOptions { destination, clock_rate: 1, limits, name: 0, rules: 0 };
    let has_file = random.one_in(3);
    options.sinks.truncate(usize::from(has_file));
    let is_late = random.one_in(3);
    if is_late {
        options.segment_bytes = LARGE_SEGMENT_BYTES;
        options.bytes_max = LARGE_SEGMENT_BYTES * 4 * LANES_MAX;
        return NodePlan { options, late_sinks: vec![link], lanes_change };
    }
    options.sinks.push(link);
    NodePlan { options, late_sinks: Vec::new(), lanes_change }
}

impl TiersPlan {
    pub(crate) fn new(random: &mut Random, bug: Option<Bug>, sets_back: bool) -> TiersPlan {
        let is_one_way = bug == Some(Bug::GapIsFinalInOneWay);
        let Shape { next, clients: servers } = if is_one_way { Shape::one_way() } else { shape(random) };
        let nodes = (1..).zip(&next).map(|(salt, next)| node(random, *next, salt << 56, bug));
        let nodes: Vec<NodePlan> = nodes.collect();
        let clients = (0..random.between(1, 3)).map(|_| {
            let turned = servers.second.filter(|_| random.one_in(4));
            let servers =
                turned.map_or(servers, |second| Servers { first: second, second: Some(servers.first) });
            ClientOptions { servers, ..plan::client(random, bug) }
        });
        let mut clients: Vec<ClientOptions> = clients.collect();
        // A link gives up the order of a stream whose earlier messages are in another lane of the next server.
        let has_one_lane = nodes.iter().all(|node| node.options.lanes == 1 && !node.lanes_change);
        let has_one_next = next.iter().flatten().all(|servers| servers.second.is_none());
        let steps = random.between(STEPS_MIN, STEPS_MAX);
        let set_back = sets_back.then(|| SetBack::new(random, nodes.len(), servers, steps));
        clients[0].has_spool |= set_back.as_ref().is_some_and(SetBack::needs_spool);
        let mut plan = TiersPlan {
            steps,
            set_back,
            clients,
            has_one_way: !sets_back && has_one_lane && has_one_next && servers.second.is_none(),
            nodes,
            rates: Rates::new(random),
            away_max: [20, 200, 1500][random.index(3)],
            client_weight: random.between(1, 6),
            sink_weight: random.between(2, 8),
        };
        if is_one_way {
            plan.only_fail_lanes();
        }
        plan
    }

    /// Leaves no fault but failed lanes, and what makes messages wait: so a stream goes on in another lane while it has unread messages.
    fn only_fail_lanes(&mut self) {
        let Rates { fail_syncs, stick, .. } = self.rates;
        self.rates = Rates { fail_syncs: fail_syncs.max(50), stick: stick.max(50), ..Rates::default() };
        for node in &mut self.nodes {
            node.options.sinks.append(&mut node.late_sinks);
            node.options.lanes = node.options.lanes.max(2);
            node.lanes_change = false;
        }
    }
}
