//! If this fails, a sender of GELF cannot send to bbq over HTTP, or is told that a message is stored which is not.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::json;

use crate::dialects::{post, written};
use crate::support::{Setup, assert_balanced};

#[test]
fn messages_come_out_with_their_fields() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}?message_bytes_max=1KiB"])
        .sink_query("?format=json")
        .with(&["--workers", "1"]);
    let server = setup.start();
    let message = br#"{"version":"1.1","host":"web","short_message":"short","full_message":"the whole","timestamp":1.5,"level":4,"_user":7}"#;
    let answer = post(&setup, "/gelf", &[], message);
    assert_eq!((answer.status, answer.body), (202, json!(null)));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(b"{\"short_message\":\"deflated\"}").expect("memory");
    let deflated = encoder.finish().expect("memory");
    // pygelf says the second, and others say nothing.
    for headers in [&["Content-Encoding: deflate"][..], &["Content-Encoding: gzip,deflate"], &[]] {
        assert_eq!(post(&setup, "/gelf", headers, &deflated).status, 202);
    }
    let long = format!("{{\"short_message\":\"{}\"}}", "x".repeat(1025));
    for (body, status) in [("", 400), ("[]", 400), ("{\"host\":\"a\"}", 400), (long.as_str(), 413)] {
        assert_eq!(post(&setup, "/gelf", &[], body.as_bytes()).status, status, "{body}");
    }
    assert_balanced(&server.wait_delivered(4));
    assert_eq!(server.stop(), Some(0));
    let all = written(&setup);
    assert_eq!(all[0]["message"], "short\nthe whole");
    assert_eq!(all[0]["written"], "1970-01-01T00:00:01.500000000Z");
    assert_eq!(all[0]["fields"], json!({ "host": "web", "level": "4", "_user": "7" }));
    assert!(all[1..].iter().all(|record| record["message"] == "deflated"));
}
