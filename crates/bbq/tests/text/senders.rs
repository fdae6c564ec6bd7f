//! If this fails, a message of a program that many use is changed, cut, joined with the next one or lost, because of how that program ends
//! its messages.
//!
//! Each sender writes what the real one writes, by its transport; the output has to be its messages, byte for byte. What is read of their
//! headers is tested with the reader.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};

use serde_json::json;

use crate::support::{Server, Setup, assert_balanced};

const LISTENERS: [&str; 5] = [
    "syslog+udp://127.0.0.1:{0}",
    "syslog+tcp://127.0.0.1:{1}",
    "syslog+unix://{dir}/stream",
    "syslog+unixgram://{dir}/datagram",
    "lines+tcp://127.0.0.1:{4}",
];

#[derive(Clone, Copy)]
enum By {
    Udp,
    /// One connection for all of its writes.
    Tcp,
    Unix,
    Unixgram,
    /// At a listener for lines.
    Lines,
}

struct Sender {
    name: &'static str,
    by: By,
    /// Each is a datagram, or a write.
    writes: &'static [&'static [u8]],
    messages: &'static [&'static [u8]],
}

const SENDERS: [Sender; 16] = [
    Sender {
        name: "log4j2 SyslogAppender with newLine=true: an exception is a message for each line",
        by: By::Tcp,
        writes: &[
            b"<131>1 2026-11-28T10:00:00.123Z h shop 9 Audit [mdc@18060 user=\"x\\]y\"] failed\n",
            b"java.lang.IllegalStateException: x\n\tat com.example.Main.run(Main.java:5)\n",
        ],
        messages: &[
            b"<131>1 2026-11-28T10:00:00.123Z h shop 9 Audit [mdc@18060 user=\"x\\]y\"] failed",
            b"java.lang.IllegalStateException: x",
            b"\tat com.example.Main.run(Main.java:5)",
        ],
    },
    Sender {
        name: "log4j2 with useTlsMessageFormat=true: a count of bytes, and line feeds inside",
        by: By::Tcp,
        writes: &[
            b"56 <131>1 2026-11-28T10:00:00.123Z h shop 9 - - \xc3\xa4\n\tat Main",
            b"44 <134>1 2026-11-28T10:00:01.0Z h s 9 - - next",
        ],
        messages: &[
            b"<131>1 2026-11-28T10:00:00.123Z h shop 9 - - \xc3\xa4\n\tat Main",
            b"<134>1 2026-11-28T10:00:01.0Z h s 9 - - next",
        ],
    },
    Sender {
        name: "logback SyslogAppender: a datagram for each line of a stack trace, with its tab",
        by: By::Udp,
        writes: &[
            b"<11>Nov 28 10:00:00 h [main] com.example.Main failed",
            b"<11>Nov 28 10:00:00 h \tjava.lang.IllegalStateException: x",
            b"<11>Nov 28 10:00:00 h \t\tat com.example.Main.run(Main.java:5)",
        ],
        messages: &[
            b"<11>Nov 28 10:00:00 h [main] com.example.Main failed",
            b"<11>Nov 28 10:00:00 h \tjava.lang.IllegalStateException: x",
            b"<11>Nov 28 10:00:00 h \t\tat com.example.Main.run(Main.java:5)",
        ],
    },
    Sender {
        name: "winston-syslog by tcp with eol, in pieces",
        by: By::Tcp,
        writes: &[b"<134>Nov 28 10:00:00 h node[7]: {\"level\":\"in", b"fo\",\"message\":\"a b \"}\n<134>Nov 28 10:00:00 h node[7]: x\n"],
        messages: &[
            b"<134>Nov 28 10:00:00 h node[7]: {\"level\":\"info\",\"message\":\"a b \"}",
            b"<134>Nov 28 10:00:00 h node[7]: x",
        ],
    },
    Sender {
        name: "winston-syslog to /dev/log, without a line feed",
        by: By::Unixgram,
        writes: &[b"<134>Nov 28 10:00:00 h node[7]: text "],
        messages: &[b"<134>Nov 28 10:00:00 h node[7]: text "],
    },
    Sender {
        name: "Go log/syslog by tcp",
        by: By::Tcp,
        writes: &[b"<14>2026-11-28T10:00:00+01:00 h shop[12]: text\n", b"<14>2026-11-28T10:00:00+01:00 h shop[12]: \n"],
        messages: &[b"<14>2026-11-28T10:00:00+01:00 h shop[12]: text", b"<14>2026-11-28T10:00:00+01:00 h shop[12]: "],
    },
    Sender {
        name: "Go log/syslog to /dev/log: a line feed ends the datagram",
        by: By::Unixgram,
        writes: &[b"<14>Nov 28 10:00:00 shop[12]: text\n"],
        messages: &[b"<14>Nov 28 10:00:00 shop[12]: text"],
    },
    Sender {
        name: "Python's SysLogHandler by udp: a zero byte ends the message, a line feed does not",
        by: By::Udp,
        writes: &[b"<11>shop: Traceback (most recent call last):\n  File \"x.py\", line 1\0"],
        messages: &[b"<11>shop: Traceback (most recent call last):\n  File \"x.py\", line 1"],
    },
    Sender {
        name: "Python's SysLogHandler by tcp",
        by: By::Tcp,
        writes: &[b"<14>first\0<14>second", b"\0"],
        messages: &[b"<14>first", b"<14>second"],
    },
    Sender {
        name: "Python's SysLogHandler to a stream at /dev/log",
        by: By::Unix,
        writes: &[b"<14>first\0", b"<14>second\0"],
        messages: &[b"<14>first", b"<14>second"],
    },
    Sender {
        name: "busybox logger, and syslogd -R with a host",
        by: By::Udp,
        writes: &[b"<13>Nov 28 10:00:00 root: text", b"<13>Nov 28 10:00:00 h root: text\n"],
        messages: &[b"<13>Nov 28 10:00:00 root: text", b"<13>Nov 28 10:00:00 h root: text"],
    },
    Sender {
        name: "util-linux logger --octet-count",
        by: By::Tcp,
        writes: &[b"49 <13>1 2026-11-28T10:00:00.5+01:00 h u - - - text "],
        messages: &[b"<13>1 2026-11-28T10:00:00.5+01:00 h u - - - text "],
    },
    Sender {
        name: "nginx: quotes, a blank at the end",
        by: By::Udp,
        writes: &[b"<190>Nov 28 10:00:00 h nginx: 192.0.2.1 - - [28/Nov/2026:10:00:00 +0000] \"GET /?a=[b] HTTP/1.1\" 200 5 \"-\" \"a \\x22b\\x22\" "],
        messages: &[b"<190>Nov 28 10:00:00 h nginx: 192.0.2.1 - - [28/Nov/2026:10:00:00 +0000] \"GET /?a=[b] HTTP/1.1\" 200 5 \"-\" \"a \\x22b\\x22\" "],
    },
    Sender {
        name: "HAProxy by udp: it ends its lines with a line feed",
        by: By::Udp,
        writes: &[b"<134>Nov 28 10:00:00 haproxy[14389]: 10.0.1.2:33317 [06/Feb/2026:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} \"GET / HTTP/1.1\"\n"],
        messages: &[b"<134>Nov 28 10:00:00 haproxy[14389]: 10.0.1.2:33317 [06/Feb/2026:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} \"GET / HTTP/1.1\""],
    },
    Sender {
        name: "HAProxy through a ring: the count includes the line feed at the end, which is no part of the message",
        by: By::Tcp,
        writes: &[b"46 <134>1 2026-11-28T10:00:00Z h haproxy 7 - - a\n46 <134>1 2026-11-28T10:00:00Z h haproxy 7 - - b\n"],
        messages: &[b"<134>1 2026-11-28T10:00:00Z h haproxy 7 - - a", b"<134>1 2026-11-28T10:00:00Z h haproxy 7 - - b"],
    },
    Sender {
        name: "logstash, and whoever writes lines of JSON with CR LF",
        by: By::Lines,
        writes: &[b"{\"message\":\"a \\u00e4 ", b"\"}\r\n\r\n{\"message\":\"\xe4\"}\r\n"],
        messages: &[b"{\"message\":\"a \\u00e4 \"}", b"", b"{\"message\":\"\xe4\"}"],
    },
];

