//! If this fails, the JSON of a message lacks a field, or has it under another name.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;

use crate::support::Setup;
use crate::support::session::{Session, batch, stream_id};
use serde_json::{Value, json};

const LISTEN: [&str; 3] =
    ["lines+tcp://127.0.0.1:{0}", "syslog+udp://127.0.0.1:{1}", "bbq+tcp://127.0.0.1:{2}"];

fn records(setup: &Setup) -> Vec<Value> {
    let written = String::from_utf8(setup.written()).expect("JSON is UTF-8");
    written.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn setup() -> Setup {
    Setup::new(&LISTEN).with(&["--workers", "1"]).sink_query("?format=json")
}

#[test]
fn where_a_message_came_from() {
    let setup = setup();
    let server = setup.start();
    let mut stream = TcpStream::connect(setup.address(0)).expect("it listens");
    stream.write_all(b"first\nsecond\n").expect("it reads");
    server.wait_delivered(2);
    let (mut session, _) = Session::open(setup.address(2), stream_id(0xab));
    session.write(&batch(stream_id(0xab), 7, &["third"]));
    session.acknowledged(7);
    server.wait_delivered(3);
    let records = records(&setup);
    let peer = |stream: &TcpStream| stream.local_addr().expect("it is connected").to_string();
    for (record, (message, listener, peer)) in records.iter().zip([
        ("first", 0, peer(&stream)),
        ("second", 0, peer(&stream)),
        ("third", 2, peer(&session.stream)),
    ]) {
        assert_eq!(record["message"], message, "{record:#}");
        assert_eq!(record["listener"], setup.fill(LISTEN[listener]), "{record:#}");
        assert_eq!(record["peer"], peer, "{record:#}");
        assert_eq!(record["worker"], 0, "{record:#}");
        let time = record["time"].as_str().expect("a time");
        assert!(time.len() == 30 && time.ends_with('Z'), "{record:#}");
        assert!(record.get("facility").is_none() && record.get("msg").is_none(), "{record:#}");
    }
    assert_eq!((&records[0]["sequence"], &records[1]["sequence"]), (&json!(1), &json!(2)));
    assert_eq!(records[0]["stream"], records[1]["stream"]);
    assert_eq!((&records[2]["sequence"], &records[2]["stream"]), (&json!(7), &json!("ab".repeat(16))));
}

fn assert_fields(record: &Value, expected: &Value) {
    for (key, value) in expected.as_object().expect("fields") {
        assert_eq!(&record[key], value, "{key}: {record:#}");
    }
}

#[test]
fn the_header_of_a_syslog_message() {
    let setup = setup();
    let server = setup.start();
    let messages = [
        "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog 8710 ID47 \
         [exampleSDID@32473 iut=\"3\" eventSource=\"Application\"] An application event",
        "<34>Oct 11 22:14:15 mymachine su[231]: 'su root' failed for lonvick on /dev/pts/8",
        "no syslog at all",
    ];
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    for (count, message) in (1..).zip(messages) {
        socket.send_to(message.as_bytes(), setup.address(1)).expect("it is sent");
        server.wait_delivered(count);
    }
    let records = records(&setup);
    for (record, message) in records.iter().zip(messages) {
        assert_eq!(record["message"], message, "the message itself is untouched: {record:#}");
    }
    assert_fields(
        &records[0],
        &json!({
            "facility": "local4", "severity": "notice", "hostname": "mymachine.example.com", "appname": "evntslog",
            "procid": "8710", "msgid": "ID47", "msg": "An application event",
            "structured_data": {"exampleSDID@32473": {"iut": "3", "eventSource": "Application"}},
        }),
    );
    assert!(records[0]["timestamp"].as_str().is_some_and(|time| time.starts_with("2003-10-11T22:14:15.003")));
    assert_fields(
        &records[1],
        &json!({
            "facility": "auth", "severity": "crit", "hostname": "mymachine", "appname": "su", "procid": "231",
            "msg": "'su root' failed for lonvick on /dev/pts/8",
        }),
    );
    assert_fields(&records[2], &json!({ "msg": "no syslog at all", "severity": null }));
}

/// Whatever a sender writes into its header, its text comes out, by every transport.
#[test]
fn a_syslog_text_comes_out_whole_by_every_transport() {
    let setup = Setup::new(&[
        "syslog+udp://127.0.0.1:{0}",
        "syslog+tcp://127.0.0.1:{1}",
        "syslog+unixgram://{dir}/syslog.socket",
    ])
    .sink_query("?format=json");
    let server = setup.start();
    let header = "<14>1 2026-10-11T22:14:15Z h app 1 ID";
    let sent = [
        (
            format!("{header} [action:\"Accept\"; src:\"192.0.2.1\"]"),
            json!("[action:\"Accept\"; src:\"192.0.2.1\"]"),
            json!(null),
        ),
        (format!("{header} [a b=c] text"), json!("[a b=c] text"), json!(null)),
        (
            format!("{header} [win path=\"C:\\new\\temp\"] text"),
            json!("text"),
            json!({"win": {"path": "C:\\new\\temp"}}),
        ),
        (
            format!("{header} [o ip=\"192.0.2.1\" ip=\"192.0.2.2\"] text"),
            json!("text"),
            json!({"o": {"ip": ["192.0.2.1", "192.0.2.2"]}}),
        ),
        (format!("{header} - \tat com.example.Foo  "), json!("\tat com.example.Foo  "), json!(null)),
        (
            "<14>1 2026-10-11T22:14:15+0200 h app 1 ID [a b=\"c\"] text".to_owned(),
            json!("text"),
            json!({"a": {"b": "c"}}),
        ),
        ("<14>Oct 11 22:14:15 h app[7]:     indented".to_owned(), json!("    indented"), json!(null)),
        (
            "<14>1 yesterday at all my troubles".to_owned(),
            json!("1 yesterday at all my troubles"),
            json!(null),
        ),
    ];
    let udp = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    let unix = UnixDatagram::unbound().expect("a socket");
    let mut tcp = TcpStream::connect(setup.address(1)).expect("a connection");
    let mut count = 0;
    for (message, ..) in &sent {
        udp.send_to(message.as_bytes(), setup.address(0)).expect("it is sent");
        server.wait_delivered(count + 1);
        unix.send_to(message.as_bytes(), setup.path().join("syslog.socket")).expect("it is sent");
        server.wait_delivered(count + 2);
        tcp.write_all(format!("{} {message}", message.len()).as_bytes()).expect("it is sent");
        count += 3;
        server.wait_delivered(count);
    }
    let records = records(&setup);
    assert_eq!(records.len(), 3 * sent.len());
    for (record, (message, msg, data)) in records.iter().zip(sent.iter().flat_map(|sent| [sent; 3])) {
        assert_eq!(record["message"], *message);
        assert_eq!((&record["msg"], &record["structured_data"]), (msg, data), "{record:#}");
    }
}
