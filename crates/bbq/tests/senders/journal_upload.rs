//! If this fails, systemd-journal-upload cannot send to bbq, or an entry is lost or stored twice when bbq is killed.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::process::{Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::dialects::{post, written};
use crate::support::program::Program;
use crate::support::unpacked::{journal_remote, journal_upload};
use crate::support::{PATIENCE, Server, Setup, assert_balanced, run};

const LISTENER: &str = "http+tcp://127.0.0.1:{0}";
const EXPORT: &str = "Content-Type: application/vnd.fdo.journal";
const BOOT: &str = "0123456789abcdef0123456789abcdef";

/// Entries in the export format, as a journal has them before it gives them numbers.
fn unnumbered(numbers: Range<u64>) -> String {
    let mut entries = String::new();
    for number in numbers {
        let microseconds = 1_767_225_600_000_000 + number;
        writeln!(
            entries,
            "__REALTIME_TIMESTAMP={microseconds}\n__MONOTONIC_TIMESTAMP={number}\n_BOOT_ID={BOOT}\n\
             _MACHINE_ID=fedcba9876543210fedcba9876543210\nPRIORITY=4\nSYSLOG_IDENTIFIER=shop\nMESSAGE=entry {number}\n"
        )
        .expect("memory");
    }
    entries
}

/// The same with cursors.
fn entries(id: u32, numbers: Range<u64>) -> String {
    let mut entries = String::new();
    for number in numbers {
        let entry = unnumbered(number..number + 1);
        write!(
            entries,
            "__CURSOR=s={id:032x};i={number:x};b={BOOT};m={number:x};t={:x};x=0\n{entry}",
            1_767_225_600_000_000 + number
        )
        .expect("memory");
    }
    entries
}

/// Appends entries to the journal.
fn append(setup: &Setup, numbers: Range<u64>) {
    let directory = setup.path().join("journal");
    fs::create_dir_all(&directory).expect("a directory");
    let file = directory.join("test.journal");
    run(journal_remote().arg("--output").arg(file).arg("-"), unnumbered(numbers).as_bytes());
}

/// Sends the journal from where the last upload has ended, until the journal has no more.
fn upload(setup: &Setup) -> Output {
    start_upload(setup, "no").into_output()
}

struct Uploader(Program);

impl Uploader {
    fn into_output(mut self) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        // It writes little.
        self.0.stdout.take().expect("piped").read_to_end(&mut stdout).expect("it is read");
        self.0.stderr.take().expect("piped").read_to_end(&mut stderr).expect("it is read");
        Output { status: self.0.wait().expect("it was ours"), stdout, stderr }
    }
}

