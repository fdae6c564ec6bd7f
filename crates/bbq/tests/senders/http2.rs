//! If this fails, clients of HTTP/2 and gRPC are not understood, or one that floods its connection with cancelled requests or endless
//! heads takes the memory of the server.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::client::{connect_from, source};
use crate::support::process::{cpu_ticks, peak_kib, resident_kib};
use crate::support::{PATIENCE, Setup, assert_balanced};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A head in HPACK: POST, http, the path, and fields as literals without an index.
fn head(path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
    let mut head = [&[0x83, 0x86, 0x04][..], &text(path), &[0x01], &text("bbq")].concat();
    for (name, value) in fields {
        head.extend([&[0x00][..], &text(name), &text(value)].concat());
    }
    head
}

fn connect(setup: &Setup) -> TcpStream {
    begin(TcpStream::connect(setup.address(0)).expect("it listens"))
}

/// The connection may be closed already.
fn begin(mut stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    let begin = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat();
    let _is_sent = stream.write_all(&begin).is_ok();
    stream
}

/// Reads until the server closes the connection, or a frame of this kind has come for a stream. Returns the frames.
fn read_until(stream: &mut TcpStream, until: impl Fn(u8, u8, u32) -> bool) -> Vec<(u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    loop {
        let mut header = [0; 9];
        if stream.read_exact(&mut header).is_err() {
            return frames;
        }
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let id = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let mut payload = vec![0; length as usize];
        if stream.read_exact(&mut payload).is_err() {
            return frames;
        }
        frames.push((header[3], id, payload));
        if until(header[3], header[4], id) {
            return frames;
        }
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn curl_posts_by_http2_and_http1_to_the_same_listener() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    for version in ["--http2-prior-knowledge", "--http1.1", "--http1.0"] {
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            version,
            "--write-out",
            " %{http_code}",
        ]);
        let url = format!("http://{}/", setup.address(0));
        command.args(["--data-binary", version, &url]).stdout(Stdio::piped());
        let output = command.output().expect("curl is there");
        let answer = String::from_utf8(output.stdout).expect("text");
        assert!(answer.contains("\"taken\":1") && answer.ends_with(" 200"), "{version}: {answer:?}");
    }
    assert_balanced(&server.wait_delivered(3));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_call_of_grpc_stores_log_records() {
    let setup = Setup::new(&["otlp+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let call = |request: &[u8], more: &[(&str, &str)]| {
        let mut stream = connect(&setup);
        let path = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
        let fields = [&[("content-type", "application/grpc"), ("te", "trailers")][..], more].concat();
        let sent =
            [frame(HEADERS, END_HEADERS, 1, &head(path, &fields)), frame(DATA, END_STREAM, 1, request)];
        stream.write_all(&sent.concat()).expect("it reads");
        read_until(&mut stream, |_, flags, id| id == 1 && flags & END_STREAM != 0)
    };
    // resource_logs, scope_logs, log_records, body, string_value.
    let request = [&[0x0a, 14, 0x12, 12, 0x12, 10, 0x2a, 8, 0x0a, 6][..], b"a body"].concat();
    let framed = |flag: u8, message: &[u8]| [&[flag, 0, 0, 0, message.len() as u8], message].concat();
    let compressed = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&request).expect("memory");
        encoder.finish().expect("memory")
    };
    for frames in
        [call(&framed(0, &request), &[]), call(&framed(1, &compressed), &[("grpc-encoding", "gzip")])]
    {
        let data = frames.iter().find(|(kind, id, _)| (*kind, *id) == (DATA, 1)).expect("a message");
        assert_eq!(data.2, [0; 5], "an empty ExportLogsServiceResponse");
        let heads: Vec<_> = frames.iter().filter(|(kind, ..)| *kind == HEADERS).collect();
        assert_eq!(heads.len(), 2, "a head, and the status behind the message: {frames:?}");
    }
    // Refused: a head with the status, and nothing else.
    for wrong in [&framed(0, b"no request")[..], b"", &framed(2, &request), &framed(1, b"no gzip")] {
        let frames = call(wrong, &[("grpc-encoding", "gzip")]);
        assert!(frames.iter().all(|(kind, ..)| *kind != DATA), "{frames:?}");
        assert_eq!(frames.iter().filter(|(kind, ..)| *kind == HEADERS).count(), 1, "{frames:?}");
    }
    assert_balanced(&server.wait_delivered(2));
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"a body\na body\n");
}

#[test]
fn floods_of_resets_and_of_heads_end_their_connection() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]).with(&["--workers", "1"]);
    let server = setup.start();
    let (before, ticks) = (resident_kib(server.pid()), cpu_ticks(server.pid()));
    // Each head opens a request that is cancelled at once.
    let mut resets = connect(&setup);
    let head = head("/", &[]);
    let mut sent = 0;
    for id in (1..400_000_u32).step_by(2) {
        let pair = [frame(HEADERS, END_HEADERS, id, &head), frame(RST_STREAM, 0, id, &8_u32.to_be_bytes())];
        if resets.write_all(&pair.concat()).is_err() {
            break;
        }
        sent += 1;
    }
    assert!(sent < 199_999, "the connection ended");
    // One head that never ends.
    let mut heads = connect(&setup);
    heads.write_all(&frame(HEADERS, 0, 1, &head)).expect("it reads");
    let field = [&[0x00, 1, b'x', 100][..], &[b'y'; 100]].concat().repeat(100);
    let mut sent = 0;
    while sent < 10_000 && heads.write_all(&frame(CONTINUATION, 0, 1, &field)).is_ok() {
        sent += 1;
    }
    assert!(sent < 10_000, "the connection ended");
    let grown = peak_kib(server.pid()) - before;
    assert!(grown < 32 * 1024, "{grown} KiB");
    let spent = cpu_ticks(server.pid()) - ticks;
    assert!(spent < 1000, "{spent} ticks of 10 ms");
    let mut good = connect(&setup);
    let request =
        [frame(HEADERS, END_HEADERS, 1, &self::head("/", &[])), frame(DATA, END_STREAM, 1, b"good")];
    good.write_all(&request.concat()).expect("it reads");
    let frames = read_until(&mut good, |kind, _, id| (kind, id) == (DATA, 1));
    assert!(frames.last().is_some_and(|(.., data)| contains(data, "\"taken\":1")), "{frames:?}");
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0));
}

