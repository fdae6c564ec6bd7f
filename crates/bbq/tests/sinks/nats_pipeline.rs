//! If this fails, batches for NATS JetStream go one by one over a long way, or messages are lost, come twice or in another order when several
//! batches are on their way: because others publish in between, or because what was given up comes late.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;

use super::nats::{STREAM, assert_once_and_in_order};
use super::nats_client::Client;
use super::nats_server::{Nats, NatsServer, new_server};
use super::senders::{Senders, send_all};
use crate::support::{PATIENCE, Setup, free_ports, pause};

/// A stream that somebody else may publish to as well.
const OTHERS: &str = "others";

/// Between bbq and the server. What it holds it never forgets.
struct Gate {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    to: u16,
    /// Responses wait.
    is_mute: AtomicBool,
    /// So many connections are stranded: their requests wait, and nobody gets their responses.
    stranded: AtomicUsize,
    /// What stranded is on its way again.
    is_released: AtomicBool,
    /// Stranded connections whose requests are all through.
    through: AtomicUsize,
    connections: AtomicUsize,
}

impl Gate {
    fn to(to: u16) -> Gate {
        let port = free_ports(1)[0];
        let shared = Arc::new(Shared { to, ..Shared::default() });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("nobody else has it");
        let of_thread = Arc::clone(&shared);
        // Ends with the process.
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                of_thread.serve(client);
            }
        });
        Gate { port, shared }
    }

    fn strand(&self) {
        self.shared.stranded.store(self.shared.connections.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Returns when the server has everything.
    fn release(&self) {
        self.shared.is_released.store(true, Ordering::SeqCst);
        let begin = Instant::now();
        while self.shared.through.load(Ordering::SeqCst) < self.shared.stranded.load(Ordering::SeqCst) {
            assert!(begin.elapsed() < PATIENCE, "something is not through");
            pause();
        }
    }
}

impl Shared {
    fn serve(self: &Arc<Shared>, client: TcpStream) {
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.to)) else { return };
        let number = self.connections.fetch_add(1, Ordering::SeqCst);
        let (from, to) =
            (server.try_clone().expect("a descriptor"), client.try_clone().expect("a descriptor"));
        let (of_responses, of_requests) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || of_responses.pass_responses(number, from, to));
        std::thread::spawn(move || of_requests.pass_requests(number, client, server));
    }

    fn is_stranded(&self, number: usize) -> bool {
        number < self.stranded.load(Ordering::SeqCst)
    }

    fn pass_responses(&self, number: usize, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 65_536];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            while self.is_mute.load(Ordering::SeqCst) && !self.is_stranded(number) {
                pause();
            }
            if !self.is_stranded(number) && to.write_all(&buffer[..bytes]).is_err() {
                return;
            }
        }
        let _closed = to.shutdown(Shutdown::Both);
    }

    fn pass_requests(&self, number: usize, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 65_536];
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            while self.is_stranded(number) && !self.is_released.load(Ordering::SeqCst) {
                pause();
            }
            if to.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
        // The server reads what is left, and then ends the connection.
        let _closed = to.shutdown(Shutdown::Write);
        if self.is_stranded(number) {
            while to.peek(&mut buffer[..1]).is_ok_and(|bytes| bytes > 0) {
                pause();
            }
            self.through.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn edge(gate: &Gate) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&[&format!("nats://127.0.0.1:{}/logs?stream={STREAM}", gate.port)]);
    setup.config("drain_timeout_seconds = 1\n")
}

fn start(nats: &Nats) -> (NatsServer<'_>, Client) {
    let broker = nats.start();
    let mut client = broker.client();
    client.create_stream(&json!({
        "name": STREAM, "subjects": ["logs", OTHERS, "bbq.progress.*"], "allow_atomic": true,
    }));
    (broker, client)
}

fn messages(client: &mut Client) -> u64 {
    let info = client.api(&format!("STREAM.INFO.{STREAM}"), &json!({}));
    info["state"]["messages"].as_u64().expect("a number")
}

#[test]
fn batches_do_not_wait_for_each_other_on_a_long_way() {
    let nats = Nats::new(new_server());
    let (_broker, mut client) = start(&nats);
    let gate = Gate::to(nats.port);
    let setup = edge(&gate);
    let server = setup.start();
    server.wait_log("publishing");
    gate.shared.is_mute.store(true, Ordering::SeqCst);
    send_all(&setup, 0, 20_000);
    let begin = Instant::now();
    while messages(&mut client) < 5000 {
        assert!(begin.elapsed() < PATIENCE, "{} messages\n{}", messages(&mut client), setup.log());
    }
    assert!(server.status()["ledger"]["delivered"].as_u64() < Some(1000), "no response came");
    gate.shared.is_mute.store(false, Ordering::SeqCst);
    server.wait_delivered(20_000);
    assert_once_and_in_order(&client.read(STREAM, "logs"), 1, 20_000);
}

#[test]
fn what_was_given_up_and_comes_late_is_refused() {
    let nats = Nats::new(new_server());
    let (_broker, mut client) = start(&nats);
    let gate = Gate::to(nats.port);
    let setup = edge(&gate);
    let server = setup.start();
    server.wait_log("publishing");
    gate.strand();
    let sending = Senders::start(&setup, 0..2, 30_000);
    // Several batches are on their way then.
    server.wait_status("all", |status| status["ledger"]["queued"] == 60_000);
    server.kill();
    let server = setup.start();
    sending.wait();
    server.wait_delivered(60_000);
    let all = messages(&mut client);
    gate.release();
    assert_eq!(messages(&mut client), all, "something was taken late");
    assert_once_and_in_order(&client.read(STREAM, "logs"), 2, 30_000);
    assert_ended(&mut client);
}

/// That nothing of an epoch can come any more after the next one began: nobody names an odd place in advance.
fn assert_ended(client: &mut Client) {
    let progress = client.read(STREAM, "bbq.progress.*");
    let epochs: Vec<&str> =
        progress.iter().filter_map(|message| Some(message.subject.rsplit_once('-')?.1)).collect();
    let last = epochs.iter().filter_map(|epoch| epoch.parse::<u32>().ok()).max().expect("marks");
    let id = progress[0].subject.split('-').next().expect("a subject");
    assert!(last > 1, "{epochs:?}");
    for epoch in 1..last {
        let subject = format!("{id}-{epoch}");
        let found = client.api(&format!("STREAM.MSG.GET.{STREAM}"), &json!({ "last_by_subj": subject }));
        let place = found["message"]["seq"].as_u64().expect("a place");
        assert_eq!(place % 2, 1, "{subject}");
    }
}

#[test]
fn others_may_publish_to_the_stream_in_between() {
    let nats = Nats::new(new_server());
    let (broker, mut client) = start(&nats);
    let setup = edge(&Gate::to(nats.port));
    let server = setup.start();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut other = broker.client();
        let has_ended = &has_ended;
        scope.spawn(move || {
            while !has_ended.load(Ordering::SeqCst) {
                other.publish(OTHERS, "theirs");
                pause();
            }
        });
        let sending = Senders::start(&setup, 0..3, 20_000);
        sending.wait();
        server.wait_delivered(60_000);
        has_ended.store(true, Ordering::SeqCst);
    });
    assert!(!client.read(STREAM, OTHERS).is_empty());
    assert_once_and_in_order(&client.read(STREAM, "logs"), 3, 20_000);
}
