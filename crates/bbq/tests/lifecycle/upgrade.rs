//! If this fails, an upgrade loses messages on their way, cuts connections, or a new program that does not work ends the service.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use crate::client;
use crate::support::lineage::Lineage;
use crate::support::program::Program;
use crate::support::{BBQ, PATIENCE, Setup};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal};
use serde_json::Value;

const LINES: u64 = 1_000_000;
const UPGRADES: u64 = 5;
const FLOWS: usize = 200;
/// No stall detection: on a busy machine other workers would take connections that wait for a worker.
const RESCUE_OFF: &str = "stall_threshold_ms = 0\n";

/// Replaces the program as an installation does: the running process keeps its file.
fn install(path: &Path, program: &[u8]) {
    let beside = path.with_extension("new");
    fs::write(&beside, program).expect("a program");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).expect("executable");
    fs::rename(&beside, path).expect("it takes the place");
}

/// What TLS keeps of a connection cannot be handed over: the client is told to connect again, after what it sent was read.
#[test]
fn connections_through_tls_are_read_and_ended_in_order() {
    let (setup, authority) = client::setup(&[&format!("lines+tcp://127.0.0.1:{{0}}?{}", client::TLS)]);
    let mut server = Lineage::start(&setup);
    setup.wait_ready();
    let client = client::Client::new(&authority);
    let mut stream = client.connect(setup.address(0)).expect("TLS");
    stream.write_all(b"before\n").expect("it reads");
    server.upgrade();
    assert_eq!(stream.read(&mut [0]).expect("a close_notify"), 0);
    client.send(setup.address(0), b"after\n").expect("TLS");
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(setup.written(), b"before\nafter\n");
}

#[test]
fn a_program_that_does_not_work_changes_nothing() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config("upgrade_timeout_seconds = 1\n");
    let path = setup.copy_program();
    let program = fs::read(&path).expect("a program");
    let mut server = Lineage::start(&setup);
    let inodes = server.inodes("tcp", setup.ports[0]);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    let pid = server.pid();
    let mut sent = 0;
    for (name, broken, says) in [
        ("a script", b"#!/bin/sh\necho 'no such luck' >&2\nexit 3\n".as_slice(), "exit status: 3"),
        ("an empty file", b"", "exit status: 0"),
        ("the front of a program", &program[..65_536], "before it was prepared"),
        ("a hanging one", b"#!/bin/sh\nexec sleep 1000\n", "upgrade_timeout_seconds"),
    ] {
        install(&path, broken);
        client.write_all(b"before").expect("it reads");
        let why = server.refused(Signal::USR2);
        // The system may refuse a file that is no program at once.
        assert!(why.contains(says) || why.contains("cannot be started"), "{name}: {why}");
        client.write_all(b" and after\n").expect("it reads");
        sent += 1;
        server.wait_delivered(sent);
        assert_eq!((server.status()["pid"].as_u64(), server.pid()), (Some(pid.into()), pid), "{name}");
    }
    setup.wait_log("no such luck");
    install(&path, &program);
    server.upgrade();
    assert_eq!(server.status()["refused_change"], Value::Null);
    client.write_all(b"the new one\n").expect("it reads");
    server.wait_delivered(sent + 1);
    assert_eq!(server.inodes("tcp", setup.ports[0]), inodes);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(setup.written(), ["before and after\n".repeat(4).as_bytes(), b"the new one\n"].concat());
}

