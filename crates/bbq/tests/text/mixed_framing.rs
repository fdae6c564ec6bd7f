//! If this fails, a message of the other framing, or a wrong count, costs more than its message.

use std::io::Write;
use std::net::TcpStream;

use crate::support::Setup;

/// As relays send them that pass on what they get, and a sender that counts characters.
#[test]
fn the_messages_behind_another_framing_arrive() {
    for (sent, expected) in [
        ("11 <14>app: m1<14>app: m2\n11 <14>app: m3", vec!["m1", "m2", "m3"]),
        ("<14>app: m1\n11 <14>app: m211 <14>app: m3\n<14>app: m4\n", vec!["m1", "m2", "m3", "m4"]),
        ("<14>app: m1\n2026 was a year\n12 monkeys\n", vec!["m1", "2026 was a year", "12 monkeys"]),
    ] {
        let setup = Setup::new(&["syslog+tcp://127.0.0.1:{0}"]);
        let server = setup.start();
        server.send(0, sent.as_bytes());
        server.wait_delivered(expected.len() as u64);
        let written = String::from_utf8(setup.written()).expect("text");
        let messages: Vec<&str> = written.lines().map(|line| line.trim_start_matches("<14>app: ")).collect();
        assert_eq!(messages, expected);
    }
    let setup = Setup::new(&["syslog+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut connection = TcpStream::connect(setup.address(0)).expect("it listens");
    connection
        .write_all("12 <14>app: m1\u{fc}\n11 <14>app: m2\n11 <14>app: m3\n".as_bytes())
        .expect("it is sent");
    server.wait_delivered(4);
    assert!(setup.written().ends_with(b"\n<14>app: m2\n<14>app: m3\n"));
}
