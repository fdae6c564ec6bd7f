//! If this fails, a client ends the server, and again at each start, by a record with the last number that there is.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::protocol::{batch, hello, receive};
use crate::support::{PATIENCE, Setup};

const STREAM: u128 = 0x0b1e_77ed;
/// The number behind it is in no batch.
const LAST: u64 = u64::MAX - 1;

#[test]
fn a_record_with_the_last_number_is_a_message_like_others() {
    // The second server shows what a sink `otlp+http:` makes of it.
    let mut receiver = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    receiver.set_sinks(&["file:{dir}/out.log?format=json"]);
    let receives = receiver.start();
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let otlp = format!("otlp+http://{}", receiver.address(0));
    setup.set_sinks(&["file:{dir}/out.log?format=json", &otlp]);
    let server = setup.start();
    let mut tail = TcpStream::connect(setup.admin()).unwrap();
    tail.set_read_timeout(Some(PATIENCE)).unwrap();
    tail.write_all(
        format!("GET /tail?from=beginning HTTP/1.1\r\nHost: {}\r\n\r\n", setup.admin()).as_bytes(),
    )
    .unwrap();
    let mut client = TcpStream::connect(setup.address(0)).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(&[hello(STREAM), batch(STREAM, LAST, &[b"the last"])].concat()).unwrap();
    let (_welcome, _ack) = (receive(&mut client), receive(&mut client));
    server.wait_delivered_by(0, 1);
    server.wait_delivered_by(1, 1);
    receives.wait_delivered(1);
    for written in [setup.written(), receiver.written()] {
        let written = String::from_utf8(written).unwrap();
        assert!(written.contains("the last") && written.contains(&LAST.to_string()), "{written}");
    }
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("the last") {
        let mut bytes = [0; 4096];
        let read = tail.read(&mut bytes).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&bytes[..read]);
    }
    assert_eq!((server.stop(), receives.stop()), (Some(0), Some(0)), "{}", setup.log());
}
