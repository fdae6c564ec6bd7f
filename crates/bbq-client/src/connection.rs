//! The thread that keeps a connection: connects, says hello, writes batches, and begins anew when it breaks. Another
//! thread, as long as the connection, reads acknowledgements.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use bbq_wire::session::{ClientSession, ClientStep, Hello, Welcome};
use socket2::{SockRef, TcpKeepalive};

use crate::backoff::Backoff;
use crate::queue::{Queue, Work};
use crate::{Notice, SendError, ServerAddress};

/// A server that does not even say hello in this time is not there. It may have to sync what came over an earlier
/// connection first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that lost its power says nothing any more, and who only waits for acknowledgements would never notice: the
/// system asks after so long without a sign, and a server that is up again then says that it knows nothing of this
/// connection.
const KEEPALIVE_TIME: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Acknowledgements are 24 bytes.
const READ_BYTES: usize = 4096;

/// Why a connection was of no use.
enum Trouble {
    /// Worth another try; what happened.
    Passing(String),
    /// For good.
    Final(SendError),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Passing(error.to_string())
    }
}

/// A stream of either kind.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Keeps a connection until everything is acknowledged or nothing can be.
pub(crate) fn keep(queue: &Arc<Queue>, reconnects: &AtomicU64, pause: &Pause) {
    let seed = u64::from_le_bytes(queue.stream().0.first_chunk::<8>().copied().unwrap_or_default());
    let mut backoff = Backoff::new(seed);
    let mut server = 0;
    // Whether the last notice was good news; a change is told, not each try.
    let mut told = None;
    while !queue.is_done() {
        let servers = &queue.options().servers;
        let (_, acknowledged_before) = queue.counts();
        match serve(queue, &servers[server % servers.len()], &mut told) {
            Ok(()) => return,
            Err(Trouble::Final(error)) => return queue.fail(error),
            Err(Trouble::Passing(why)) => {
                let server = servers[server % servers.len()].to_string();
                tell(queue, &mut told, &Notice::Unreachable { server, why });
            }
        }
        // A welcome alone is no success: a server whose disk failed welcomes, too, and then refuses.
        if queue.counts().1 > acknowledged_before {
            backoff.succeeded();
        }
        reconnects.fetch_add(1, Ordering::Relaxed);
        server += 1;
        pause.wait(backoff.failed());
    }
}

/// A pause that the end of the sender cuts short.
#[derive(Default)]
pub(crate) struct Pause {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Pause {
    pub(crate) fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self, timeout: Duration) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _unused = self.changed.wait_timeout_while(ended, timeout, |ended| !*ended);
    }
}

/// Tells the application when good became bad or bad became good.
fn tell(queue: &Queue, told: &mut Option<bool>, notice: &Notice) {
    let good = matches!(notice, Notice::Connected { .. });
    if told.replace(good) != Some(good)
        && let Some(handler) = &queue.options().notice
    {
        (handler.0)(notice);
    }
}

/// One connection from its beginning to its end; `Ok` when all is done.
fn serve(queue: &Arc<Queue>, address: &ServerAddress, told: &mut Option<bool>) -> Result<(), Trouble> {
    let mut stream = Stream::connect(address)?;
    let mut reader = Reader { session: ClientSession::new(), bytes: Vec::new(), server: address.to_string() };
    let hello =
        Hello { stream: queue.stream(), ack: queue.options().ack, client: queue.options().name.clone() };
    let mut frame = Vec::new();
    hello.encode(&mut frame);
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(&frame)?;
    let welcome = reader.welcome(&mut stream)?;
    stream.set_read_timeout(None)?;
    tell(queue, told, &Notice::Connected { server: address.to_string() });
    queue.connected(welcome.last_sequence, welcome.message_bytes_max);
    let acks = stream.try_clone()?;
    let listening = Arc::clone(queue);
    let acks = std::thread::Builder::new()
        .name("bbq-acks".to_owned())
        .spawn(move || reader.listen(acks, &listening))?;
    let written = write_all(queue, &mut stream);
    // Ends the reader, too.
    stream.shutdown();
    // Its answer outranks ours: a refusal also breaks the writing.
    match acks.join() {
        Ok(Some(trouble)) if written.is_err() || !queue.is_done() => Err(trouble),
        _ => written.map_err(Trouble::from),
    }
}

/// Writes batches as they come; `Ok` when nothing is left to do.
fn write_all(queue: &Queue, stream: &mut Stream) -> io::Result<()> {
    loop {
        match queue.next() {
            Work::Send(bytes) => {
                stream.write_all(&bytes)?;
                drop(bytes);
                queue.written();
            }
            Work::Reconnect => return Err(ErrorKind::ConnectionReset.into()),
            Work::End => return Ok(()),
        }
    }
}

/// Reads what the server says.
struct Reader {
    session: ClientSession,
    bytes: Vec<u8>,
    server: String,
}

