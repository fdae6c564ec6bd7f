//! A client of NATS for the tests: requests, and what is in a stream. It shares no code with the sink.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};

use serde_json::{Value, json};

use crate::support::PATIENCE;

/// A message as a subscriber gets it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) subject: String,
    pub(crate) headers: String,
    pub(crate) payload: Vec<u8>,
}

impl Message {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).expect("text")
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    inboxes: u32,
    /// What came and was not asked for.
    queued: VecDeque<Message>,
}

impl Client {
    /// `None` if the server does not greet.
    pub(crate) fn connect(port: u16, credentials: &Value) -> Option<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut client = Client { stream: BufReader::new(stream), inboxes: 0, queued: VecDeque::new() };
        let mut info = String::new();
        client.stream.read_line(&mut info).ok()?;
        info.strip_prefix("INFO ")?;
        let mut options = json!({ "verbose": false, "headers": true, "no_responders": true });
        for (key, value) in credentials.as_object().into_iter().flatten() {
            options[key] = value.clone();
        }
        client.write(&format!("CONNECT {options}\r\nPING\r\n"));
        let mut pong = String::new();
        client.stream.read_line(&mut pong).ok()?;
        (pong == "PONG\r\n").then_some(client)
    }

    fn write(&mut self, text: &str) {
        self.stream.get_mut().write_all(text.as_bytes()).expect("the server reads");
    }

    pub(crate) fn publish(&mut self, subject: &str, payload: &str) {
        self.write(&format!("PUB {subject} {}\r\n{payload}\r\n", payload.len()));
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Message {
        loop {
            if let Some(message) = self.queued.pop_front() {
                return message;
            }
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("the server responds");
            assert!(!line.is_empty(), "the server closed the connection");
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |word: &&str| word.parse::<usize>().expect("a number");
            let (headers, whole) = match words[0] {
                "MSG" => (0, number(words.last().expect("a size"))),
                "HMSG" => (number(&words[words.len() - 2]), number(&words[words.len() - 1])),
                "PING" => {
                    self.write("PONG\r\n");
                    continue;
                }
                "PONG" | "+OK" | "INFO" => continue,
                _ => panic!("{line}"),
            };
            let mut bytes = vec![0; whole + 2];
            self.stream.read_exact(&mut bytes).expect("the server sends all");
            bytes.truncate(whole);
            let payload = bytes.split_off(headers);
            let headers = String::from_utf8(bytes).expect("text").replace("\r\n", "\n");
            self.queued.push_back(Message { subject: words[1].to_owned(), headers, payload });
        }
    }

    /// A request; `None` if nobody responds.
    pub(crate) fn request(&mut self, subject: &str, body: &Value) -> Option<Value> {
        self.inboxes += 1;
        let number = self.inboxes;
        self.write(&format!("SUB _INBOX.test.{number} {number}\r\nUNSUB {number} 1\r\n"));
        let body = body.to_string();
        self.write(&format!("PUB {subject} _INBOX.test.{number} {}\r\n{body}\r\n", body.len()));
        let message = self.next();
        serde_json::from_slice(&message.payload).ok()
    }

    /// A request to JetStream that must work.
    pub(crate) fn api(&mut self, name: &str, body: &Value) -> Value {
        let response = self.request(&format!("$JS.API.{name}"), body).expect("JetStream responds");
        assert!(response.get("error").is_none(), "{name}: {response}");
        response
    }

    pub(crate) fn create_stream(&mut self, config: &Value) {
        let name = config["name"].as_str().expect("a name");
        self.api(&format!("STREAM.CREATE.{name}"), config);
    }

    /// Everything that is in a stream under a filter, in its order.
    pub(crate) fn read(&mut self, stream: &str, filter: &str) -> Vec<Message> {
        self.inboxes += 1;
        let number = self.inboxes;
        self.write(&format!("SUB _INBOX.read.{number} {number}\r\n"));
        let config = json!({
            "deliver_subject": format!("_INBOX.read.{number}"),
            "ack_policy": "none",
            "deliver_policy": "all",
            "filter_subject": filter,
            "mem_storage": true,
            "num_replicas": 1,
        });
        let create = json!({ "stream_name": stream, "config": config });
        // The first messages may come before the response.
        let response_to = format!("_INBOX.made.{number}");
        let body = create.to_string();
        self.write(&format!("SUB {response_to} 1{number}\r\n"));
        self.write(&format!(
            "PUB $JS.API.CONSUMER.CREATE.{stream} {response_to} {}\r\n{body}\r\n",
            body.len()
        ));
        let (mut messages, mut pending) = (Vec::new(), None);
        while pending.is_none_or(|pending| messages.len() < pending) {
            let message = self.next();
            if message.subject == response_to {
                let made: Value = serde_json::from_slice(&message.payload).expect("JSON");
                assert!(made.get("error").is_none(), "{made}");
                // What was delivered before the response is not pending in it.
                let delivered = made["delivered"]["consumer_seq"].as_u64().expect("a number");
                let waiting = made["num_pending"].as_u64().expect("a number");
                pending = usize::try_from(delivered + waiting).ok();
            } else {
                messages.push(message);
            }
        }
        self.write(&format!("UNSUB {number}\r\n"));
        messages
    }
}
