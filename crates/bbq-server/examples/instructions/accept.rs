//! A connection for each message: accepted, read to its end, framed, and put into a batch.

use std::io::{Read, Write};
use std::net::TcpStream;

use bbq_listen::{ACCEPTS_PER_BATCH_MAX, Accepted, Acceptor, Address, Group, GroupOptions};
use bbq_wire::framing::Whole;
use bbq_wire::{BatchBuilder, Peer};

use crate::counted;
use crate::framing::{RULES, take};

const MESSAGE: [u8; 1000] = [b'x'; 1000];

pub(crate) fn run() {
    let address = "tcp://127.0.0.1:0".parse().expect("an address");
    let group = Group::open(&GroupOptions::new(address, 1)).expect("a free port");
    let Address::Tcp(to) = group.local_address() else { unreachable!("it was opened for tcp") };
    for _ in 0..ACCEPTS_PER_BATCH_MAX {
        TcpStream::connect(to).and_then(|mut client| client.write_all(&MESSAGE)).expect("it listens");
    }
    let worker_listener = group.worker_listeners().next().expect("one worker");
    let acceptor = Acceptor::new(worker_listener).expect("it has connections");
    let mut buffer = vec![0; 256 * 1024];
    let mut batch = BatchBuilder::new();
    batch.push(&MESSAGE.repeat(2 * ACCEPTS_PER_BATCH_MAX));
    batch.clear();
    let mut serve = |accepted: Accepted| {
        let peer = accepted.peer.0.map_or(Peer::Unnamed, Peer::Inet);
        let mut stream = TcpStream::from(accepted.stream);
        let mut framer = Whole::new();
        loop {
            match stream.read(&mut buffer).expect("the client has sent all and is gone") {
                0 => break,
                bytes => framer.push(&RULES, &buffer[..bytes], &mut |_| {}),
            }
        }
        framer.finish(&RULES, &mut |frame| take(&mut batch, frame, peer));
    };
    counted(|| {
        acceptor.accept_batch(ACCEPTS_PER_BATCH_MAX, &mut serve).expect("it listens");
    });
    assert_eq!(batch.records() as usize, ACCEPTS_PER_BATCH_MAX, "a connection was not served");
}
