//! If this fails, batches for NATS JetStream go one by one over a long way, or messages are lost, come twice or in another order when several
//! batches are on their way: because others publish in between, because another server fills the same stream, or because what was given
//! up comes late.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::json;

use super::nats::{STREAM, assert_once_and_in_order};
use super::nats_client::Client;
use super::nats_server::{Nats, NatsServer, new_server};
use super::senders::{Senders, send_all, wait_problem};
use crate::support::{PATIENCE, Setup, free_ports, listen_at, pause};

/// A stream that somebody else may publish to as well.
const OTHERS: &str = "others";
/// Messages of a full batch, with bbq's own.
const BATCH: usize = 1000;

/// Between bbq and the server. What it holds it never forgets.
struct Gate {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    to: u16,
    /// The version that the server is said to have.
    version: Mutex<Option<&'static str>>,
    /// Responses wait.
    is_mute: AtomicBool,
    /// They do behind the one that has this.
    mutes: Mutex<Option<&'static str>>,
    /// Requests wait, from the one on that has this.
    holds: Mutex<Option<&'static str>>,
    /// The connections are stranded after the second request that has this.
    strands: Mutex<Option<&'static str>>,
    /// So many connections are stranded: their requests wait, and nobody gets their responses.
    stranded: AtomicUsize,
    /// What stranded is on its way again.
    is_released: AtomicBool,
    /// Connections whose requests are all through.
    through: Mutex<BTreeSet<usize>>,
    connections: AtomicUsize,
}

/// Looks for a text in what comes piece by piece.
#[derive(Default)]
struct Looked {
    end: Vec<u8>,
}

impl Looked {
    fn times(&mut self, piece: &[u8], text: &str) -> usize {
        self.end.extend_from_slice(piece);
        let times = self.end.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
        self.end.drain(..self.end.len().saturating_sub(text.len() - 1));
        times
    }
}

impl Gate {
    fn to(to: u16) -> Gate {
        let port = free_ports(1)[0];
        let shared = Arc::new(Shared { to, ..Shared::default() });
        let listener = listen_at(port);
        let of_thread = Arc::clone(&shared);
        // Ends with the process.
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                of_thread.serve(client);
            }
        });
        Gate { port, shared }
    }

    /// Returns when the server has everything that stranded.
    fn release(&self) {
        self.shared.is_released.store(true, Ordering::SeqCst);
        let stranded = self.shared.stranded.load(Ordering::SeqCst);
        self.wait("something is not through", |shared| {
            let through = shared.through.lock().expect("no panic");
            (0..stranded).all(|number| through.contains(&number))
        });
    }

    fn wait(&self, why: &str, is_so: impl Fn(&Shared) -> bool) {
        let begin = Instant::now();
        while !is_so(&self.shared) {
            assert!(begin.elapsed() < PATIENCE, "{why}");
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

    /// All connections of now.
    fn strand(&self) {
        self.stranded.store(self.connections.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    fn is_stranded(&self, number: usize) -> bool {
        number < self.stranded.load(Ordering::SeqCst)
    }

    fn pass_responses(&self, number: usize, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 65_536];
        let mut of_mutes = Looked::default();
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            while self.is_mute.load(Ordering::SeqCst) && !self.is_stranded(number) {
                pause();
            }
            let mut response = buffer[..bytes].to_vec();
            if let Some(version) = *self.version.lock().expect("no panic") {
                response = with_version(response, version);
            }
            // What a client does not read any more is read here, to the end.
            let _gone = self.is_stranded(number) || to.write_all(&response).is_err();
            let mut mutes = self.mutes.lock().expect("no panic");
            if mutes.is_some_and(|text| of_mutes.times(&buffer[..bytes], text) > 0) {
                *mutes = None;
                self.is_mute.store(true, Ordering::SeqCst);
            }
        }
        let _closed = to.shutdown(Shutdown::Both);
    }

    fn pass_requests(&self, number: usize, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; 65_536];
        let (mut of_holds, mut of_strands) = (Looked::default(), Looked::default());
        let (mut is_holding, mut seen) = (false, 0);
        while let Ok(bytes @ 1..) = from.read(&mut buffer) {
            let text = *self.holds.lock().expect("no panic");
            is_holding |= text.is_some_and(|text| of_holds.times(&buffer[..bytes], text) > 0);
            while (is_holding || self.is_stranded(number)) && !self.is_released.load(Ordering::SeqCst) {
                pause();
            }
            if to.write_all(&buffer[..bytes]).is_err() {
                break;
            }
            let mut strands = self.strands.lock().expect("no panic");
            seen += strands.map_or(0, |text| of_strands.times(&buffer[..bytes], text));
            if seen >= 2 && strands.take().is_some() {
                self.strand();
            }
        }
        // The server reads what is left, and then ends the connection.
        let _closed = to.shutdown(Shutdown::Write);
        if self.is_stranded(number) {
            while to.peek(&mut buffer[..1]).is_ok_and(|bytes| bytes > 0) {
                pause();
            }
        }
        self.through.lock().expect("no panic").insert(number);
    }
}

