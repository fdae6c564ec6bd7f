//! If this fails, some byte of a message does not arrive as it was sent.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::net::UdpSocket;

use crate::support::Setup;
use crate::support::session::{Session, batch, stream_id};
use data_encoding::BASE64;
use serde_json::Value;

const LISTEN: [&str; 4] = [
    "lines+tcp://127.0.0.1:{0}",
    "whole+tcp://127.0.0.1:{1}",
    "bbq+tcp://127.0.0.1:{2}",
    "whole+udp://127.0.0.1:{3}",
];

/// Each byte value alone between others, pairs of them, and text that only looks like UTF-8.
fn messages() -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = (0..=255).map(|byte| vec![b'<', byte, byte, b'>']).collect();
    messages.push((0..=255).collect());
    messages.push((0..=255).rev().collect());
    let invalid: [&[u8]; 7] = [
        b"\xff\xfe",
        b"a lone continuation \x80",
        b"cut \xe2\x82",
        b"overlong \xc0\xaf",
        b"surrogate \xed\xa0\x80",
        b"past the end \xf4\x90\x80\x80",
        b"a good one \xe2\x82\xac and a bad one \xc3(",
    ];
    messages.extend(invalid.map(<[u8]>::to_vec));
    messages.extend(
        ["", "\u{0}", "\u{feff}\"quoted\\\" \u{2028} \u{1F600}", "\u{1b}[31m"].map(|text| text.into()),
    );
    messages
}

/// Sends all messages over every protocol that can carry them; returns them in the order of the file.
fn send_all(setup: &Setup) -> Vec<Vec<u8>> {
    let server = setup.start();
    let mut sent: Vec<Vec<u8>> = messages().into_iter().filter(|message| !message.contains(&b'\n')).collect();
    server.send(0, &[sent.join(&b'\n'), b"\n".to_vec()].concat());
    server.wait_delivered(sent.len() as u64);
    let whole: Vec<Vec<u8>> = messages().into_iter().filter(|message| !message.is_empty()).collect();
    let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a socket");
    for message in &whole {
        socket.send_to(message, setup.address(3)).expect("it is sent");
    }
    sent.extend_from_slice(&whole);
    server.wait_delivered(sent.len() as u64);
    // One at a time: the order in which two connections are read is not known.
    for message in &whole[256..] {
        server.send(1, message);
        sent.push(message.clone());
        server.wait_delivered(sent.len() as u64);
    }
    let (mut session, _) = Session::open(setup.address(2), stream_id(1));
    session.write(&batch(stream_id(1), 1, &messages()));
    session.acknowledged(messages().len() as u64);
    sent.extend(messages());
    server.wait_delivered(sent.len() as u64);
    sent
}

#[test]
fn raw_output_is_what_was_sent() {
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]);
    let mut expected = Vec::new();
    for message in send_all(&setup) {
        expected.extend_from_slice(&message);
        if message.last() != Some(&b'\n') {
            expected.push(b'\n');
        }
    }
    assert!(setup.written() == expected, "{:?}", String::from_utf8_lossy(&setup.written()));
}

#[test]
fn json_output_has_text_as_text_and_everything_else_in_base64() {
    let setup = Setup::new(&LISTEN).with(&["--workers", "1"]).sink_query("?format=json");
    let sent = send_all(&setup);
    let written = String::from_utf8(setup.written()).expect("JSON is UTF-8");
    let records: Vec<Value> =
        written.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    assert_eq!(records.len(), sent.len());
    for (record, message) in records.iter().zip(&sent) {
        match std::str::from_utf8(message) {
            Ok(text) => {
                assert_eq!(record["message"], text, "{record:#}");
                assert!(record.get("message_base64").is_none(), "{record:#}");
            }
            Err(_) => {
                let text = record["message_base64"].as_str().unwrap_or_else(|| panic!("{record:#}"));
                assert_eq!(&BASE64.decode(text.as_bytes()).expect("base64"), message, "{record:#}");
                assert!(record.get("message").is_none(), "{record:#}");
            }
        }
    }
}