fn write_all(mut stream: impl Write, writes: &[&[u8]]) {
    for bytes in writes {
        stream.write_all(bytes).expect("it reads");
    }
}

fn send(server: &Server<'_>, sender: &Sender) {
    let setup = server.setup;
    let tcp = |listener: usize| TcpStream::connect(setup.address(listener)).expect("it listens");
    match sender.by {
        By::Udp => {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            for datagram in sender.writes {
                socket.send_to(datagram, setup.address(0)).expect("loopback takes it");
            }
        }
        By::Tcp => write_all(tcp(1), sender.writes),
        By::Unix => {
            write_all(UnixStream::connect(setup.path().join("stream")).expect("it listens"), sender.writes);
        }
        By::Unixgram => {
            let socket = UnixDatagram::unbound().expect("a socket");
            for datagram in sender.writes {
                socket.send_to(datagram, setup.path().join("datagram")).expect("it reads");
            }
        }
        By::Lines => write_all(tcp(4), sender.writes),
    }
}

#[test]
fn what_they_write_comes_out_byte_for_byte() {
    let setup = Setup::new(&LISTENERS).with(&["--workers", "1"]);
    let server = setup.start();
    let mut written = 0;
    let mut delivered = 0;
    for sender in &SENDERS {
        send(&server, sender);
        delivered += sender.messages.len() as u64;
        server.wait_delivered(delivered);
        let all = setup.written();
        let expected: Vec<u8> =
            sender.messages.iter().flat_map(|message| [message, &b"\n"[..]].concat()).collect();
        assert_eq!(
            String::from_utf8_lossy(&all[written..]),
            String::from_utf8_lossy(&expected),
            "{}",
            sender.name
        );
        assert!(all[written..] == expected, "{}", sender.name);
        written = all.len();
    }
    let status = server.status();
    assert_eq!(status["ledger"]["dropped"], json!({}), "{status:#}");
    assert_balanced(&status);
}
