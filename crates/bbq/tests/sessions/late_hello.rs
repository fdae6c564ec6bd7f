//! If this fails, a hello that a stuck worker reads late takes a stream from its client's newer connection, and the client ends.

use crate::support::Setup;
use crate::support::session::{Answer, Session, batch, stream_id};
use bbq_wire::RefusalCode;
use bbq_wire::session::{AckLevel, Hello};

fn hello(epoch: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    let hello = Hello {
        stream: stream_id(1),
        ack: AckLevel::Durable,
        client: "a test".to_owned(),
        epoch,
        relays: false,
        token: None,
        progress: None,
    };
    hello.encode(&mut frame);
    frame
}

#[test]
fn of_two_connections_the_one_with_the_higher_epoch_has_the_stream() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let address = setup.address(0);
    let mut newer = Session::connect(address);
    newer.write(&hello(1_700_000_000_002));
    assert!(matches!(newer.next(), Answer::Welcome(_)));
    newer.write(&batch(stream_id(1), 1, &["one"]));
    newer.acknowledged(1);
    // This hello was sent earlier, and is read now.
    let mut older = Session::connect(address);
    older.write(&hello(1_700_000_000_001));
    assert_eq!(older.refused("an old hello").code, RefusalCode::TakenOver);
    newer.write(&batch(stream_id(1), 2, &["two"]));
    newer.acknowledged(2);
    // The next hello, and one without an epoch, take over as usual.
    for epoch in [1_700_000_000_003, 0] {
        let mut next = Session::connect(address);
        next.write(&hello(epoch));
        assert!(matches!(next.next(), Answer::Welcome(_)));
    }
    newer.write(&batch(stream_id(1), 3, &["three"]));
    assert_eq!(newer.refused("a batch of an old connection").code, RefusalCode::TakenOver);
    server.wait_delivered(2);
}
