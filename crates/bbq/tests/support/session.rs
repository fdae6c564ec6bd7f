//! A bbq client in single steps: the test decides every byte that it sends (docs/PROTOCOL.md, docs/protocol).

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bbq_wire::batch::{BatchIdentity, crc32c};
use bbq_wire::session::{AckLevel, ClientSession, ClientStep, Hello, Progress, Refusal, Welcome};
use bbq_wire::{BatchBuilder, Compression, SourceKind, StreamId};

use super::PATIENCE;

/// An answer of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Welcome(Welcome),
    Ack(u64),
    Refused(Refusal),
    Closed,
}

pub struct Session {
    pub stream: TcpStream,
    protocol: ClientSession,
    bytes: Vec<u8>,
}

impl Session {
    /// A connection on which nothing was sent.
    pub fn connect(address: SocketAddr) -> Session {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.set_nodelay(true).expect("a socket option");
        Session { stream, protocol: ClientSession::new(), bytes: Vec::new() }
    }

    /// A session that is open for batches, and the last durable sequence.
    pub fn open(address: SocketAddr, id: StreamId) -> (Session, u64) {
        Session::open_at(address, id, AckLevel::Durable)
    }

    /// The same with another level.
    pub fn open_at(address: SocketAddr, id: StreamId, ack: AckLevel) -> (Session, u64) {
        let mut session = Session::connect(address);
        session.write(&hello_at(id, ack));
        match session.next() {
            Answer::Welcome(welcome) => (session, welcome.last_sequence),
            other => panic!("no welcome but {other:?}"),
        }
    }

    /// Writes. A server that has closed the connection is judged by its last answer.
    pub fn write(&mut self, bytes: &[u8]) {
        let _judged_later = self.stream.write_all(bytes);
    }

    /// Ends the sending direction.
    pub fn end(&self) {
        let _judged_later = self.stream.shutdown(Shutdown::Write);
    }

    /// The server's next answer.
    pub fn next(&mut self) -> Answer {
        let mut buffer = [0; 4096];
        loop {
            let (answer, consumed) =
                match self.protocol.next(&self.bytes).expect("the server keeps to the protocol") {
                    ClientStep::NeedMore { .. } => match self.stream.read(&mut buffer) {
                        Ok(0) => return Answer::Closed,
                        Ok(bytes) => {
                            self.bytes.extend_from_slice(&buffer[..bytes]);
                            continue;
                        }
                        // Reads with a time-out are not taken up again by the kernel, signal(7).
                        Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                        Err(error) if error.kind() == ErrorKind::ConnectionReset => return Answer::Closed,
                        Err(error) => panic!("no answer: {error}"),
                    },
                    ClientStep::Welcome { welcome, consumed } => (Answer::Welcome(welcome), consumed),
                    ClientStep::Ack { sequence, consumed } => (Answer::Ack(sequence), consumed),
                    ClientStep::Refused { refusal, consumed } => (Answer::Refused(refusal), consumed),
                };
            self.bytes.drain(..consumed);
            return answer;
        }
    }

    /// The server's next answer to `bytes`, which are written again until there is an answer.
    pub fn next_while_writing(&mut self, bytes: &[u8]) -> Answer {
        let start = Instant::now();
        let mut first = [0];
        // The time until `bytes` are written again; an answer ends the wait.
        self.stream.set_read_timeout(Some(Duration::from_millis(10))).expect("a time-out");
        loop {
            self.write(bytes);
            match self.stream.peek(&mut first) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                _ => break,
            }
            assert!(start.elapsed() < PATIENCE, "it says nothing to what is written");
        }
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        self.next()
    }

    /// Waits until everything up to `sequence` is acknowledged.
    pub fn acknowledged(&mut self, sequence: u64) {
        loop {
            match self.next() {
                Answer::Ack(up_to) if up_to >= sequence => return,
                Answer::Ack(_) => {}
                other => panic!("no ack of {sequence} but {other:?}"),
            }
        }
    }

    /// Waits for the refusal, and for the end after it.
    pub fn refused(mut self, what: &str) -> Refusal {
        loop {
            match self.next() {
                Answer::Ack(_) => {}
                Answer::Refused(refusal) => {
                    assert_eq!(self.next(), Answer::Closed, "{what}: open behind {refusal:?}");
                    return refusal;
                }
                other => panic!("{what}: no refusal but {other:?}"),
            }
        }
    }
}

/// A stream that no other test of this server uses.
pub fn stream_id(number: u8) -> StreamId {
    StreamId([number; 16])
}

pub fn hello(id: StreamId) -> Vec<u8> {
    hello_at(id, AckLevel::Durable)
}

/// A hello that wants another level.
pub fn hello_at(id: StreamId, ack: AckLevel) -> Vec<u8> {
    hello_of(id, |hello| hello.ack = ack)
}

/// A hello that says up to where nothing is sent again.
pub fn hello_with_progress(id: StreamId, done: Option<u64>) -> Vec<u8> {
    hello_of(id, |hello| hello.progress = done.map(|done| Progress { done, is_kept: false }))
}

/// A hello that is changed.
pub fn hello_of(id: StreamId, change: impl FnOnce(&mut Hello)) -> Vec<u8> {
    let mut hello = Hello {
        stream: id,
        ack: AckLevel::Durable,
        client: "a test".to_owned(),
        epoch: 0,
        relays: false,
        token: None,
        progress: None,
    };
    change(&mut hello);
    let mut frame = Vec::new();
    hello.encode(&mut frame);
    frame
}

/// A batch as a client makes it.
pub fn batch<M: AsRef<[u8]>>(id: StreamId, first_sequence: u64, messages: &[M]) -> Vec<u8> {
    batch_of(id, first_sequence, messages, SourceKind::Bbq, Compression::None)
}

pub fn batch_of<M: AsRef<[u8]>>(
    id: StreamId,
    first_sequence: u64,
    messages: &[M],
    source: SourceKind,
    compression: Compression,
) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    messages.iter().for_each(|message| builder.push(message.as_ref()));
    let identity = BatchIdentity { stream: id, first_sequence, base_time_ns: 1, source, compression };
    builder.finish(&identity).expect("there are messages").to_vec()
}

/// A batch of what is in a builder.
pub fn finish(mut builder: BatchBuilder, id: StreamId, first_sequence: u64) -> Vec<u8> {
    let (source, compression) = (SourceKind::Bbq, Compression::None);
    let identity = BatchIdentity { stream: id, first_sequence, base_time_ns: 1, source, compression };
    builder.finish(&identity).expect("there are messages").to_vec()
}

/// Makes the checksum of a mangled batch right again.
pub fn sealed(mut batch: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&batch[8..]);
    batch[4..8].copy_from_slice(&crc.to_le_bytes());
    batch
}

/// Puts bytes into a frame, at an offset.
pub fn with_bytes(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    frame
}