/// Sends a request, and returns whether it was answered with "taken".
fn post(stream: &mut TcpStream, id: u32) -> bool {
    let request = [frame(HEADERS, END_HEADERS, id, &head("/", &[])), frame(DATA, END_STREAM, id, b"good")];
    stream.write_all(&request.concat()).is_ok()
        && read_until(stream, |kind, _, of| (kind, of) == (DATA, id))
            .last()
            .is_some_and(|(.., data)| contains(data, "\"taken\":1"))
}

#[test]
fn frames_without_a_message_are_read_slowly_and_others_do_not_notice() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut flood = begin(connect_from(source(2), setup.address(0)));
    flood.set_nonblocking(true).expect("a socket");
    let pings = frame(PING, 0, 0, b"12345678").repeat(1000);
    let mut good = connect(&setup);
    let mut requests = 0;
    let status = server.wait_status("the flood is slowed", |status| {
        // What is not read fills the kernel's buffers, and then the flood has to wait.
        while flood.write(&pings).is_ok_and(|written| written > 0) {}
        let mut answers = [0; 65536];
        while flood.read(&mut answers).is_ok_and(|read| read > 0) {}
        assert!(post(&mut good, 2 * requests + 1), "an honest client is served meanwhile");
        requests += 1;
        status["listeners"][0]["ledger"]["slowed"].as_u64() > Some(2)
    });
    assert_eq!(status["problems"], serde_json::json!([]), "{status:#}");
    server.wait_log("HTTP/2 connections of the address send much besides messages");
    assert_eq!(
        setup.log().matches("send much besides messages").count(),
        1,
        "once a minute: {}",
        setup.log()
    );
    server.wait_delivered(requests.into());
    assert_eq!(server.stop(), Some(0));
}

/// Closed without an answer, not even the SETTINGS with which a server begins.
fn is_turned_away(mut stream: TcpStream) -> bool {
    read_until(&mut stream, |_, _, _| false).is_empty()
}

#[test]
fn connections_that_are_read_slowly_let_their_address_have_some_new_ones_only() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let pings = frame(PING, 0, 0, b"12345678").repeat(1000);
    let mut floods: Vec<TcpStream> =
        (0..16).map(|_| begin(connect_from(source(2), setup.address(0)))).collect();
    floods.iter().for_each(|flood| flood.set_nonblocking(true).expect("a socket"));
    let mut good = connect(&setup);
    let mut requests = 0;
    // None of them ends.
    server.wait_status("new ones are turned away", |_| {
        for flood in &mut floods {
            while flood.write(&pings).is_ok_and(|written| written > 0) {}
            let mut answers = [0; 65536];
            while flood.read(&mut answers).is_ok_and(|read| read > 0) {}
        }
        assert!(post(&mut good, 2 * requests + 1), "an honest client is served meanwhile");
        requests += 1;
        let new: Vec<TcpStream> = (0..64).map(|_| begin(connect_from(source(2), setup.address(0)))).collect();
        new.iter().for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Write)));
        new.into_iter().filter_map(|stream| is_turned_away(stream).then_some(())).count() > 0
    });
    server.wait_delivered(requests.into());
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_address_whose_connections_are_floods_is_turned_away_for_a_while_and_others_are_not() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let mut earlier = begin(connect_from(source(2), setup.address(0)));
    assert!(post(&mut earlier, 1), "served before the flood");
    let head = head("/", &[]);
    let resets: Vec<u8> = (0..100)
        .flat_map(|number| {
            let id = 2 * number + 1;
            [frame(HEADERS, END_HEADERS, id, &head), frame(RST_STREAM, 0, id, &8_u32.to_be_bytes())].concat()
        })
        .collect();
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat();
    let flood = |_| {
        let mut stream = connect_from(source(2), setup.address(0));
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        // It may be closed before everything is sent.
        let _is_sent = stream.write_all(&[&preface[..], &resets].concat()).is_ok();
        stream
    };
    let rounds = (1..=20).find(|_| {
        let streams: Vec<TcpStream> = (0..64).map(flood).collect();
        streams.into_iter().filter_map(|stream| is_turned_away(stream).then_some(())).count() > 0
    });
    assert!(rounds.is_some(), "none was turned away\n{}", setup.log());
    assert!(post(&mut earlier, 3), "what is open is not touched");
    assert!(post(&mut connect(&setup), 1), "nor are others");
    // Not at once, and at the latest a second after the last flood, although it goes on connecting, more often than floods may be.
    let mut served = 0;
    server.wait_status("the address is served as before", |_| {
        let connect = || begin(connect_from(source(2), setup.address(0)));
        let streams: Vec<TcpStream> = (0..64).map(|_| connect()).collect();
        let answered =
            streams.into_iter().filter_map(|mut stream| post(&mut stream, 1).then_some(())).count();
        served += answered as u64;
        answered == 64
    });
    server.wait_delivered(3 + served);
    assert_eq!(server.stop(), Some(0));
}
