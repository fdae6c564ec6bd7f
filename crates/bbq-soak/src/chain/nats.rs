//! A client of NATS: it makes the stream, and reads it. It shares no code with the sink.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::book::Book;

pub(super) const STREAM: &str = "CHAIN";
/// The subject of the messages, and that of the progress without the ID.
pub(super) const SUBJECT: &str = "chain.logs";
pub(super) const PROGRESS: &str = "chain.progress";
/// For so long the server recognizes duplicates, in nanoseconds: processes stay away for longer at times.
const DUPLICATE_WINDOW: u64 = 1_000_000_000;
/// How many messages are asked for at a time.
const BATCH: u64 = 1000;
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut client = Client { stream: BufReader::new(stream) };
        let mut info = String::new();
        client.stream.read_line(&mut info)?;
        ensure!(info.starts_with("INFO "), "NATS does not greet: {info}");
        let options = json!({ "verbose": false, "headers": true, "no_responders": true });
        client.write(&format!("CONNECT {options}\r\nSUB reply 1\r\n"))?;
        Ok(client)
    }

    fn write(&mut self, text: &str) -> Result<()> {
        Ok(self.stream.get_mut().write_all(text.as_bytes())?)
    }

    fn request(&mut self, subject: &str, body: &Value) -> Result<()> {
        let body = body.to_string();
        self.write(&format!("PUB {subject} reply {}\r\n{body}\r\n", body.len()))
    }

    /// The next message: headers and payload.
    fn receive(&mut self) -> Result<(Vec<u8>, Vec<u8>)> {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let headers = match words.first() {
                Some(&"PING") => {
                    self.write("PONG\r\n")?;
                    continue;
                }
                Some(&"INFO" | &"PONG") => continue,
                Some(&"MSG") => 0,
                Some(&"HMSG") => words[words.len() - 2].parse()?,
                _ => bail!("NATS says {line:?}"),
            };
            let whole: usize = words[words.len() - 1].parse()?;
            let mut bytes = vec![0; whole + 2];
            self.stream.read_exact(&mut bytes)?;
            bytes.truncate(whole);
            let payload = bytes.split_off(headers);
            return Ok((bytes, payload));
        }
    }

    pub(super) fn api(&mut self, name: &str, body: &Value) -> Result<Value> {
        self.request(&format!("$JS.API.{name}"), body)?;
        let response: Value = serde_json::from_slice(&self.receive()?.1)?;
        ensure!(response.get("error").is_none(), "{name}: {response}");
        Ok(response)
    }

    pub(super) fn create_stream(&mut self, replicas: usize) -> Result<()> {
        let config = json!({
            "name": STREAM,
            "subjects": [SUBJECT, format!("{PROGRESS}.>")],
            "allow_atomic": true,
            "duplicate_window": DUPLICATE_WINDOW,
            "num_replicas": replicas,
        });
        self.api(&format!("STREAM.CREATE.{STREAM}"), &config).map(drop)
    }

    /// Shows the book every message of the stream, in its order.
    pub(super) fn read(&mut self, book: &Book) -> Result<()> {
        let config = json!({
            "ack_policy": "none", "deliver_policy": "all", "filter_subject": SUBJECT, "mem_storage": true, "num_replicas": 1,
        });
        let made = self
            .api(&format!("CONSUMER.CREATE.{STREAM}"), &json!({ "stream_name": STREAM, "config": config }))?;
        let name = made["name"].as_str().context("the consumer has a name")?;
        let mut left = made["num_pending"].as_u64().context("the consumer knows what there is")?;
        while left > 0 {
            let batch = left.min(BATCH);
            self.request(&format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{name}"), &json!({ "batch": batch }))?;
            for _ in 0..batch {
                let (headers, payload) = self.receive()?;
                let is_status = headers.starts_with(b"NATS/1.0 4");
                ensure!(!is_status, "NATS says {}", String::from_utf8_lossy(&headers));
                book.see(&payload);
            }
            left -= batch;
        }
        Ok(())
    }
}
