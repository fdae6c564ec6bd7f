//! A client of NATS for the tests: requests, and what is in a stream. It shares no code with the sink.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

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
        self.try_next().expect("the server responds")
    }

    fn try_next(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = self.queued.pop_front() {
                return Ok(message);
            }
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
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
            self.stream.read_exact(&mut bytes)?;
            bytes.truncate(whole);
            let payload = bytes.split_off(headers);
            let headers = String::from_utf8(bytes).expect("text").replace("\r\n", "\n");
            self.queued.push_back(Message { subject: words[1].to_owned(), headers, payload });
        }
    }

    /// A request; `None` if nobody responds.
    pub(crate) fn request(&mut self, subject: &str, body: &Value) -> Option<Value> {
        self.publish_request(subject, body);
        let message = self.next();
        serde_json::from_slice(&message.payload).ok()
    }

    /// A request to JetStream that nobody may respond to while a cluster has no leader. It is the last on its connection, as a response
    /// may come late.
    pub(crate) fn ask(mut self, name: &str, body: &Value, patience: Duration) -> Option<Value> {
        self.stream.get_ref().set_read_timeout(Some(patience)).ok()?;
        self.publish_request(&format!("$JS.API.{name}"), body);
        let message = self.try_next().ok()?;
        let response: Value = serde_json::from_slice(&message.payload).ok()?;
        response.get("error").is_none().then_some(response)
    }

    fn publish_request(&mut self, subject: &str, body: &Value) {
        self.inboxes += 1;
        let number = self.inboxes;
        self.write(&format!("SUB _INBOX.test.{number} {number}\r\nUNSUB {number} 1\r\n"));
        let body = body.to_string();
        self.write(&format!("PUB {subject} _INBOX.test.{number} {}\r\n{body}\r\n", body.len()));
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
        self.try_read(stream, filter).expect("the server responds")
    }

    /// The same from a cluster, which may forget a request while its leaders change. It is the last on its connection.
    pub(crate) fn read_within(
        mut self,
        stream: &str,
        filter: &str,
        patience: Duration,
    ) -> Option<Vec<Message>> {
        self.stream.get_ref().set_read_timeout(Some(patience)).ok()?;
        self.try_read(stream, filter).ok()
    }

    fn try_read(&mut self, stream: &str, filter: &str) -> io::Result<Vec<Message>> {
        /// How many messages are asked for at a time.
        const BATCH: u64 = 1000;
        let config = json!({
            "ack_policy": "none", "deliver_policy": "all", "filter_subject": filter, "mem_storage": true, "num_replicas": 1,
        });
        let create = json!({ "stream_name": stream, "config": config });
        self.publish_request(&format!("$JS.API.CONSUMER.CREATE.{stream}"), &create);
        let made: Value = serde_json::from_slice(&self.try_next()?.payload)?;
        let name = made["name"].as_str().ok_or_else(|| io::Error::other(made.to_string()))?;
        self.write("SUB _INBOX.read read\r\n");
        let (mut messages, mut left) = (Vec::new(), made["num_pending"].as_u64().expect("a number"));
        while left > 0 {
            let batch = left.min(BATCH);
            let body = json!({ "batch": batch }).to_string();
            let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}");
            self.write(&format!("PUB {next} _INBOX.read {}\r\n{body}\r\n", body.len()));
            for _ in 0..batch {
                let message = self.try_next()?;
                if message.headers.starts_with("NATS/1.0 4") {
                    return Err(io::Error::other(message.headers));
                }
                messages.push(message);
            }
            left -= batch;
        }
        self.write("UNSUB read\r\n");
        Ok(messages)
    }
}