/// The greeting of a server of another version.
fn with_version(response: Vec<u8>, version: &str) -> Vec<u8> {
    match String::from_utf8(response) {
        Ok(text) if text.starts_with("INFO ") => {
            let (before, rest) = text.split_once(r#""version":""#).expect("a version");
            let (_, behind) = rest.split_once('"').expect("an end");
            format!(r#"{before}"version":"{version}"{behind}"#).into_bytes()
        }
        Ok(text) => text.into_bytes(),
        Err(bytes) => bytes.into_bytes(),
    }
}

fn edge(gate: &Gate) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&[&format!("nats://127.0.0.1:{}/logs?stream={STREAM}", gate.port)]);
    setup.config("drain_timeout_seconds = 1\n")
}

fn start(nats: &Nats) -> (NatsServer<'_>, Client) {
    start_with(nats, "bbq.progress.*")
}

fn start_with<'a>(nats: &'a Nats, progress: &str) -> (NatsServer<'a>, Client) {
    let broker = nats.start();
    let mut client = broker.client();
    client.create_stream(&json!({
        "name": STREAM, "subjects": ["logs", OTHERS, progress], "allow_atomic": true,
    }));
    (broker, client)
}

/// Of the stream.
fn messages(client: &mut Client) -> usize {
    let info = client.api(&format!("STREAM.INFO.{STREAM}"), &json!({}));
    info["state"]["messages"].as_u64().and_then(|messages| usize::try_from(messages).ok()).expect("a number")
}

fn wait_messages(client: &mut Client, least: usize, setup: &Setup) {
    let begin = Instant::now();
    while messages(client) < least {
        assert!(begin.elapsed() < PATIENCE, "{} messages\n{}", messages(client), setup.log());
        pause();
    }
}

