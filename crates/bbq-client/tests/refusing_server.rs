//! If this fails, clients connect without a pause to a server that welcomes them and refuses their batches, as one with a failed disk does.

mod support;

use std::time::{Duration, Instant};

use bbq_client::Reconnect;
use bbq_wire::session::RefusalCode;
use support::Setup;

const TIMES: u32 = 6;

#[test]
fn a_server_that_welcomes_and_refuses_is_asked_less_and_less_often() {
    let setup = Setup::new();
    let wait = Duration::from_millis(20);
    let reconnect = Reconnect { attempts: 1, attempts_min: 1, wait, wait_max: Duration::from_secs(1) };
    let sender = setup.sender().reconnect(reconnect).start().unwrap();
    sender.send(b"message").unwrap();
    let start = Instant::now();
    for _ in 0..TIMES {
        let mut connection = setup.accept();
        connection.welcome(0);
        connection.refuse(RefusalCode::SpoolFailed);
    }
    // At least half of 40, 80, 160, 320 and 640 ms. A slow machine only makes it longer.
    assert!(start.elapsed() >= wait * 31, "{:?}", start.elapsed());
    let current = &sender.servers()[0];
    assert!(current.reconnect.wait > sender.reconnect().wait, "{current:?}");
    // New values apply at once.
    let gentle = Reconnect { attempts: 2, attempts_min: 2, wait: wait * 2, wait_max: wait * 2 };
    sender.set_reconnect(gentle).unwrap();
    assert_eq!((sender.reconnect(), sender.servers()[0].reconnect.wait), (gentle, wait * 2));
    assert!(sender.set_reconnect(Reconnect { wait: Duration::ZERO, ..gentle }).is_err());
}