impl Reader {
    fn welcome(&mut self, stream: &mut Stream) -> Result<Welcome, Trouble> {
        match self.step(stream)? {
            ClientStep::Welcome { welcome, .. } => Ok(welcome),
            ClientStep::Refused { refusal, .. } if refusal.retry => Err(Trouble::Passing(refusal.text)),
            ClientStep::Refused { refusal, .. } => {
                Err(Trouble::Final(SendError::Refused { server: self.server.clone(), refusal }))
            }
            _ => Err(self.protocol("something else than a welcome came first")),
        }
    }

    /// Takes acknowledgements until the connection ends; answers why it did when that matters.
    fn listen(mut self, mut stream: Stream, queue: &Queue) -> Option<Trouble> {
        let trouble = loop {
            match self.step(&mut stream) {
                Ok(ClientStep::Ack { sequence, .. }) => queue.acknowledged(sequence),
                Ok(ClientStep::Refused { refusal, .. }) if !refusal.retry => {
                    break Trouble::Final(SendError::Refused { server: self.server.clone(), refusal });
                }
                Ok(ClientStep::Refused { refusal, .. }) => break Trouble::Passing(refusal.text),
                Ok(_) => break self.protocol("a second welcome came"),
                Err(trouble) => break trouble,
            }
        };
        // Wakes the writer, which may be waiting for the socket or for work.
        stream.shutdown();
        queue.set_broken();
        Some(trouble)
    }

    /// The next whole thing the server says.
    fn step(&mut self, stream: &mut Stream) -> Result<ClientStep, Trouble> {
        loop {
            let step = match self.session.next(&self.bytes) {
                Ok(step) => step,
                Err(error) => return Err(self.protocol(&error.to_string())),
            };
            let consumed = match &step {
                ClientStep::NeedMore { .. } => {
                    self.fill(stream)?;
                    continue;
                }
                ClientStep::Welcome { consumed, .. }
                | ClientStep::Ack { consumed, .. }
                | ClientStep::Refused { consumed, .. } => *consumed,
            };
            self.bytes.drain(..consumed);
            return Ok(step);
        }
    }

    fn fill(&mut self, stream: &mut Stream) -> Result<(), Trouble> {
        let mut buffer = [0; READ_BYTES];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return Err(Trouble::Passing("the connection ended".to_owned())),
                Ok(bytes) => {
                    self.bytes.extend_from_slice(&buffer[..bytes]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn protocol(&self, problem: &str) -> Trouble {
        Trouble::Final(SendError::Protocol { server: self.server.clone(), problem: problem.to_owned() })
    }
}

impl Stream {
    fn connect(address: &ServerAddress) -> io::Result<Stream> {
        match address {
            ServerAddress::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            ServerAddress::Tcp(address) => {
                let mut last = io::Error::from(ErrorKind::NotFound);
                for address in address.to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                        Ok(stream) => {
                            // Batches are written whole: waiting for more of them helps nobody.
                            stream.set_nodelay(true)?;
                            SockRef::from(&stream).set_tcp_keepalive(
                                &TcpKeepalive::new()
                                    .with_time(KEEPALIVE_TIME)
                                    .with_interval(KEEPALIVE_INTERVAL),
                            )?;
                            return Ok(Stream::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
        }
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Ends both directions, for whoever waits on either. A connection that is gone already is what is wanted.
    fn shutdown(&self) {
        let _gone = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use bbq_wire::StreamId;
    use bbq_wire::session::{AckLevel, Refusal, RefusalCode};

    use super::*;
    use crate::SenderOptions;

    #[test]
    fn a_server_that_went_without_a_word_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = ServerAddress::Tcp(listener.local_addr().unwrap().to_string());
        let Ok(Stream::Tcp(stream)) = Stream::connect(&address) else { panic!("it listens") };
        assert!(SockRef::from(&stream).keepalive().unwrap());
    }

    #[test]
    fn a_server_that_welcomes_and_refuses_is_asked_less_and_less_often() {
        const TIMES: u32 = 6;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut options =
            SenderOptions::new(vec![ServerAddress::Tcp(listener.local_addr().unwrap().to_string())]);
        options.linger = Duration::ZERO;
        let queue = Arc::new(Queue::new(options, StreamId([1; 16])));
        queue.push(std::iter::once(b"message".as_slice())).1.unwrap();
        let (keeping, reconnects) = (Arc::clone(&queue), AtomicU64::new(0));
        let sender = std::thread::spawn(move || keep(&keeping, &reconnects, &Pause::default()));
        let start = Instant::now();
        for _ in 0..TIMES {
            let (mut client, _) = listener.accept().unwrap();
            let welcome = Welcome {
                last_sequence: 0,
                ack: AckLevel::Durable,
                body_bytes_max: 1 << 20,
                message_bytes_max: 1 << 20,
                server: String::new(),
            };
            let mut answer = Vec::new();
            welcome.encode(&mut answer);
            Refusal::new(RefusalCode::SpoolFailed, "the disk failed").encode(&mut answer);
            client.write_all(&answer).unwrap();
            // Until the client has left.
            let _sent = client.read_to_end(&mut Vec::new());
        }
        // The waits between six connections are at least 10, 20, 40, 80 and 160 ms; without growth at most 100 in all.
        assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
        queue.fail(SendError::Closed);
        drop(listener);
        sender.join().unwrap();
    }
}
