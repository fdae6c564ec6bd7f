//! If this fails, a resolver gets a wrong answer from `dns_cache` or none.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::example::{Example, command};
use crate::taken::wait_until_taken;

const ZONE: &str = r#"$ORIGIN example.org.
$TTL 1h
@       IN SOA ns1 hostmaster (
            2026112001 ; serial
            2h 30m 2w 300 )
        NS  ns1
        MX  10 mail
        TXT "v=spf1 -all" plain "with \"quotes\""
ns1     A 192.0.2.1
www 60 IN A 192.0.2.10
        AAAA 2001:db8::10
alias   CNAME WWW
out     CNAME elsewhere.example.net.
deep.a  A 192.0.2.3
"#;

#[test]
fn dig_is_content() {
    let server = start("auto");
    for (question, wanted) in [
        ("www.example.org A", "192.0.2.10"),
        ("wWw.eXample.org AAAA", "2001:db8::10"),
        ("example.org MX", "10 mail.example.org."),
        ("example.org NS", "ns1.example.org."),
        ("example.org TXT", r#""v=spf1 -all" "plain" "with \"quotes\"""#),
        ("example.org SOA", "ns1.example.org. hostmaster.example.org. 2026112001 7200 1800 1209600 300"),
        ("alias.example.org A", "WWW.example.org.\n192.0.2.10"),
        ("out.example.org A", "elsewhere.example.net."),
        ("big.example.org TXT +notcp +ignore", ""),
        ("www.example.org A +tcp", "192.0.2.10"),
        ("www.example.org A +noedns", "192.0.2.10"),
    ] {
        assert_eq!(dig(&server, &format!("+short {question}")).trim(), wanted, "{question}");
    }
    for (question, wanted) in [
        ("nobody.example.org A", &["status: NXDOMAIN", "AUTHORITY: 1", "300\tIN\tSOA"][..]),
        ("www.example.org MX", &["status: NOERROR", "ANSWER: 0", "300\tIN\tSOA"]),
        ("a.example.org A", &["status: NOERROR", "ANSWER: 0"]),
        ("example.com A", &["status: REFUSED"]),
        ("www.example.org A", &["flags: qr aa rd;", "60\tIN\tA", "EDNS: version: 0"]),
        ("www.example.org A +edns=1 +noednsnegotiation", &["status: BADVERS"]),
        ("www.example.org A +opcode=status", &["status: NOTIMP"]),
        ("big.example.org TXT +ignore", &["flags: qr aa tc rd;", "ANSWER: 0"]),
        ("big.example.org TXT", &["Truncated, retrying in TCP mode", "ANSWER: 20", "(TCP)"]),
    ] {
        let said = dig(&server, question);
        assert!(wanted.iter().all(|text| said.contains(text)), "{question}: {wanted:?} is not in {said}");
    }
    let ended = server.terminate();
    // Two workers, each by udp and by tcp.
    assert!(ended.success && ended.workers.len() == 4, "{:?}", ended.workers);
}

#[test]
fn every_distribution_answers() {
    for distribution in ["auto", "reuseport", "shared", "duplicate=2"] {
        let server = start(distribution);
        for _ in 0..10 {
            assert_eq!(dig(&server, "+short www.example.org A").trim(), "192.0.2.10", "{distribution}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_a_format_error_and_what_is_no_query_is_not_answered() {
    let server = start("shared");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    let header = |flags: u8, questions: u8| [7, 8, flags, 0, 0, questions, 0, 0, 0, 0, 0, 0].to_vec();
    // No query: too short; a response. They must not be answered, so the next answer is that of the next query.
    socket.send(&[1, 2, 3]).unwrap();
    socket.send(&header(0x80, 1)).unwrap();
    for (what, tail) in [
        ("no question", &[][..]),
        ("a name that is cut", &[3, b'w', b'w'][..]),
        ("a pointer in the question", &[0xC0, 12, 0, 1, 0, 1][..]),
        ("a label that is too long", &[64, 0, 0, 1, 0, 1][..]),
        ("no class", &[0, 0, 1][..]),
    ] {
        let query = [&header(0x01, 1)[..], tail].concat();
        assert_eq!(ask(&socket, &query)[..4], [7, 8, 0x81, 1], "{what}");
    }
    let two = [&header(0x01, 2)[..], &[0, 0, 1, 0, 1], &[0, 0, 1, 0, 1]].concat();
    assert_eq!(ask(&socket, &two)[3], 1, "two questions");
    let cut_record = [&[7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1][..], &[0, 0, 1, 0, 1], &[0, 0, 41, 4]].concat();
    assert_eq!(ask(&socket, &cut_record)[3], 1, "a record that is cut");
}

#[test]
fn queries_that_come_together_by_tcp_are_answered() {
    let server = start("shared");
    let mut stream = server.connect();
    let query = [&[0, 17, 7, 8, 1, 0, 0, 1][..], &[0; 6], &[0, 0, 1, 0, 1]].concat();
    stream.write_all(&query.repeat(2)).unwrap();
    for _ in 0..2 {
        let mut answer = [0; 19];
        stream.read_exact(&mut answer).unwrap();
        // REFUSED: the root is not in the zone.
        assert_eq!(answer[..6], [0, 17, 7, 8, 0x81, 5]);
    }
}

/// One of four workers is blocked for two seconds, and some of 400 queries, each from a port of its own, come to its socket.
#[test]
fn no_query_waits_for_a_blocked_worker() {
    const QUERIES: usize = 400;
    for distribution in ["reuseport", "shared", "duplicate=2"] {
        let server = start_with(&["--distribution", distribution, "--workers", "4", "--allow-block"]);
        let blocking = asking(&server);
        let began = Instant::now();
        blocking.send(&query("block-2000")).unwrap();
        wait_until_taken(server.address);
        let wait = || {
            let began = Instant::now();
            assert_eq!(ask(&asking(&server), &query("www"))[3], 0);
            began.elapsed()
        };
        let mut waits: Vec<Duration> = std::thread::scope(|threads| {
            let some = || (0..QUERIES / 8).map(|_| wait()).collect::<Vec<_>>();
            let clients: Vec<_> = (0..8).map(|_| threads.spawn(some)).collect();
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        waits.sort_unstable();
        let longest = waits[QUERIES - 1];
        println!("{distribution}: median {:?}, longest {longest:?}", waits[QUERIES / 2]);
        // As for the connections of http_ok: a busy machine may be late with a few, and far less than two seconds.
        let late = waits.iter().filter(|wait| **wait > Duration::from_millis(50)).count();
        assert!(late <= QUERIES / 50, "{distribution}: {late} waited more than 50 ms");
        assert!(longest < Duration::from_secs(1), "{distribution}: {longest:?}");
        assert_eq!(receive(&blocking)[3], 3, "there is no such name");
        assert!(began.elapsed() >= Duration::from_secs(2), "{distribution}: nobody was blocked");
    }
}

#[test]
fn nobody_blocks_a_worker_unless_it_is_allowed() {
    let server = start("shared");
    let began = Instant::now();
    assert_eq!(ask(&asking(&server), &query("block-3000"))[3], 3);
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_mistake_in_the_zone_is_named_with_its_line() {
    for (zone, wanted) in [
        ("www A 192.0.2.1\n", "line 1: \"www\" is relative"),
        ("$ORIGIN example.org.\n\nwww A 192.0.2.1\n", "line 3: there is no TTL"),
        ("$TTL 60\nwww. A 192.0.2.300\n", "line 2: \"192.0.2.300\" is not an IPv4 address"),
        ("$TTL 60\na. TXT ( \"x\"\n", "line 2: a parenthesis is not closed"),
        ("$TTL 60\na. TXT \"x\n", "line 2: a quote has no end"),
        ("$TTL 60\na. A 192.0.2.1\na. CNAME b.\n", "line 3: a name with a CNAME has no other records"),
        ("$TTL 60\na. WKS x\n", "line 2: \"WKS\" is no type"),
        ("$INCLUDE other\n", "line 1: $INCLUDE is not supported"),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), zone).unwrap();
        let mut command = command("dns_cache");
        command.args(["--listen", "127.0.0.1:0", "--zone"]).arg(file.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(wanted), "{zone:?}: {said}");
    }
}

fn start(distribution: &str) -> Example {
    start_with(&["--distribution", distribution, "--workers", "2"])
}

fn start_with(options: &[&str]) -> Example {
    let big: String = (0..20).map(|index| format!("big TXT \"{index:0200}\"\n")).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{ZONE}{big}")).unwrap();
    let zone = file.path().to_str().unwrap();
    // The zone is in memory when it listens, so the file may go.
    Example::start("dns_cache", &[&["--zone", zone], options].concat())
}

fn dig(server: &Example, question: &str) -> String {
    let port = server.address.port().to_string();
    let mut dig = Command::new("dig");
    // It asks for a port of its own with SO_REUSEPORT: from the server's address it may get the server's port, and answer itself.
    let from = ["-b", "127.0.0.2"];
    dig.args(["@127.0.0.1", "-p", &port, "+tries=1", "+time=10"]).args(from).args(question.split(' '));
    String::from_utf8(dig.output().unwrap().stdout).unwrap()
}

/// A query for the A of a name below example.org.
fn query(label: &str) -> Vec<u8> {
    let header = [7, 8, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let name = [&[label.len() as u8][..], label.as_bytes(), b"\x07example\x03org\x00"].concat();
    [&header[..], &name, &[0, 1, 0, 1]].concat()
}

fn asking(server: &Example) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.address).unwrap();
    socket
}

fn ask(socket: &UdpSocket, query: &[u8]) -> Vec<u8> {
    socket.send(query).unwrap();
    receive(socket)
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = vec![0; 4096];
    let length = loop {
        match socket.recv(&mut answer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => break received.unwrap(),
        }
    };
    answer.truncate(length);
    answer
}
