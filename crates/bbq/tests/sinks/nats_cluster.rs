//! If this fails, messages are lost in a cluster of NATS servers, come twice or in another order, when its members are killed; or the
//! sink does not go on with the members that are left, or does not say why it waits.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::nats::assert_once_and_in_order;
use super::nats_client::{Client, Message};
use super::nats_server::{Nats, NatsServer, new_server};
use super::senders::{Senders, send_all, start, wait_more, wait_problem};
use crate::support::random::Random;
use crate::support::{PATIENCE, Setup, free_ports, pause};

const STREAM: &str = "LOGS";
const MEMBERS: usize = 3;
/// A member that does not respond within this time does not know of a leader yet.
const RESPONSE: Duration = Duration::from_secs(1);

/// A reader that gets nothing for so long asks again.
const READ: Duration = Duration::from_secs(5);

/// Servers that know each other, each on a free port and with a directory of its own.
struct NatsCluster {
    members: Vec<Nats>,
}

impl NatsCluster {
    fn new() -> NatsCluster {
        let routes = free_ports(MEMBERS);
        let all: Vec<String> = routes.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect();
        let member = |(number, port)| {
            Nats::new(new_server()).config(&format!(
                "server_name: n{number}\ncluster {{ name: bbq, listen: \"127.0.0.1:{port}\", routes: {all:?} }}\n"
            ))
        };
        NatsCluster { members: routes.iter().enumerate().map(member).collect() }
    }

    /// Starts all, and waits until they have a leader.
    fn start(&self) -> Vec<Option<NatsServer<'_>>> {
        let started = self.members.iter().map(|member| Some(member.launch())).collect();
        self.wait("a leader of the cluster", |cluster| cluster.ask("INFO", &json!({})));
        started
    }

    /// A server of bbq that publishes to a stream on all members, which it makes.
    fn edge(&self) -> Setup {
        let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 1\n");
        let addresses: Vec<String> = self.members.iter().map(Nats::address).collect();
        let query = format!("stream={STREAM}&create=on&replicas={MEMBERS}");
        setup.set_sinks(&[&format!("nats://{}/logs?{query}", addresses.join(","))]);
        setup
    }

    /// What the first member that responds says.
    fn ask(&self, name: &str, body: &Value) -> Option<Value> {
        self.members
            .iter()
            .find_map(|member| Client::connect(member.port, &member.credentials)?.ask(name, body, RESPONSE))
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&NatsCluster) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            let logs = || self.members.iter().map(Nats::log).collect::<Vec<_>>().join("\n\n");
            assert!(begin.elapsed() < PATIENCE, "there is not {what}\n{}", logs());
            pause();
        }
    }

    /// What the stream's leader says of it.
    fn stream(&self) -> Option<Value> {
        self.ask(&format!("STREAM.INFO.{STREAM}"), &json!({}))
    }

    /// The member that leads the stream.
    fn leader(&self) -> usize {
        self.wait("a leader of the stream", |cluster| {
            let stream = cluster.stream()?;
            stream["cluster"]["leader"].as_str()?.strip_prefix('n')?.parse().ok()
        })
    }

    /// Waits until every member has all of the stream.
    fn wait_current(&self) {
        self.wait("a stream that is on all members", |cluster| {
            let stream = cluster.stream()?;
            let others = stream["cluster"]["replicas"].as_array()?;
            let are_current = others.iter().all(|other| other["current"] == true && other["offline"] != true);
            (are_current && others.len() == MEMBERS - 1).then_some(())
        });
    }

    fn read(&self) -> Vec<Message> {
        self.wait_current();
        let member = &self.members[0];
        self.wait("a response to a reader", |_| {
            Client::connect(member.port, &member.credentials)?.read_within(STREAM, "logs", READ)
        })
    }
}

/// Kills bbq, the leader of the stream, and the others by chance, one at a time, while clients send.
#[test]
fn each_message_is_there_once_and_in_order_whichever_member_is_killed() {
    const SENDERS: u32 = 4;
    const COUNT: u32 = 5000;
    let mut random = Random::seeded();
    let cluster = NatsCluster::new();
    let mut members = cluster.start();
    let first = cluster.edge();
    let mut at_first = start(&first, &mut random);
    let (mut senders, mut leader_kills, mut other_kills, mut kills) = (0, 0, 0, 0);
    while leader_kills < 2 || other_kills < 2 || kills < 3 {
        let sending = Senders::start(&first, senders..senders + SENDERS, COUNT);
        senders += SENDERS;
        let all = senders * COUNT;
        wait_more(&at_first, all, &mut random);
        let member = match random.below(3) {
            0 => None,
            1 => Some(cluster.leader()),
            _ => Some((cluster.leader() + 1 + random.below(2) as usize) % MEMBERS),
        };
        match member {
            None => {
                at_first.kill();
                at_first = start(&first, &mut random);
                kills += 1;
            }
            Some(member) => {
                let is_leader = member == cluster.leader();
                members[member].take().expect("it runs").kill();
                if random.below(2) == 0 {
                    // The others go on without it.
                    sending.wait();
                    at_first.wait_delivered(all.into());
                } else {
                    wait_more(&at_first, all, &mut random);
                    sending.wait();
                }
                members[member] = Some(cluster.members[member].launch());
                if is_leader {
                    leader_kills += 1
                } else {
                    other_kills += 1
                }
                cluster.wait_current();
                continue;
            }
        }
        sending.wait();
    }
    at_first.wait_delivered((senders * COUNT).into());
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    println!("{leader_kills} kills of the leader, {other_kills} of others, {kills} of bbq");
    assert_once_and_in_order(&cluster.read(), senders, COUNT);
}

#[test]
fn without_most_members_the_sink_waits_and_says_why() {
    let cluster = NatsCluster::new();
    let mut members = cluster.start();
    let first = cluster.edge();
    let at_first = first.start();
    send_all(&first, 0, 5000);
    at_first.wait_delivered(5000);
    members.truncate(1);
    send_all(&first, 1, 5000);
    wait_problem(&at_first, "check that most servers of the cluster are running");
    members.extend(cluster.members[1..].iter().map(|member| Some(member.launch())));
    at_first.wait_delivered(10_000);
    assert_once_and_in_order(&cluster.read(), 2, 5000);
}
