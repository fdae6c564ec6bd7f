//! If this fails, messages are lost in a cluster of Kafka brokers, come twice or in another order, when brokers are killed; or the sink
//! does not go on with the brokers that are left, does not say why it waits, or keeps its progress less safely than the messages.

use super::kafka::assert_once_and_in_order;
use super::kafka_broker::{Broker, Kafka, PORTS};
use super::senders::{Senders, start, wait_more, wait_problem};
use crate::support::random::Random;
use crate::support::{Setup, free_ports};

const BROKERS: usize = 3;
const TOPIC: &str = "logs";

/// Brokers that are controllers, too. Topics have one replica unless they are made with more.
struct KafkaCluster {
    members: Vec<Kafka>,
}

impl KafkaCluster {
    fn new() -> KafkaCluster {
        let ports: Vec<Vec<u16>> = (0..BROKERS).map(|_| free_ports(PORTS)).collect();
        let voter =
            |(index, ports): (usize, &Vec<u16>)| format!("{}@127.0.0.1:{}", index + 1, ports[PORTS - 1]);
        let voters = ports.iter().enumerate().map(voter).collect::<Vec<_>>().join(",");
        let member = |(index, ports): (usize, &Vec<u16>)| {
            let config = format!(
                "node.id={}\ncontroller.quorum.voters={voters}\n\
                 offsets.topic.replication.factor={BROKERS}\n\
                 transaction.state.log.replication.factor={BROKERS}\ntransaction.state.log.min.isr=2\n\
                 broker.session.timeout.ms=1500\nbroker.heartbeat.interval.ms=200\n",
                index + 1
            );
            Kafka::with_ports(ports, &config)
        };
        KafkaCluster { members: ports.iter().enumerate().map(member).collect() }
    }

    fn start(&self) -> Vec<Option<Broker>> {
        let mut brokers: Vec<Broker> = self.members.iter().map(Kafka::launch).collect();
        self.members.iter().zip(&mut brokers).for_each(|(member, broker)| member.wait_started(broker));
        brokers.into_iter().map(Some).collect()
    }

    /// A server of bbq that writes to a topic.
    fn edge(&self, topic: &str) -> Setup {
        let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 1\n");
        let addresses: Vec<String> = self.members.iter().map(Kafka::address).collect();
        setup.set_sinks(&[&format!("kafka://{}/{topic}", addresses.join(","))]);
        setup
    }
}

/// Kills each of the brokers, in an order by chance, so the leader of each partition and the coordinator of the transactions; and bbq.
/// Then two are away at once.
#[test]
fn each_message_is_there_once_and_in_order_whichever_broker_is_killed() {
    const SENDERS: u32 = 4;
    const COUNT: u32 = 10_000;
    let mut random = Random::seeded();
    let cluster = KafkaCluster::new();
    let mut brokers = cluster.start();
    cluster.members[0].tool(
        "org.apache.kafka.tools.TopicCommand",
        &[
            "--create",
            "--topic",
            TOPIC,
            "--partitions",
            "3",
            "--replication-factor",
            "3",
            "--config",
            "min.insync.replicas=2",
        ],
    );
    let first = cluster.edge(TOPIC);
    let mut at_first = start(&first, &mut random);
    let mut senders = 0;
    let begin = random.below(BROKERS as u64) as usize;
    for round in 0..BROKERS {
        let mut send = |random: &mut Random| {
            let sending = Senders::start(&first, senders..senders + SENDERS, COUNT);
            senders += SENDERS;
            wait_more(&at_first, senders * COUNT, random);
            sending
        };
        let sending = send(&mut random);
        let victim = (begin + round) % BROKERS;
        brokers[victim].take().expect("it runs").kill();
        // The others go on without it.
        let more = send(&mut random);
        sending.wait();
        more.wait();
        at_first.wait_delivered((senders * COUNT).into());
        brokers[victim] = Some(cluster.members[victim].launch());
        let sending = Senders::start(&first, senders..senders + SENDERS, COUNT);
        senders += SENDERS;
        for _ in 0..2 {
            wait_more(&at_first, senders * COUNT, &mut random);
            at_first.kill();
            at_first = start(&first, &mut random);
        }
        cluster.members[victim].wait_started(brokers[victim].as_mut().expect("it was launched"));
        sending.wait();
    }
    at_first.wait_delivered((senders * COUNT).into());
    let (gone, also_gone) = (begin, (begin + 1) % BROKERS);
    brokers[gone] = None;
    brokers[also_gone] = None;
    Senders::start(&first, senders..senders + SENDERS, COUNT).wait();
    senders += SENDERS;
    wait_problem(&at_first, "brokers are running");
    brokers[gone] = Some(cluster.members[gone].launch());
    brokers[also_gone] = Some(cluster.members[also_gone].start());
    at_first.wait_delivered((senders * COUNT).into());
    assert_eq!(at_first.stop(), Some(0), "{}", first.log());
    assert_once_and_in_order(&cluster.members[also_gone].read(TOPIC), senders, COUNT);
    let progress = cluster.members[also_gone].describe("logs-bbq-progress");
    assert!(
        progress.contains("ReplicationFactor: 3") && progress.contains("min.insync.replicas=2"),
        "{progress}"
    );
    assert!(!first.log().contains("of 3 brokers"), "{}", first.log());
    // Made by the brokers, with one replica.
    let weak = cluster.edge("weak");
    let at_weak = weak.start();
    at_weak.wait_log("the topic weak is on one of 3 brokers");
    at_weak.wait_log("the topic weak-bbq-progress is on one of 3 brokers");
}
