//! If this fails, a server that welcomes everybody and refuses what they send, as one with a failed disk does, is asked as fast as
//! its clients can.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use bbq_client::{AckLevel, Reconnect, Sender};
use bbq_wire::session::{Refusal, RefusalCode, Welcome};

const TIMES: u32 = 6;

#[test]
fn a_server_that_welcomes_and_refuses_is_asked_less_and_less_often() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let wait = Duration::from_millis(20);
    let sender = Sender::builder()
        .server(listener.local_addr().unwrap().to_string().parse().unwrap())
        .reconnect(Reconnect { attempts: 1, attempts_min: 1, wait, wait_max: Duration::from_secs(1) })
        .linger(Duration::ZERO)
        .close_timeout(Duration::ZERO)
        .start()
        .unwrap();
    sender.send(b"message").unwrap();
    let start = Instant::now();
    for _ in 0..TIMES {
        let (mut client, _) = listener.accept().unwrap();
        let welcome = Welcome {
            last_sequence: 0,
            ack: AckLevel::Durable,
            body_bytes_max: 1 << 20,
            message_bytes_max: 1 << 20,
            server: String::new(),
        };
        let mut answer = Vec::new();
        welcome.encode(&mut answer);
        Refusal::new(RefusalCode::SpoolFailed, "the disk failed").encode(&mut answer);
        client.write_all(&answer).unwrap();
        // Until the client has left.
        let _sent = client.read_to_end(&mut Vec::new());
    }
    // Waits only make it longer, so that a slow machine changes nothing: half of 40, 80, 160, 320 and 640 ms at least.
    assert!(start.elapsed() >= wait * 31, "{:?}", start.elapsed());
    let present = &sender.servers()[0];
    assert!(present.reconnect.wait > sender.reconnect().wait, "{present:?}");
    // What is set holds at once.
    let gentle = Reconnect { attempts: 2, attempts_min: 2, wait: wait * 2, wait_max: wait * 2 };
    sender.set_reconnect(gentle).unwrap();
    assert_eq!((sender.reconnect(), sender.servers()[0].reconnect.wait), (gentle, wait * 2));
    assert!(sender.set_reconnect(Reconnect { wait: Duration::ZERO, ..gentle }).is_err());
}