#[test]
fn one_that_fails_with_the_data_directory_in_its_hands_gives_it_back() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let configuration = |sink: &str| format!("sink = [\"file:{sink}\"]\n");
    let (right, wrong) =
        (configuration(&setup.output().display().to_string()), configuration("/proc/none/x"));
    setup.set_sinks(&[]);
    let setup = setup.config(&right);
    let mut server = Lineage::start(&setup);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.write_all(b"half a ").expect("it reads");
    fs::write(setup.path().join("bbq.toml"), wrong).expect("a configuration");
    let why = server.refused(Signal::USR2);
    assert!(why.contains("exit status: 1 before it was ready") && why.contains("/proc/none/x"), "{why}");
    client.write_all(b"line\n").expect("it reads");
    server.wait_delivered(1);
    for _again in 0..2 {
        let why = server.refused(Signal::HUP);
        assert!(why.contains("reload") && why.contains("/proc/none/x"), "{why}");
    }
    client.write_all(b"another\n").expect("it reads");
    server.wait_delivered(2);
    fs::write(setup.path().join("bbq.toml"), right).expect("a configuration");
    server.upgrade();
    client.write_all(b"the last\n").expect("it reads");
    server.wait_delivered(3);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert_eq!(setup.written(), b"half a line\nanother\nthe last\n");
}

/// `bbq spool cat`, `check` and `repair` take this lock.
#[test]
fn nobody_gets_the_lock_of_the_data_directory_during_an_upgrade() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let sink = |path: &Path| format!("sink = [\"file:{}\"]\n", path.display());
    let right = sink(&setup.output());
    setup.set_sinks(&[]);
    let setup = setup.config(&right);
    let mut server = Lineage::start(&setup);
    let lock_file = setup.data().join("lock");
    let lock = fs::File::open(&lock_file).expect("a server made it");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let is_free = || flock(&lock, FlockOperation::NonBlockingLockShared).is_ok();
            while !is_over.load(Relaxed) {
                if is_free() {
                    flock(&lock, FlockOperation::Unlock).expect("it is ours");
                    return true;
                }
            }
            false
        });
        let upgraded = catch_unwind(AssertUnwindSafe(|| (0..3).for_each(|_| server.upgrade())));
        is_over.store(true, Relaxed);
        assert!(!other.join().expect("it does not panic"), "the lock was free");
        upgraded.expect("upgrades without a lock");
    });
    let holder = || fs::read_to_string(&lock_file).expect("it is there").trim().to_owned();
    assert_eq!(holder(), server.pid().to_string());
    // One that has put its id there already.
    fs::write(setup.path().join("bbq.toml"), sink(Path::new("/proc/none/x"))).expect("a configuration");
    let why = server.refused(Signal::USR2);
    assert!(why.contains("before it was ready"), "{why}");
    assert_eq!(holder(), server.pid().to_string());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// Waits until another process than `old` has the data directory.
fn new_process(setup: &Setup, old: u32) -> u32 {
    let start = Instant::now();
    loop {
        let holder = fs::read_to_string(setup.data().join("lock")).expect("it is there");
        match holder.trim().parse() {
            Ok(pid) if pid != old => return pid,
            // Between two states of the file.
            _ => assert!(start.elapsed() < PATIENCE, "it is not handed over\n{}", setup.log()),
        }
    }
}

/// Whether the first thread of a process is held at the system call of this number.
fn is_held(pid: u32, call: i64) -> bool {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    read("status").contains("State:\tt") && read("syscall").starts_with(&format!("{call} "))
}

/// Whoever stops the process that is known means the server.
#[test]
fn a_stop_of_the_old_program_while_it_hands_over_stops_the_new_one() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let path = setup.copy_program();
    let server = Lineage::start(&setup);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    client.write_all(b"kept\n").expect("it reads");
    server.wait_delivered(1);
    // The new program opens the data directory, and its first sync takes a while.
    let slow = "exec strace -D -f -o /dev/null -e inject=fsync,fdatasync:delay_enter=3000000:when=1";
    install(&path, format!("#!/bin/sh\n{slow} {BBQ} \"$@\"\n").as_bytes());
    server.signal(Signal::USR2);
    let old = server.pid();
    let new = new_process(&setup, old);
    server.signal(Signal::TERM);
    assert_eq!(server.wait_end(old), Some(0), "{}", setup.log());
    assert_eq!(server.wait_end(new), Some(0), "{}", setup.log());
    assert_eq!(server.count("the new process is asked to stop"), 1, "{}", setup.log());
    assert_eq!(setup.written(), b"kept\n");
}