#[test]
fn batches_do_not_wait_for_each_other_on_a_long_way() {
    let nats = Nats::new(new_server());
    let gate = Gate::to(nats.port);
    let setup = edge(&gate);
    let server = setup.start();
    send_all(&setup, 0, 60_000);
    *gate.shared.mutes.lock().expect("no panic") = Some(r#""batch":"#);
    let (_broker, mut client) = start(&nats);
    gate.wait("no response came", |shared| shared.is_mute.load(Ordering::SeqCst));
    // Of what bbq knows nothing.
    let ahead = |client: &mut Client| {
        let delivered = server.status()["ledger"]["delivered"].as_u64().expect("a number");
        messages(client).saturating_sub(usize::try_from(delivered).expect("a number"))
    };
    let begin = Instant::now();
    while ahead(&mut client) < 5 * BATCH {
        assert!(begin.elapsed() < PATIENCE, "{} messages ahead\n{}", ahead(&mut client), setup.log());
        pause();
    }
    gate.shared.is_mute.store(false, Ordering::SeqCst);
    server.wait_delivered(60_000);
    assert_once_and_in_order(&client.read(STREAM, "logs"), 1, 60_000);
}

#[test]
fn what_was_given_up_and_comes_late_is_refused() {
    let nats = Nats::new(new_server());
    let (_broker, mut client) = start(&nats);
    let gate = Gate::to(nats.port);
    let setup = edge(&gate);
    let server = setup.start();
    server.wait_log("publishing");
    gate.shared.strand();
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
}

/// The second batch came, and bbq does not know of it; those behind it come after the next life of bbq has gone on.
#[test]
fn what_follows_a_batch_that_came_is_refused_after_others_were_sent() {
    let nats = Nats::new(new_server());
    let gate = Gate::to(nats.port);
    let setup = edge(&gate);
    let server = setup.start();
    send_all(&setup, 0, 20_000);
    *gate.shared.strands.lock().expect("no panic") = Some("Nats-Batch-Commit: ");
    let (_broker, mut client) = start(&nats);
    wait_messages(&mut client, 2 * BATCH, &setup);
    gate.wait("nothing stranded", |shared| shared.stranded.load(Ordering::SeqCst) > 0);
    server.kill();
    assert!(messages(&mut client) < 3 * BATCH, "two batches came");
    let server = setup.start();
    server.wait_delivered(20_000);
    let all = messages(&mut client);
    gate.release();
    assert_eq!(messages(&mut client), all, "something was taken late");
    assert_once_and_in_order(&client.read(STREAM, "logs"), 1, 20_000);
}

/// Others publish as many messages as a batch has: then the progress is at the place where the next one was expected.
#[test]
fn a_stream_that_others_shift_by_a_batch_loses_nothing() {
    let nats = Nats::new(new_server());
    let gate = Gate::to(nats.port);
    let setup = edge(&gate);
    let server = setup.start();
    send_all(&setup, 0, 20_000);
    *gate.shared.holds.lock().expect("no panic") = Some("Nats-Batch-Id: ");
    let (_broker, mut client) = start(&nats);
    server.wait_log("publishing");
    let before = messages(&mut client);
    (0..BATCH).for_each(|_| client.publish(OTHERS, "theirs"));
    wait_messages(&mut client, before + BATCH, &setup);
    gate.release();
    server.wait_delivered(20_000);
    assert_once_and_in_order(&client.read(STREAM, "logs"), 1, 20_000);
}

#[test]
fn two_servers_fill_one_stream() {
    let nats = Nats::new(new_server());
    let edges = [0..2, 2..4].map(|senders| (edge(&Gate::to(nats.port)), senders));
    let servers: Vec<_> = edges
        .iter()
        .map(|(setup, senders)| {
            let server = setup.start();
            Senders::start(setup, senders.clone(), 20_000).wait();
            server
        })
        .collect();
    let (_broker, mut client) = start(&nats);
    for server in &servers {
        server.wait_delivered(40_000);
    }
    assert_once_and_in_order(&client.read(STREAM, "logs"), 4, 20_000);
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

/// The subject that a problem names.
fn progress_in(problem: &str) -> String {
    let mut words = problem.split([' ', ';']);
    words.find(|word| word.starts_with("bbq.progress.")).expect("a subject").to_owned()
}

/// It has one batch at a time.
#[test]
fn a_stream_that_has_the_progress_alone_gets_everything() {
    let nats = Nats::new(new_server());
    let gate = Gate::to(nats.port);
    let setup = edge(&gate);
    let server = setup.start();
    send_all(&setup, 0, 20_000);
    let (_broker, mut client) = start_with(&nats, "elsewhere");
    let progress = progress_in(&wait_problem(&server, "does not have the subject bbq.progress."));
    let config = json!({ "name": STREAM, "subjects": ["logs", progress], "allow_atomic": true });
    client.api(&format!("STREAM.UPDATE.{STREAM}"), &config);
    wait_messages(&mut client, BATCH, &setup);
    server.kill();
    let server = setup.start();
    server.wait_delivered(20_000);
    assert_once_and_in_order(&client.read(STREAM, "logs"), 1, 20_000);
    let marks = client.read(STREAM, ">");
    let marks = marks.iter().filter(|message| message.subject.starts_with(&format!("{progress}-")));
    assert_eq!(marks.count(), 0);
}

#[test]
fn a_server_that_checks_the_wrong_subject_is_told_with_its_version() {
    let nats = Nats::new(new_server());
    let (_broker, mut client) = start(&nats);
    let gate = Gate::to(nats.port);
    *gate.shared.version.lock().expect("no panic") = Some("2.12.0");
    let setup = edge(&gate);
    let server = setup.start();
    server.send(1, b"0 0\n");
    wait_problem(&server, "upgrade it to 2.12.1 or newer");
    *gate.shared.version.lock().expect("no panic") = Some("2.12.1");
    server.wait_delivered(1);
    assert_once_and_in_order(&client.read(STREAM, "logs"), 1, 1);
}

/// As an operator may have set them before there were marks.
#[test]
fn a_user_with_permission_for_the_progress_alone_delivers_one_batch_at_a_time() {
    let nats = Nats::new(new_server());
    let gate = Gate::to(nats.port);
    let setup = edge(&gate);
    let server = setup.start();
    send_all(&setup, 0, 20_000);
    let (broker, _) = start_with(&nats, "elsewhere");
    let progress = progress_in(&wait_problem(&server, "does not have the subject bbq.progress."));
    broker.kill();
    let mut nats = nats.config(&format!(
        "authorization {{ users = [ {{ user: operator, password: secret }}, {{ user: bbq, password: secret, permissions: {{ \
         publish: [\"logs\", \"{progress}\", \"$JS.API.>\"], subscribe: [\"_INBOX.>\"] }} }} ] }}\nno_auth_user: bbq\n"
    ));
    nats.credentials = json!({ "user": "operator", "pass": "secret" });
    let broker = nats.start();
    let mut client = broker.client();
    let config = json!({ "name": STREAM, "subjects": ["logs", "bbq.progress.*"], "allow_atomic": true });
    client.api(&format!("STREAM.UPDATE.{STREAM}"), &config);
    server.wait_log("sending batches one by one");
    server.wait_delivered(20_000);
    assert_once_and_in_order(&client.read(STREAM, "logs"), 1, 20_000);
}

/// The lane of one worker has a message that is in the stream, and nothing more to send, while those of another are displaced.
#[test]
fn a_lane_that_is_done_stays_so_while_batches_are_displaced() {
    let nats = Nats::new(new_server());
    let (broker, mut client) = start(&nats);
    let setup = edge(&Gate::to(nats.port));
    let server = setup.start_with_workers(2);
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut other = broker.client();
        let has_ended = &has_ended;
        scope.spawn(move || {
            while !has_ended.load(Ordering::SeqCst) {
                other.publish(OTHERS, "theirs");
                std::thread::yield_now();
            }
        });
        for round in 0..10 {
            // Each connection goes to one of the workers.
            Senders::start(&setup, round..round + 1, 1).wait();
            Senders::start(&setup, 10 + round..11 + round, 5000).wait();
            server.wait_delivered(u64::from(round + 1) * 5001);
        }
        has_ended.store(true, Ordering::SeqCst);
    });
    assert!(server.status()["sinks"][0]["problem"].is_null(), "{}", setup.log());
    assert_eq!(client.read(STREAM, "logs").len(), 50_010);
}
