//! If this fails, a command that hangs holds up the server or another sink, is not ended or not waited for at a stop, or leaves zombies and
//! descriptors; or it gets descriptors and signals that are the server's.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::exec::{setup, wait_line, wait_pid, write_script};
use super::http::{lines, wait_problem};
use crate::support::lineage::Lineage;
use crate::support::process::descriptors;
use crate::support::{BBQ, PATIENCE, Server, Setup, pause, run};

/// Processes whose parent this is, zombies included.
fn children(pid: u32) -> Vec<String> {
    let of_thread =
        |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    threads
        .map(of_thread)
        .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Waits until a process has ended. As it was orphaned, it may be a zombie of this process then.
fn wait_gone(setup: &Setup, pid: Pid) {
    let start = Instant::now();
    let state = || fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let runs = |state: &str| state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'));
    while runs(&state()) {
        assert!(start.elapsed() < PATIENCE, "{pid:?} does not end\n{}", setup.log());
        pause();
    }
}

fn set_drain_timeout(setup: &Setup, seconds: u32) {
    let text = format!("drain_timeout_seconds = {seconds}\n");
    fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
}

/// It ignores SIGTERM, too, and has a child that does.
#[test]
fn a_command_that_hangs_holds_up_nobody_and_ends_with_the_server() {
    const LINES: u64 = 100_000;
    for ack in ["read", "line"] {
        let mut setup = setup("null:");
        setup.set_sinks(&[&format!("exec:exec sh script?ack={ack}"), "file:{dir}/out.log"]);
        write_script(
            &setup,
            "trap '' TERM\nsleep 1000 & echo $! > child\necho $$ > new; mv new pid.$(ls pid.* 2> /dev/null | wc -l)\nwait",
        );
        set_drain_timeout(&setup, 1);
        let mut server = Lineage::start(&setup);
        let mut client = TcpStream::connect(setup.address(0)).expect("it listens");
        client.write_all(&lines(0..LINES as u32)).expect("it reads");
        server.wait_status("delivery to the file", |status| status["sinks"][1]["delivered"] == LINES);
        let first = wait_pid(&setup, "pid.0");
        set_drain_timeout(&setup, 2);
        server.reload();
        wait_gone(&setup, first);
        let second = wait_pid(&setup, "pid.1");
        server.upgrade();
        wait_gone(&setup, second);
        let third = wait_pid(&setup, "pid.2");
        let child = wait_pid(&setup, "child");
        client.write_all(&lines(LINES as u32..LINES as u32 + 1)).expect("it reads");
        let status = server.wait_status("one more", |status| status["sinks"][1]["delivered"] == LINES + 1);
        assert_eq!(status["sinks"][0]["delivered"], 0, "{status:#}");
        assert_eq!(status["sinks"][0]["queued"], LINES + 1, "{status:#}");
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        wait_gone(&setup, third);
        wait_gone(&setup, child);
        assert!(setup.written() == lines(0..LINES as u32 + 1));
    }
}

/// The command reads to the end, and then waits for the test.
#[test]
fn a_stop_closes_standard_input_and_waits_for_the_command() {
    for query in ["?ack=read", "?ack=line"] {
        let setup = setup(&format!("exec:exec sh script{query}"));
        let go = setup.path().join("go");
        assert!(Command::new("mkfifo").arg(&go).status().expect("it runs").success());
        // With `ack=line` everything is acknowledged at the end alone.
        let acknowledge = if query.ends_with("line") { "wc -l < out.log" } else { ":" };
        write_script(
            &setup,
            &format!("cat > out.log; echo ended > ended; read go < go; {acknowledge}; echo done >> out.log"),
        );
        let mut server = setup.start();
        server.send(0, &lines(0..1000));
        server.wait_status("all of it", |status| status["ledger"]["received"] == 1000);
        server.signal(libc::SIGTERM);
        wait_line(&setup, &setup.path().join("ended"));
        assert!(server.child.try_wait().expect("it is a child").is_none(), "{}", setup.log());
        fs::write(&go, "\n").expect("the command reads");
        assert_eq!(server.wait_end(), Some(0), "{}", setup.log());
        assert!(setup.written() == [&lines(0..1000)[..], b"done\n"].concat());
        assert!(setup.log().contains("delivered=1000"), "{}", setup.log());
    }
}

/// The rest is in the pipe when the command is ended.
#[test]
fn a_stop_counts_only_what_the_command_has_read() {
    let setup = setup("exec:IFS= read -r line && echo \"$line\" >> out.log; exec sleep 1000");
    set_drain_timeout(&setup, 1);
    let server = setup.start();
    server.send(0, &lines(0..10));
    server.wait_status("the first", |_| setup.written() == lines(0..1));
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait_end(), Some(0), "{}", setup.log());
    // Whether the first counts as delivered depends on when the last commit was.
    let log = setup.log();
    assert!(
        log.contains("ledger.queued=10 ") || log.contains("ledger.delivered=1 ledger.queued=9 "),
        "{log}"
    );
    let server = setup.start();
    // Whether the first comes again depends on when the last commit was.
    let again = [lines(0..1), lines(0..1)].concat();
    server.wait_status("another", |_| [&again, &lines(0..2)].contains(&&setup.written()));
}

