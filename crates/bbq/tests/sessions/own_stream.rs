//! If this fails, a client can send in the stream of a server's own messages, and a server behind it takes those for known.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bbq_wire::{RefusalCode, StreamId};
use serde_json::Value;

use crate::support::Setup;
use crate::support::session::{Session, hello};

#[test]
fn the_stream_of_the_servers_own_messages_is_refused_to_clients() {
    let listen = ["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}", "http+tcp://127.0.0.1:{2}"];
    let setup = Setup::new(&listen).sink_query("?format=json");
    let server = setup.start();
    server.send(1, b"a line\n");
    server.wait_delivered(1);
    let message: Value = serde_json::from_slice(&setup.written()).expect("JSON");
    let stream = message["stream"].as_str().expect("a stream").to_owned();
    let id = u128::from_str_radix(&stream, 16).expect("hexadecimal digits");
    let mut session = Session::connect(setup.address(0));
    session.write(&hello(StreamId(id.to_be_bytes())));
    assert_eq!(session.refused("its stream").code, RefusalCode::NotAllowed);
    let mut http = TcpStream::connect(setup.address(2)).expect("a connection");
    let request = format!(
        "POST / HTTP/1.1\r\nHost: bbq\r\nConnection: close\r\nBBQ-Stream: {stream}\r\nBBQ-Sequence: 9\r\nContent-Length: 1\r\n\r\nx"
    );
    http.write_all(request.as_bytes()).expect("it is sent");
    let mut response = String::new();
    http.read_to_string(&mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    assert!(response.contains("use another id as BBQ-Stream"), "{response}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