fn start_upload(setup: &Setup, follow: &str) -> Uploader {
    let mut command = journal_upload();
    command
        .arg(format!("--directory={}", setup.path().join("journal").display()))
        .arg(format!("--url=http://{}", setup.address(0)))
        .arg(format!("--save-state={}", setup.path().join("state").display()))
        .arg(format!("--follow={follow}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Uploader(Program::start(&mut command))
}

/// Checks that each entry is there once.
fn assert_each_once(setup: &Setup, numbers: Range<u64>) {
    let mut found: Vec<u64> = String::from_utf8(setup.written())
        .expect("text")
        .lines()
        .map(|line| line.strip_prefix("entry ").and_then(|number| number.parse().ok()).expect(line))
        .collect();
    found.sort_unstable();
    assert!(found.iter().copied().eq(numbers.clone()), "{} of {}", found.len(), numbers.count());
}

fn delivered_at_least(server: &Server<'_>, messages: u64) -> Value {
    server.wait_status("delivery", |status| status["ledger"]["delivered"].as_u64() >= Some(messages))
}

#[test]
fn the_uploader_of_systemd_sends_each_entry_once_through_kills() {
    const ENTRIES: u64 = 30_000;
    // So slow that it is killed in the middle of an upload.
    let slow = format!("{LISTENER}?messages_per_second_per_address_max=10000");
    let setup = Setup::new(&[&slow]).with(&["--workers", "2"]);
    append(&setup, 0..ENTRIES);
    let mut server = setup.start();
    for kill in 1..=2 {
        let uploader = start_upload(&setup, "no");
        delivered_at_least(&server, kill * ENTRIES / 4);
        server.kill();
        let output = uploader.into_output();
        assert!(!output.status.success(), "it was told that everything is stored: {output:?}");
        assert!(!setup.path().join("state").exists(), "an upload was acknowledged");
        server = setup.start();
    }
    let output = upload(&setup);
    assert!(output.status.success(), "{output:?}\n{}", setup.log());
    let status = server.wait_delivered(ENTRIES);
    assert!(status["listeners"][0]["ledger"]["duplicates"].as_u64() >= Some(ENTRIES / 2), "{status:#}");
    // The next upload begins behind the last one.
    append(&setup, ENTRIES..ENTRIES + 10);
    server.kill();
    let server = setup.start();
    let output = upload(&setup);
    assert!(output.status.success(), "{output:?}\n{}", setup.log());
    server.wait_delivered(ENTRIES + 10);
    assert_eq!(server.stop(), Some(0));
    assert_each_once(&setup, 0..ENTRIES + 10);
}

#[test]
fn new_entries_arrive_while_the_uploader_follows_the_journal() {
    let setup = Setup::new(&[LISTENER]);
    append(&setup, 0..5);
    let server = setup.start();
    let uploader = start_upload(&setup, "yes");
    server.wait_delivered(5);
    append(&setup, 5..10);
    server.wait_delivered(10);
    drop(uploader);
    assert_eq!(server.stop(), Some(0));
    assert_each_once(&setup, 0..10);
}

#[test]
fn entries_come_out_as_those_of_a_reader_of_the_journal() {
    let setup = Setup::new(&[LISTENER]).sink_query("?format=json");
    let server = setup.start();
    let mut body = entries(1, 1..2);
    body.push_str("__CURSOR=no cursor\n_HOSTNAME=web\nOTHER=1\nMESSAGE\n");
    let binary = b"two\nlines";
    let body = [body.as_bytes(), &(binary.len() as u64).to_le_bytes(), binary, b"\n\n"].concat();
    for _ in 0..2 {
        assert_eq!(post(&setup, "/upload", &[EXPORT], &body).status, 202);
    }
    // An entry without a number is stored each time.
    server.wait_delivered(3);
    assert_eq!(server.stop(), Some(0));
    let found = written(&setup);
    assert_eq!(found[0]["message"], "entry 1");
    assert_eq!(found[0]["written"], "2026-01-01T00:00:00.000001000Z");
    assert_eq!(found[0]["fields"], json!({ "PRIORITY": "4", "SYSLOG_IDENTIFIER": "shop" }));
    for record in &found[1..] {
        assert_eq!(record["message"], "two\nlines");
        assert_eq!(record["fields"], json!({ "_HOSTNAME": "web" }));
    }
}

#[test]
fn entries_with_gaps_that_come_late_or_of_other_journals_are_all_stored() {
    let setup = Setup::new(&[LISTENER]).with(&["--workers", "3"]);
    let server = setup.start();
    let send = |body: &str| {
        let answer = post(&setup, "/upload", &[EXPORT], body.as_bytes());
        assert_eq!(answer.status, 202, "{:?}", answer.body);
    };
    send(&(entries(1, 101..111) + &entries(1, 121..131)));
    send(&entries(1, 105..125));
    send(&entries(1, 1..101));
    send(&entries(1, 1..131));
    // Another journal has the same numbers.
    send(&entries(2, 1001..1011));
    send(&(entries(2, 1001..1011) + &entries(1, 120..131)));
    server.wait_delivered(140);
    server.kill();
    let server = setup.start();
    send(&(entries(1, 1..131) + &entries(2, 1001..1011)));
    server.wait_delivered(140);
    assert_eq!(server.stop(), Some(0));
    let mut found: Vec<u64> = String::from_utf8(setup.written())
        .expect("text")
        .lines()
        .map(|line| line.strip_prefix("entry ").expect(line).parse().expect("a number"))
        .collect();
    found.sort_unstable();
    assert!(found.into_iter().eq((1..131).chain(1001..1011)));
}

/// A connection that sends a body in chunks.
struct Chunked(BufReader<TcpStream>);

impl Chunked {
    fn begin(setup: &Setup) -> Chunked {
        let stream = TcpStream::connect(setup.address(0)).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        let mut chunked = Chunked(BufReader::new(stream));
        let head =
            format!("POST /upload HTTP/1.1\r\nHost: bbq\r\n{EXPORT}\r\nTransfer-Encoding: chunked\r\n\r\n");
        chunked.write(head.as_bytes());
        chunked
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("it reads");
    }

    fn send(&mut self, bytes: &[u8]) {
        self.write(&[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat());
    }

    /// The line of the status.
    fn status(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        line
    }
}

#[test]
fn a_body_without_an_end_is_stored_while_it_comes() {
    let setup = Setup::new(&[LISTENER]);
    let server = setup.start();
    let mut upload = Chunked::begin(&setup);
    let text = entries(1, 1..11);
    let (front, rest) = text.as_bytes().split_at(text.len() / 2);
    for piece in front.chunks(7) {
        upload.send(piece);
    }
    server.wait_delivered(5);
    upload.send(rest);
    server.wait_delivered(10);
    // Everything is on disk, and nothing is acknowledged, as the request goes on.
    server.kill();
    let server = setup.start();
    let mut upload = Chunked::begin(&setup);
    upload.send(&entries(1, 1..12).into_bytes());
    upload.write(b"0\r\n\r\n");
    assert_eq!(upload.status(), "HTTP/1.1 202 Accepted\r\n");
    server.wait_delivered(11);
    // A stop does not wait for a body that goes on.
    let mut upload = Chunked::begin(&setup);
    upload.send(&entries(1, 12..14).into_bytes());
    server.wait_delivered(13);
    server.signal(libc::SIGTERM);
    assert_eq!(upload.status(), "HTTP/1.1 503 Service Unavailable\r\n");
    assert_eq!(server.wait_end(), Some(0));
    assert_each_once(&setup, 1..14);
}

#[test]
fn what_is_not_the_export_format_is_refused_and_what_is_too_long_is_left_out() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}?message_bytes_max=100"]);
    let server = setup.start();
    let status = |headers: &[&str], body: &[u8]| post(&setup, "/upload", headers, body).status;
    assert_eq!(status(&["Content-Type: text/plain"], b"MESSAGE=a\n\n"), 415);
    assert_eq!(status(&[EXPORT, "Content-Encoding: lz4"], b"MESSAGE=a\n\n"), 415);
    for body in [&b"no format\n\n"[..], b"=a\n\n", b"MESSAGE=cut", b"MESSAGE\n\x05\0\0\0\0\0\0\0ab"] {
        assert_eq!(status(&[EXPORT], body), 400, "{:?}", String::from_utf8_lossy(body));
    }
    let long = format!("MESSAGE={}\n\nPRIORITY=1\n\nMESSAGE=fine\n", "x".repeat(101));
    assert_eq!(status(&[EXPORT], long.as_bytes()), 202);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(b"MESSAGE=compressed\n\n").expect("memory");
    assert_eq!(status(&[EXPORT, "Content-Encoding: gzip"], &encoder.finish().expect("memory")), 202);
    assert_eq!(status(&[EXPORT], b""), 202);
    let status = server.wait_delivered(2);
    let ledger = &status["listeners"][0]["ledger"]["dropped"];
    assert_eq!((&ledger["oversize"], &ledger["malformed"]), (&json!(1), &json!(1)), "{status:#}");
    assert_balanced(&status);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(String::from_utf8(setup.written()).expect("text"), "fine\ncompressed\n");
}

#[test]
fn rules_hold_for_entries() {
    let setup = Setup::new(&[
        "http+tcp://127.0.0.1:{0}?where=fields.SYSLOG_IDENTIFIER == 'shop' && message != 'entry 2'",
    ]);
    let server = setup.start();
    assert_eq!(post(&setup, "/upload", &[EXPORT], entries(1, 1..4).as_bytes()).status, 202);
    let status = server.wait_delivered(2);
    assert_eq!(status["listeners"][0]["ledger"]["filtered"], 1, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(String::from_utf8(setup.written()).expect("text"), "entry 1\nentry 3\n");
}