#[test]
fn runs_leave_no_zombie_and_no_descriptor() {
    let setup = setup("exec:IFS= read -r line && echo \"$line\" >> out.log; exit 1");
    let server = setup.start();
    server.send(0, &lines(0..2));
    server.wait_delivered(2);
    let count = |server: &Server<'_>| {
        // Between two runs, when nothing else is open.
        let start = Instant::now();
        loop {
            let before = descriptors(server.pid());
            if children(server.pid()).is_empty() && before == descriptors(server.pid()) {
                return before;
            }
            assert!(start.elapsed() < PATIENCE, "children: {:?}\n{}", children(server.pid()), setup.log());
        }
    };
    let before = count(&server);
    server.send(0, &lines(2..12));
    server.wait_delivered(12);
    let after = count(&server);
    assert!(after <= before + 1, "{before} descriptors became {after}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(setup.written() == lines(0..12));
}

/// Its processes have the reading end of the pipe, and the writing ends of both outputs.
#[test]
fn a_child_that_keeps_the_pipes_open_holds_up_no_new_run() {
    let setup = setup(
        "exec:exec 3<&0; sleep 1000 <&3 3<&- & echo $! >> children; IFS= read -r line && echo \"$line\" >> out.log; exit 1",
    );
    let server = setup.start();
    server.send(0, &lines(0..3));
    server.wait_delivered(3);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(setup.written() == lines(0..3));
    for pid in fs::read_to_string(setup.path().join("children")).expect("they are listed").lines() {
        // The command ended by itself, so nobody ended its child.
        let pid = Pid::from_raw(pid.parse().expect("a number")).expect("a process");
        let _ended = kill_process(pid, Signal::KILL);
    }
}

/// One that has begun again when the stop comes ends at the end of its input.
#[test]
fn a_command_that_closes_its_input_and_goes_on_is_ended() {
    let setup =
        setup("exec:IFS= read -r line || exit 0; echo \"$line\" >> out.log; exec 0<&-; exec sleep 1000");
    let server = setup.start();
    server.send(0, &lines(0..2));
    wait_problem(&server, "closed its standard input and went on");
    server.wait_delivered(2);
    set_drain_timeout(&setup, 0);
    server.signal(libc::SIGTERM);
    assert_eq!(server.wait_end(), Some(0), "{}", setup.log());
    assert!(setup.written() == lines(0..2));
}

#[test]
fn a_command_gets_no_descriptor_signal_or_group_of_the_server() {
    const DESCRIPTORS: &str = "ls /proc/$$/fd > fds";
    let setup = setup(&format!(
        "exec:{DESCRIPTORS}; echo $$ > shell; cat /proc/self/status > status; env > env; cat > out.log"
    ))
    .with(&["--listen", "syslog+udp://127.0.0.1:0"]);
    // The same shell without a server: this process, too, may have inherited some.
    let mut shell = Command::new("sh");
    run(shell.args(["-c", DESCRIPTORS]).current_dir(setup.path()), b"");
    let inherited = fs::read_to_string(setup.path().join("fds")).expect("a file");
    let server = Command::new("env")
        .args(["--default-signal", "NOTIFY_SOCKET=@bbq-test-nobody"])
        .arg(BBQ)
        .args(setup.command().get_args())
        .current_dir(setup.path())
        .stderr(fs::File::create(setup.path().join("log")).expect("a log"))
        .spawn()
        .expect("it starts");
    setup.wait_ready();
    let server = Server { setup: &setup, child: server };
    server.send(0, &lines(0..1));
    server.wait_delivered(1);
    let read = |name: &str| fs::read_to_string(setup.path().join(name)).expect("a file");
    assert_eq!(read("fds"), inherited);
    let status = read("status");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.expect("a field").trim_start_matches(':').trim().to_owned()
    };
    for signals in ["SigBlk", "SigIgn"] {
        // Those above 31 are the C library's.
        let set = u64::from_str_radix(&field(signals), 16).expect("a number");
        assert_eq!(set & 0x7fff_ffff, 0, "{signals}\n{status}");
    }
    // The shell leads its group.
    assert_eq!(field("NSpgid").split_whitespace().next_back(), Some(read("shell").trim()));
    assert!(!read("env").contains("NOTIFY_SOCKET"), "{}", read("env"));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn what_a_command_writes_is_logged_and_limited() {
    let setup = setup(
        "exec:echo to output; yes flood | head -100000 >&2; head -c 30000000 /dev/zero >&2; echo > ready; cat > out.log",
    );
    let server = setup.start();
    wait_line(&setup, &setup.path().join("ready"));
    server.send(0, &lines(0..10));
    server.wait_delivered(10);
    server.wait_log("the command wrote: to output");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let flood = setup.log().lines().filter(|line| line.contains("standard error: flood")).count();
    assert!((1..=100).contains(&flood), "{flood} lines");
    assert!(setup.log().len() < 100_000);
}
