//! If this fails, what senders of GELF send over UDP or TCP is lost, mixed up, or fills the memory of the server.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use serde_json::{Value, json};

use crate::dialects::written;
use crate::support::{PATIENCE, Server, Setup, assert_balanced};

/// Bytes of a message in a chunk.
const CHUNK_BYTES: usize = 100;

fn setup(listen: &[&str]) -> Setup {
    Setup::new(listen).sink_query("?format=json")
}

/// A message of GELF.
fn gelf(message: &str) -> Vec<u8> {
    json!({ "version": "1.1", "host": "web", "short_message": message, "timestamp": 1.5, "level": 4, "_n": 7 })
        .to_string()
        .into_bytes()
}

/// Its chunks.
fn chunks(id: u64, message: &[u8]) -> Vec<Vec<u8>> {
    let parts: Vec<&[u8]> = message.chunks(CHUNK_BYTES).collect();
    let count = u8::try_from(parts.len()).expect("a few");
    let chunk = |(number, part): (u8, &&[u8])| {
        [&[0x1e, 0x0f][..], &id.to_be_bytes(), &[number, count], *part].concat()
    };
    (0..).zip(&parts).map(chunk).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

fn zlib(text: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

/// The messages that the sink has written, sorted.
fn messages(setup: &Setup) -> Vec<String> {
    let text = |record: &Value| record["message"].as_str().expect("text").to_owned();
    let mut messages: Vec<String> = written(setup).iter().map(text).collect();
    messages.sort_unstable();
    messages
}

fn dropped(server: &Server<'_>, reason: &str, count: u64) -> Value {
    server.wait_status(reason, |status| {
        status["listeners"][0]["ledger"]["dropped"][reason].as_u64() >= Some(count)
    })
}

fn udp(setup: &Setup) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(setup.address(0)).expect("an address");
    socket
}

fn tcp(setup: &Setup) -> TcpStream {
    let stream = TcpStream::connect(setup.address(0)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("an option");
    stream
}

#[test]
fn datagrams_come_out_with_their_fields_however_they_are_packed() {
    let setup = setup(&["gelf+udp://127.0.0.1:{0}"]);
    let server = setup.start();
    let socket = udp(&setup);
    socket.send(&gelf("plain")).expect("sent");
    socket.send(&gzip(&gelf("gzip"))).expect("sent");
    socket.send(&zlib(&gelf("zlib"))).expect("sent");
    let long = "long ".repeat(500);
    let mut reversed = chunks(1, &gelf(&long));
    reversed.reverse();
    let noise: String =
        (0..400u32).map(|number| format!("{:x} ", number.wrapping_mul(2_654_435_761))).collect();
    let compressed = chunks(2, &gzip(&gelf(&noise)));
    assert!(reversed.len() > 10 && compressed.len() > 5);
    for chunk in reversed.iter().chain(&compressed) {
        // The network may bring a chunk twice.
        socket.send(chunk).expect("sent");
        socket.send(chunk).expect("sent");
    }
    let status = server.wait_delivered(5);
    assert_balanced(&status);
    assert_eq!(status["listeners"][0]["ledger"]["received"], 5, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    let mut expected = vec!["plain".to_owned(), "gzip".to_owned(), "zlib".to_owned(), long, noise];
    expected.sort_unstable();
    assert_eq!(messages(&setup), expected);
    for record in written(&setup) {
        assert_eq!(record["written"], "1970-01-01T00:00:01.500000000Z");
        assert_eq!(record["fields"], json!({ "host": "web", "level": "4", "_n": "7" }));
    }
}

/// With several workers that share a socket, or to whom single datagrams are given, chunks of a message come to different ones.
#[test]
fn chunks_that_come_to_different_workers_are_one_message() {
    for options in ["spread=packets&distribution=reuseport", "distribution=shared"] {
        let setup = setup(&[&format!("gelf+udp://127.0.0.1:{{0}}?{options}")]).with(&["--workers", "4"]);
        let server = setup.start();
        let socket = udp(&setup);
        let expected: Vec<String> = (0..100).map(|number| format!("{number:0600}")).collect();
        for (id, message) in (0..).zip(&expected) {
            chunks(id, &gelf(message)).iter().for_each(|chunk| assert!(socket.send(chunk).is_ok()));
        }
        let status = server.wait_delivered(100);
        assert_balanced(&status);
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        assert_eq!(messages(&setup), expected);
    }
}

#[test]
fn what_is_not_complete_is_counted_when_its_time_is_over_and_at_a_stop() {
    let setup = setup(&["gelf+udp://127.0.0.1:{0}"]);
    let server = setup.start();
    let socket = udp(&setup);
    let half = |id| {
        let chunks = chunks(id, &gelf(&"x".repeat(300)));
        chunks[1..].iter().for_each(|chunk| assert!(socket.send(chunk).is_ok()));
    };
    half(1);
    let status = dropped(&server, "incomplete", 1);
    assert_balanced(&status);
    half(2);
    socket.send(&gelf("whole")).expect("sent");
    // The datagram behind the half is taken, so the half is, too.
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0));
    // The ledger goes on.
    let server = setup.start();
    let status = server.status();
    assert_eq!(status["ledger"]["dropped"]["incomplete"], 2, "{status:#}");
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn hostile_datagrams_are_counted_and_the_others_are_stored() {
    let setup = setup(&["gelf+udp://127.0.0.1:{0}?message_bytes_max=4KiB"]).with(&["--workers", "1"]);
    let server = setup.start();
    let socket = udp(&setup);
    let bomb = gzip(&vec![b' '; 16 << 20]);
    let chunk =
        |number: u8, count: u8, part: &[u8]| [&[0x1e, 0x0f][..], &[9; 8], &[number, count], part].concat();
    let nested = [b"{\"_a\":".as_slice(), &[b'['; 3000]].concat();
    let malformed: Vec<Vec<u8>> = vec![
        vec![],
        b"<34>1 syslog".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"{".to_vec(),
        vec![0x1f, 0x8b, 8],
        vec![0x78, 0x9c],
        gzip(b"not JSON"),
        zlib(&gelf("cut short"))[..20].to_vec(),
        vec![0x1e, 0x0f],
        chunk(0, 0, b""),
        chunk(3, 3, b""),
        chunk(0, 129, b""),
        nested,
    ];
    let mut count = malformed.len() as u64;
    malformed.iter().for_each(|bytes| assert!(socket.send(bytes).is_ok()));
    // Chunks of a message with different counts.
    socket.send(&chunk(0, 3, b"a")).expect("sent");
    socket.send(&chunk(1, 2, b"b")).expect("sent");
    count += 1;
    let oversize = [bomb.clone(), gelf(&"x".repeat(5000))];
    oversize.iter().for_each(|bytes| assert!(socket.send(bytes).is_ok()));
    // A bomb in chunks.
    let mut id = 100;
    for part in chunks(50, &bomb[..bomb.len().min(128 * CHUNK_BYTES)]) {
        socket.send(&part).expect("sent");
    }
    // What lacks something is stored.
    socket.send(b"{\"_user\":null,\"_a\":{\"b\":[1]}}").expect("sent");
    socket.send(b"{\"short_message\":\"half \\ud800\",\"timestamp\":\"never\"}").expect("sent");
    for _ in 0..3 {
        id += 1;
        chunks(id, &gelf(&"y".repeat(300))).iter().for_each(|chunk| assert!(socket.send(chunk).is_ok()));
    }
    let status = server.wait_delivered(5);
    let ledger = &status["listeners"][0]["ledger"]["dropped"];
    assert_eq!((&ledger["malformed"], &ledger["oversize"]), (&json!(count), &json!(3)), "{status:#}");
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let found = written(&setup);
    assert_eq!(found[0]["message"], "{\"_user\":null,\"_a\":{\"b\":[1]}}");
    assert_eq!(found[0]["fields"], json!({ "_a": "{\"b\":[1]}" }));
    assert_eq!(found[1]["message"], "half \u{fffd}");
}

#[test]
fn a_stranger_with_half_messages_pushes_out_only_its_own() {
    const MARK_EVERY: u64 = 4;
    let setup = setup(&["gelf+udp://127.0.0.1:{0}?message_bytes_max=64KiB"]).with(&["--workers", "1"]);
    let server = setup.start();
    let stranger = UdpSocket::bind("127.0.0.2:0").expect("a socket");
    let socket = udp(&setup);
    let junk = [7; 32_000];
    let (mut marks, mut id) = (0, 0u64);
    // A machine that is busy may take longer than a message may.
    for attempt in 0.. {
        let own = chunks(attempt, &gelf(&"z".repeat(1000)));
        own[1..].iter().for_each(|chunk| assert!(socket.send(chunk).is_ok()));
        for _ in 0..60 {
            id += 1;
            let chunk = [&[0x1e, 0x0f][..], &id.to_be_bytes(), &[0, 128], &junk].concat();
            stranger.send_to(&chunk, setup.address(0)).expect("sent");
            if id.is_multiple_of(MARK_EVERY) {
                // The kernel's buffer is not to be full.
                stranger.send_to(&gelf("a mark"), setup.address(0)).expect("sent");
                marks += 1;
                server.wait_delivered(marks);
            }
        }
        socket.send(&own[0]).expect("sent");
        stranger.send_to(&gelf("a mark"), setup.address(0)).expect("sent");
        marks += 1;
        let status = server.wait_status("a mark", |status| {
            status["ledger"]["delivered"].as_u64().is_some_and(|delivered| delivered >= marks)
        });
        if status["ledger"]["delivered"].as_u64() > Some(marks) {
            break;
        }
        let is_late = status["ledger"]["dropped"]["incomplete"].as_u64() > Some(0);
        assert!(is_late && attempt < 5, "the own message is lost: {status:#}");
    }
    assert_balanced(&dropped(&server, "memory", 20));
    assert_eq!(server.stop(), Some(0));
    assert_eq!(messages(&setup).last().map(String::len), Some(1000));
}

#[test]
fn connections_end_messages_with_nul_or_all_with_line_feeds() {
    let setup = setup(&["gelf+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut with_nul = tcp(&setup);
    for piece in
        [&gelf("one")[..], b"\0", b"{\n \"short_message\": \"two\"\n}\0{\"short_", b"message\":\"three\"}\0"]
    {
        with_nul.write_all(piece).expect("it reads");
    }
    let mut with_lines = tcp(&setup);
    with_lines.write_all(&[&gelf("four")[..], b"\n", &gelf("five"), b"\r\n"].concat()).expect("it reads");
    server.wait_delivered(5);
    // As `echo | nc` sends it.
    let mut last = tcp(&setup);
    last.write_all(&gelf("six")).expect("it reads");
    last.shutdown(Shutdown::Write).expect("it is open");
    server.wait_delivered(6);
    with_nul.write_all(b"{\"short_message\":\"sev").expect("it reads");
    drop(with_nul);
    let status = dropped(&server, "incomplete", 1);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    let mut expected = ["one", "two", "three", "four", "five", "six"];
    expected.sort_unstable();
    assert_eq!(messages(&setup), expected);
}

#[test]
fn hostile_connections_are_counted_or_closed() {
    let setup = setup(&["gelf+tcp://127.0.0.1:{0}?message_bytes_max=1KiB"]).with(&["--workers", "1"]);
    let server = setup.start();
    for hostile in [&gzip(&gelf("compressed"))[..], b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", &[0x16, 0x03, 0x01]]
    {
        let mut stream = tcp(&setup);
        stream.write_all(hostile).expect("it reads");
        // It may be reset, as not everything was read.
        let _closed = stream.read_to_end(&mut Vec::new());
    }
    let mut stream = tcp(&setup);
    let texts = ["[]\0".to_owned(), "\0\0\0".to_owned(), "x\0".to_owned(), "[".repeat(1000) + "\0"];
    texts.iter().for_each(|text| assert!(stream.write_all(text.as_bytes()).is_ok()));
    let long = gelf(&"x".repeat(2000));
    stream.write_all(&[&long[..], b"\0", &gelf("fine"), b"\0"].concat()).expect("it reads");
    let status = server.wait_delivered(1);
    let ledger = &status["listeners"][0]["ledger"];
    assert_eq!((&ledger["refused"], &ledger["dropped"]["malformed"]), (&json!(3), &json!(3)), "{status:#}");
    assert_eq!(ledger["dropped"]["oversize"], 1);
    assert_balanced(&status);
    setup.wait_log("GELF over TCP is not compressed");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(messages(&setup), ["fine"]);
}

#[test]
fn unix_sockets_take_the_same_and_rules_see_the_fields() {
    let setup = setup(&[
        "gelf+unix://{dir}/gelf.sock?where=fields.level == '4'&redact=s/secret/***/",
        "gelf+unixgram://{dir}/gelf.dgram",
    ]);
    let server = setup.start();
    let mut stream = UnixStream::connect(setup.path().join("gelf.sock")).expect("it listens");
    let other = b"{\"short_message\":\"other\",\"level\":7}";
    stream.write_all(&[&gelf("a secret")[..], b"\0", other, b"\0"].concat()).expect("it reads");
    let socket = UnixDatagram::unbound().expect("a socket");
    for chunk in [chunks(1, &gelf(&"b".repeat(200))), vec![zlib(&gelf("c"))]].concat() {
        socket.send_to(&chunk, setup.path().join("gelf.dgram")).expect("sent");
    }
    let status = server.wait_delivered(3);
    assert_eq!(status["listeners"][0]["ledger"]["filtered"], 1, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(messages(&setup), ["a ***".to_owned(), "b".repeat(200), "c".to_owned()]);
}

/// As other text listeners: a kill loses the last messages, and none before them.
#[test]
fn a_kill_loses_nothing_but_the_last_messages_of_a_connection() {
    let setup = setup(&["gelf+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let server = setup.start();
    let mut stream = tcp(&setup);
    let mut number = 0u64;
    let mut send = |stream: &mut TcpStream, messages: u64| {
        for _ in 0..messages {
            number += 1;
            // The server may be gone.
            if stream.write_all(&[&gelf(&format!("{number:09}"))[..], b"\0"].concat()).is_err() {
                return;
            }
        }
    };
    send(&mut stream, 5000);
    server.wait_delivered(5000);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&mut stream, 200_000));
        server.wait_status("some more", |status| status["ledger"]["delivered"].as_u64() >= Some(6000));
        server.kill();
        sending.join().expect("it sends");
    });
    let server = setup.start();
    let status = server.wait_status("delivery", |status| status["ledger"]["queued"] == 0);
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let found = messages(&setup);
    assert!(found.len() >= 6000);
    for (number, message) in (1..).zip(&found) {
        assert_eq!(*message, format!("{number:09}"), "one before the last is missing");
    }
}

#[test]
fn a_reload_keeps_a_half_message_of_a_connection() {
    let setup = setup(&["gelf+tcp://127.0.0.1:{0}"]).config("# a configuration\n");
    let server = setup.start();
    let mut stream = tcp(&setup);
    stream.write_all(&[&gelf("one")[..], b"\0{\"short_mess"].concat()).expect("it reads");
    server.wait_delivered(1);
    std::fs::write(setup.path().join("bbq.toml"), "[spool]\nflush_interval_ms = 5\n").expect("a file");
    server.signal(libc::SIGHUP);
    server.wait_log("reloaded");
    stream.write_all(b"age\":\"two\"}\0").expect("it reads");
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(messages(&setup), ["one", "two"]);
}