/// The old program goes on with the connections, so what the new one had read would be missing in their middle.
#[test]
fn a_new_program_that_is_killed_before_it_serves_has_read_nothing() {
    // What was read would be in memory when the program is killed.
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config("[spool]\nflush_interval_ms = 1000\n");
    let path = setup.copy_program();
    let server = Lineage::start(&setup);
    let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
    // It is held when it takes over the log, right before it says that it serves.
    let held = "exec strace -D -f -o /dev/null -e inject=dup2:delay_enter=30000000:when=2";
    install(&path, format!("#!/bin/sh\n{held} {BBQ} \"$@\"\n").as_bytes());
    let (sends, sent) = (AtomicBool::new(true), AtomicU64::new(0));
    let killed = std::thread::scope(|threads| {
        threads.spawn(|| {
            while sends.load(Relaxed) {
                let line = format!("line {}\n", sent.load(Relaxed));
                client.write_all(line.as_bytes()).expect("it reads");
                sent.fetch_add(1, Relaxed);
                // While nobody reads, everything has to fit in the buffers of the connection.
                std::thread::park_timeout(Duration::from_micros(100));
            }
        });
        let killed = catch_unwind(AssertUnwindSafe(|| {
            server.signal(Signal::USR2);
            let new = new_process(&setup, server.pid());
            let start = Instant::now();
            while !is_held(new, libc::SYS_dup2) {
                assert!(start.elapsed() < PATIENCE, "it is not held\n{}", setup.log());
            }
            // Some time, in which it could read.
            let until = sent.load(Relaxed) + 2_000;
            while sent.load(Relaxed) < until {
                assert!(start.elapsed() < PATIENCE, "nobody reads\n{}", setup.log());
            }
            rustix::process::kill_process(Pid::from_raw(new.cast_signed()).expect("a process"), Signal::KILL)
                .expect("it is there");
            server.wait_log("SIGKILL) before it was ready", 1);
        }));
        sends.store(false, Relaxed);
        killed
    });
    killed.expect("killed");
    let sent = sent.load(Relaxed);
    drop(client);
    server.wait_delivered(sent);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let wanted: String = (0..sent).map(|number| format!("line {number}\n")).collect();
    assert!(setup.written() == wanted.as_bytes(), "something is missing, or out of order");
}

#[test]
fn open_connections_go_on_in_the_middle_of_a_message() {
    let setup = Setup::new(&[
        "lines+tcp://127.0.0.1:{0}",
        "syslog+tcp://127.0.0.1:{1}",
        "whole+tcp://127.0.0.1:{2}",
        "lines+unix://{dir}/socket",
    ])
    .with(&["--workers", "3"]);
    let mut server = Lineage::start(&setup);
    let socket = setup.path().join("socket");
    let mut clients = [0, 1, 2].map(|index| TcpStream::connect(setup.address(index)).expect("it listens"));
    let mut local = UnixStream::connect(&socket).expect("it listens");
    let pieces = [
        ["one li", "ne, cut in", " three\n"],
        ["27 a fra", "me of syslog, c", "ut in 3"],
        ["al", "l of", " it"],
    ];
    for round in 0..3 {
        for (client, piece) in clients.iter_mut().zip(pieces) {
            client.write_all(piece[round].as_bytes()).expect("it reads");
        }
        local.write_all(["from ", "this ", "machine\n"][round].as_bytes()).expect("it reads");
        if round < 2 {
            // Half a message is either read, or still in the kernel, which is as good.
            server.wait_status("four connections", |status| {
                let workers = status["workers"].as_array().expect("workers");
                workers.iter().filter_map(|worker| worker["connections"].as_u64()).sum::<u64>() == 4
            });
            server.upgrade();
            assert!(socket.exists(), "who hands over leaves the file to the other");
        }
    }
    clients[2].shutdown(Shutdown::Write).expect("it is open");
    server.wait_delivered(4);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(!socket.exists(), "the last one removes it");
    let written = String::from_utf8(setup.written()).expect("as it was sent");
    let mut lines: Vec<&str> = written.lines().collect();
    lines.sort_unstable();
    let expected =
        ["a frame of syslog, cut in 3", "all of it", "from this machine", "one line, cut in three"];
    assert_eq!(lines, expected);
}

