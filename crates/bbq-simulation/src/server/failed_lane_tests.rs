//! A link's batch that a lane could not write is not acknowledged by a later one whose records are known.

use std::sync::Arc;

use bbq_spool::SteppedTime;
use bbq_wire::batch::BatchIdentity;
use bbq_wire::session::{AckLevel, ClientSession, ClientStep, Hello, RefusalCode};
use bbq_wire::{BatchBuilder, Compression, SourceKind, StreamId};

use super::Server;
use crate::disk::SimDisk;
use crate::network::Network;
use crate::plan;
use crate::random::Random;
use crate::trace::Trace;

struct Link {
    server: Server,
    network: Network,
    trace: Trace,
    connection: u64,
    session: ClientSession,
}

impl Link {
    /// The server handles these bytes. Returns its replies: acknowledged numbers, and the code of a refusal.
    fn send(&mut self, bytes: &[u8]) -> (Vec<u64>, Option<RefusalCode>) {
        let connection = self.network.get(self.connection).expect("it is open");
        connection.up.arrived.extend_from_slice(bytes);
        self.server.serve(self.connection, &mut self.network, &mut self.trace);
        self.replies()
    }

    /// The lane writes, and its worker learns how that ended.
    fn write(&mut self) -> (Vec<u64>, Option<RefusalCode>) {
        for _ in 0..3 {
            self.server.write(0, &mut self.trace);
            self.server.settle(0, &mut self.network, &mut self.trace);
        }
        self.replies()
    }

    fn replies(&mut self) -> (Vec<u64>, Option<RefusalCode>) {
        self.network.deliver(self.connection, usize::MAX);
        let mut input =
            std::mem::take(&mut self.network.get(self.connection).expect("it is open").down.arrived);
        let (mut acknowledged, mut refused) = (Vec::new(), None);
        loop {
            let consumed = match self.session.next(&input).expect("the frames are whole") {
                ClientStep::NeedMore { .. } => return (acknowledged, refused),
                ClientStep::Welcome { consumed, .. } => consumed,
                ClientStep::Ack { sequence, consumed } => {
                    acknowledged.push(sequence);
                    consumed
                }
                ClientStep::Refused { refusal, consumed } => {
                    refused = Some(refusal.code);
                    consumed
                }
            };
            input.drain(..consumed);
        }
    }
}

fn batch(stream: u8) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    builder.push(b"record");
    let identity = BatchIdentity {
        stream: StreamId([stream; 16]),
        first_sequence: 1,
        base_time_ns: 1,
        source: SourceKind::Bbq,
        compression: Compression::None,
    };
    builder.finish(&identity).expect("it has a record").to_vec()
}

#[test]
fn what_a_lane_could_not_write_is_not_acknowledged_by_what_is_known() {
    let mut random = Random::new(1);
    let disk = SimDisk::new(random.fork());
    let mut options = plan::server(&mut random, None);
    (options.lanes, options.drops_oldest) = (1, false);
    options.sinks.clear();
    let time = Arc::new(SteppedTime::default());
    let server = Server::open(&disk, &options, &time).expect("it starts");
    let mut network = Network::default();
    let connection = network.connect(0);
    let (trace, session) = (Trace::new(false), ClientSession::new());
    let mut link = Link { server, network, trace, connection, session };

    let mut hello = Vec::new();
    let (stream, ack) = (StreamId([9; 16]), AckLevel::Durable);
    Hello { stream, ack, client: String::new(), epoch: 1, relays: true, token: None, progress: None }
        .encode(&mut hello);
    assert_eq!(link.send(&hello), (vec![], None));
    assert_eq!(link.send(&batch(1)), (vec![], None));
    assert_eq!(link.write(), (vec![1], None));

    assert_eq!(link.send(&batch(2)), (vec![], None));
    disk.set_faults(|faults| faults.sync = 65_536);
    assert_eq!(link.write(), (vec![], None));
    let (acknowledged, refused) = link.send(&batch(1));
    assert!(acknowledged.is_empty(), "the second batch of the link is on no disk: {acknowledged:?}");
    assert_eq!(refused, Some(RefusalCode::SpoolFailed));
}
