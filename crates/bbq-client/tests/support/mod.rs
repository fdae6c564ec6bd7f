//! A server whose test sends each frame.

#![expect(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test support; each test file is a crate that uses a part of it"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bbq_client::{AckLevel, Notice, Reconnect, Sender, SenderBuilder};
use bbq_wire::batch::BatchLimits;
use bbq_wire::session::{Hello, Refusal, RefusalCode, ServerSession, ServerStep, Welcome, encode_ack};
use bbq_wire::{Batch, BatchHeader};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// Only a test that hangs takes this long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A batch that the server received.
pub struct Received {
    pub header: BatchHeader,
    pub records: Vec<Vec<u8>>,
    pub bytes: Vec<u8>,
}

/// TCP, or TLS over it.
pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// One connection, from the server's side.
pub struct Connection {
    stream: Box<dyn Stream>,
    session: ServerSession,
    bytes: Vec<u8>,
}

impl Connection {
    /// The listener needs a time-out, as that of a [`Setup`] has.
    pub fn accept(listener: &TcpListener) -> Connection {
        Connection::over(accept(listener))
    }

    pub fn over(stream: impl Stream + 'static) -> Connection {
        Connection {
            stream: Box::new(stream),
            session: ServerSession::new(BatchLimits::FORMAT),
            bytes: Vec::new(),
        }
    }

    pub fn say(&mut self, bytes: &[u8]) {
        // The client may have left.
        let _sent = self.stream.write_all(bytes);
    }

    pub fn hello(&mut self) -> Hello {
        self.hello_if_any().unwrap_or_else(|| panic!("it left before its hello"))
    }

    /// The hello; `None` if the client has left without one, as it does when it is closed.
    pub fn hello_if_any(&mut self) -> Option<Hello> {
        loop {
            match self.session.next(&self.bytes).unwrap() {
                ServerStep::Hello { hello, consumed } => {
                    self.bytes.drain(..consumed);
                    return Some(hello);
                }
                ServerStep::NeedMore { .. } => {
                    if !self.fill() {
                        return None;
                    }
                }
                ServerStep::Batch { .. } => panic!("a batch first"),
            }
        }
    }

    pub fn welcome(&mut self, last_sequence: u64) {
        self.welcome_with(last_sequence, |_| {});
    }

    pub fn welcome_with(&mut self, last_sequence: u64, change: impl FnOnce(&mut Welcome)) {
        let mut welcome = Welcome {
            last_sequence,
            ack: AckLevel::Durable,
            forgotten: false,
            highest: None,
            body_bytes_max: 1 << 20,
            message_bytes_max: 1 << 20,
            server: String::new(),
        };
        change(&mut welcome);
        let mut bytes = Vec::new();
        welcome.encode(&mut bytes);
        self.say(&bytes);
    }

    /// The next batch; `None` if the client has left.
    pub fn batch(&mut self) -> Option<Received> {
        loop {
            let consumed = match self.session.next(&self.bytes).unwrap() {
                ServerStep::Batch { consumed, .. } => Some(consumed),
                ServerStep::NeedMore { .. } => None,
                ServerStep::Hello { .. } => panic!("a second hello"),
            };
            let Some(consumed) = consumed else {
                if !self.fill() {
                    return None;
                }
                continue;
            };
            let bytes: Vec<u8> = self.bytes.drain(..consumed).collect();
            let mut scratch = Vec::new();
            let batch = Batch::verify(&bytes, BatchLimits::FORMAT, &mut scratch).unwrap();
            let (header, records) = (batch.header, batch.records().map(<[u8]>::to_vec).collect());
            return Some(Received { header, records, bytes });
        }
    }

    pub fn ack(&mut self, number: u64) {
        self.say(&encode_ack(number));
    }

    /// Refuses, and waits until the client has left.
    pub fn refuse(mut self, code: RefusalCode) {
        let mut bytes = Vec::new();
        Refusal::new(code, "refused by the test").encode(&mut bytes);
        self.say(&bytes);
        self.left();
    }

    /// Waits until the client has left.
    pub fn left(mut self) {
        // A reset ends the connection, too.
        let _received = self.stream.read_to_end(&mut self.bytes);
    }

    /// What comes until the client ends the connection.
    pub fn rest(mut self) -> std::io::Result<Vec<u8>> {
        self.stream.read_to_end(&mut self.bytes)?;
        Ok(self.bytes)
    }

    fn fill(&mut self) -> bool {
        let mut buffer = [0; 65536];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Err(error) if [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof].contains(&error.kind()) => {
                false
            }
            Err(error) => panic!("{error}"),
            Ok(bytes) => {
                self.bytes.extend_from_slice(&buffer[..bytes]);
                true
            }
        }
    }
}

/// The next connection, with a time-out for reads.
pub fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap_or_else(|error| panic!("no connection came: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Waits until a sender knows that everything up to this record is acknowledged.
pub fn acknowledged(sender: &Sender, record: u64) {
    let start = Instant::now();
    while sender.servers()[0].acknowledged_sequence < record {
        assert!(start.elapsed() < PATIENCE, "{record} is not acknowledged: {:?}", sender.servers());
        std::thread::yield_now();
    }
}

/// The listener of a test, and the notices of its sender.
pub struct Setup {
    pub listener: TcpListener,
    notices: Arc<Mutex<Vec<Notice>>>,
}

impl Setup {
    pub fn new() -> Setup {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // For `accept`; connections have a time-out of their own.
        set_socket_timeout(&listener, Timeout::Recv, Some(PATIENCE)).unwrap();
        Setup { listener, notices: Arc::default() }
    }

    /// A sender that connects again at once.
    pub fn sender(&self) -> SenderBuilder {
        self.sender_to("bbq://")
    }

    /// `scheme` is the beginning of the server's address.
    pub fn sender_to(&self, scheme: &str) -> SenderBuilder {
        let wait = Duration::from_millis(1);
        let notices = Arc::clone(&self.notices);
        Sender::builder()
            .server(format!("{scheme}{}", self.listener.local_addr().unwrap()).parse().unwrap())
            .reconnect(Reconnect { attempts: 1, attempts_min: 1, wait, wait_max: wait })
            .linger(Duration::ZERO)
            .close_timeout(Duration::ZERO)
            .on_notice(move |notice| notices.lock().unwrap().push(notice.clone()))
    }

    pub fn accept(&self) -> Connection {
        Connection::accept(&self.listener)
    }

    /// Accepts a connection, reads its hello and welcomes it.
    pub fn welcome(&self, last_sequence: u64) -> (Connection, Hello) {
        let mut connection = self.accept();
        let hello = connection.hello();
        connection.welcome(last_sequence);
        (connection, hello)
    }

    /// Waits until the sender has told why a server cannot be reached.
    pub fn unreachable(&self) -> String {
        let start = Instant::now();
        loop {
            let why = |notice| if let Notice::Unreachable { why, .. } = notice { Some(why) } else { None };
            if let Some(why) = self.notices().into_iter().find_map(why) {
                return why;
            }
            assert!(start.elapsed() < PATIENCE, "no notice came");
            std::thread::yield_now();
        }
    }

    pub fn notices(&self) -> Vec<Notice> {
        self.notices.lock().unwrap().clone()
    }
}