/// Feeds numbered lines up to a limit.
fn feed(mut to: impl Write, leave: &Receiver<u64>) {
    let mut next = 0;
    for until in leave {
        let mut text = Vec::new();
        while next < until {
            writeln!(text, "{next}").expect("a Vec takes every byte");
            next += 1;
        }
        to.write_all(&text).expect("bbq send reads");
    }
}

#[test]
fn what_a_client_sends_is_there_once_through_upgrades() {
    let setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}"]);
    let mut server = Lineage::start(&setup);
    let mut sender = Command::new(BBQ);
    sender.args(["send", "--quiet", "--to", &format!("bbq://{}", setup.address(0))]);
    let mut sender = Program::start(sender.stdin(Stdio::piped()));
    let stdin = sender.stdin.take().expect("piped");
    std::thread::scope(|scope| {
        let _guard = sender.killed_if_this_fails();
        let (let_go, leave) = sync_channel(1);
        scope.spawn(move || feed(stdin, &leave));
        let step = LINES / (UPGRADES + 1);
        for upgrade in 1..=UPGRADES {
            let_go.send(upgrade * step).expect("it feeds");
            server.wait_status("some of it", |status| {
                status["ledger"]["received"].as_u64() > Some((upgrade - 1) * step)
            });
            server.upgrade();
        }
        let_go.send(LINES).expect("it feeds");
    });
    assert!(sender.wait().expect("it was ours").success());
    server.wait_delivered(LINES);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let written = String::from_utf8(setup.written()).expect("as it was sent");
    let mut times = vec![0u8; LINES as usize];
    for line in written.lines() {
        times[line.parse::<usize>().expect("a number")] += 1;
    }
    assert_eq!(times.iter().filter(|times| **times != 1).count(), 0, "missing or twice");
}

#[test]
fn no_flow_of_datagrams_changes_its_worker() {
    let setup = Setup::new(&["lines+udp://127.0.0.1:{0}?distribution=reuseport"]).sink_query("?format=json");
    let setup = setup.with(&["--workers", "4"]).config(RESCUE_OFF);
    let mut server = Lineage::start(&setup);
    let inodes = server.inodes("udp", setup.ports[0]);
    let flows: Vec<UdpSocket> = (0..FLOWS)
        .map(|_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            socket.connect(setup.address(0)).expect("an address");
            socket
        })
        .collect();
    let mut rounds = 0;
    let mut send = |server: &Lineage<'_>| {
        for (number, flow) in flows.iter().enumerate() {
            flow.send(format!("{number}").as_bytes()).expect("it is taken");
        }
        rounds += 1;
        server.wait_delivered(rounds * FLOWS as u64);
    };
    for number in 0..3 {
        send(&server);
        fs::write(
            setup.path().join("bbq.toml"),
            format!("{RESCUE_OFF}drain_timeout_seconds = {}\n", 10 + number),
        )
        .expect("a configuration");
        server.reload();
        send(&server);
        server.upgrade();
    }
    send(&server);
    assert_eq!(server.inodes("udp", setup.ports[0]), inodes);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let mut workers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in String::from_utf8(setup.written()).expect("JSON").lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let flow = row["message"].as_str().expect("a message").to_owned();
        workers.entry(flow).or_default().push(row["worker"].as_u64().expect("a worker"));
    }
    assert_eq!(workers.len(), FLOWS);
    let changed =
        workers.values().filter(|workers| workers.iter().any(|worker| *worker != workers[0])).count();
    assert_eq!(changed, 0);
    let used: std::collections::BTreeSet<u64> = workers.values().map(|workers| workers[0]).collect();
    assert_eq!(used.len(), 4, "or it shows nothing");
}
