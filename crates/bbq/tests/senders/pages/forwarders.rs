//! rsyslog and syslog-ng, which keep messages while bbq is away.
//!
//! Syslog has no acknowledgement: for the sender, what it has written to its connection is sent. So a kill of the server loses what was
//! between the sender and the disk, and nothing can be promised for that. What the tests hold bbq to:
//!
//! - without a kill, each message is there once;
//! - what a sink has shown before a kill is there after it;
//! - a kill takes the end of one connection: the messages that are missing are one gap for each kill, and behind what was shown;
//! - what the sender gets when it knows that bbq is away arrives, all of it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::page::{block, put, spec_of};
use super::{comes, text, wait_until};
use crate::authority::Authority;
use crate::support::Setup;
use crate::support::program::Program;
use crate::support::unpacked;

/// More than a queue of rsyslog holds that has no size of its own.
const LINES: usize = 5000;
/// What is sent by TLS.
const MESSAGES: usize = 100_000;
const KILLS: usize = 3;

/// A server for localhost that is not started yet, and the paths of the page with what is there for them.
fn setup(has_tls: bool) -> (Setup, Vec<(&'static str, String)>) {
    if !has_tls {
        let setup = Setup::new(&["syslog+tcp://127.0.0.1:{0}"]);
        let port = setup.ports[0].to_string();
        return (setup, vec![("5514", port)]);
    }
    // The example for syslog-ng is for the same listener.
    let replaced = [("0.0.0.0:6514", "127.0.0.1:{0}"), ("/etc/bbq", "{dir}")];
    let setup = Setup::new(&[&put(&spec_of("rsyslog"), &replaced)]);
    let authority = Authority::new("the CA");
    let [server, client] = ["localhost", "client"].map(|name| authority.issue(name));
    for (from, name) in [
        (&authority.ca(), "clients.pem"),
        (&server.cert, "cert.pem"),
        (&server.key, "key.pem"),
        (&authority.ca(), "ca.pem"),
        (&client.cert, "client.pem"),
        (&client.key, "client.key"),
    ] {
        fs::copy(from, setup.path().join(name)).expect("a copy");
    }
    let port = setup.ports[0].to_string();
    (setup, vec![("6514", port), ("logs.example", "localhost".to_owned())])
}

fn adapted(example: &str, replaced: &[(&'static str, String)], paths: &[&str], directory: &Path) -> String {
    let directory = directory.display().to_string();
    let replaced = replaced.iter().map(|(from, to)| (*from, to.as_str()));
    let paths = paths.iter().map(|path| (*path, directory.as_str()));
    put(example, &replaced.chain(paths).collect::<Vec<_>>())
}

/// Appends lines to the input of the sender.
fn append(setup: &Setup, numbers: Range<usize>) {
    let lines: String = numbers.map(|number| format!("line {number} of the input\n")).collect();
    let mut input = fs::OpenOptions::new();
    let mut input = input.create(true).append(true).open(setup.path().join("input")).expect("a file");
    input.write_all(lines.as_bytes()).expect("there is room");
}

/// Writes the sender's configuration and starts it. Its input has these lines.
fn start(setup: &Setup, configuration: &str, sender: &mut Command, numbers: Range<usize>) -> Program {
    append(setup, numbers);
    fs::write(setup.path().join("sender.conf"), configuration).expect("a file");
    let log = fs::File::create(setup.path().join("sender.log")).expect("a file");
    Program::start(sender.current_dir(setup.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log))
}

fn log_of(setup: &Setup) -> String {
    fs::read_to_string(setup.path().join("sender.log")).unwrap_or_default()
}

/// The number of a line in the output.
fn number(line: &str) -> Option<usize> {
    line.rsplit_once("line ")?.1.strip_suffix(" of the input")?.parse().ok()
}

/// The numbers in the complete lines of the output, in its order.
fn numbers(setup: &Setup) -> Vec<usize> {
    let written = text(setup.written());
    let complete = written.rsplit_once('\n').map_or("", |(complete, _)| complete);
    complete.lines().map(|line| number(line).unwrap_or_else(|| panic!("nobody sent {line:?}"))).collect()
}

/// Starts the sender. bbq is started when the sender has said that it cannot connect, and has taken everything: it passes each line on to
/// the file `seen`, too.
fn sends_what_it_kept(setup: &Setup, configuration: &str, sender: &mut Command, refused: &str) {
    let sender = start(setup, configuration, sender, 0..LINES);
    wait_until(&format!("{refused:?} of the sender"), || log_of(setup).contains(refused));
    let last = format!("line {} of the input\n", LINES - 1);
    wait_until("the last line that the sender takes", || {
        fs::read_to_string(setup.path().join("seen")).is_ok_and(|seen| seen.ends_with(&last))
    });
    let server = setup.start();
    // A message may come twice.
    let arrived = || numbers(setup).into_iter().collect::<BTreeSet<_>>();
    comes(|| arrived().len() >= LINES);
    let arrived = arrived();
    let missing: Vec<usize> = (0..LINES).filter(|number| !arrived.contains(number)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}\n{}\n{}", log_of(setup), setup.log());
    assert_eq!(arrived.len(), LINES, "what the sender did not get arrived");
    drop(sender);
    assert_eq!(server.stop(), Some(0));
}

/// Lets a sender send 100,000 messages in parts, and kills the server in the middle of each part but the last. `notices` waits until the
/// sender has noticed so many kills.
fn loses_only_what_is_on_its_way(
    setup: &Setup,
    configuration: &str,
    sender: &mut Command,
    kills: usize,
    notices: impl Fn(usize),
) {
    let part = MESSAGES / (kills + 1);
    let begin = Instant::now();
    let mut server = setup.start();
    let sender = start(setup, configuration, sender, 0..part);
    let mut shown = BTreeSet::new();
    for kill in 1..=kills {
        wait_written(setup, part * kill - part / 2);
        server.kill();
        shown.extend(numbers(setup));
        notices(kill);
        append(setup, part * kill..part * (kill + 1));
        server = setup.start();
    }
    wait_written(setup, MESSAGES - 1);
    let seconds = begin.elapsed().as_secs_f64();
    drop(sender);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let numbers = numbers(setup);
    let stored: BTreeSet<usize> = numbers.iter().copied().collect();
    assert!(stored.is_superset(&shown), "a kill took what a sink had shown\n{}", setup.log());
    assert!(stored.last() == Some(&(MESSAGES - 1)), "what the sender did not get arrived");
    let gaps = gaps(&stored);
    let doubled = numbers.len() - stored.len();
    assert!(gaps.len() <= kills, "more gaps than kills: {gaps:?}\n{}\n{}", log_of(setup), setup.log());
    for gap in &gaps {
        // The sender got the next part when the server was dead.
        let behind_shown = gap.start % part > part / 2;
        assert!(behind_shown && gap.end <= gap.start.next_multiple_of(part), "not on its way: {gaps:?}");
    }
    assert!(kills > 0 || doubled == 0, "{doubled} are there twice");
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    eprintln!(
        "{name}: {} of {MESSAGES} stored in {seconds:.1} s, {doubled} twice; lost by {kills} kills: {gaps:?}",
        stored.len()
    );
}

/// Waits until this message, or one behind it, is at the end of the output.
fn wait_written(setup: &Setup, wanted: usize) {
    const LINE_BYTES_MAX: u64 = 1024;
    let is_written = || {
        let Ok(mut output) = fs::File::open(setup.output()) else { return false };
        let length = output.metadata().expect("it is open").len();
        output.seek(SeekFrom::Start(length.saturating_sub(LINE_BYTES_MAX))).expect("a file");
        let mut end = Vec::new();
        output.read_to_end(&mut end).expect("a file");
        let end = String::from_utf8_lossy(&end);
        let complete = end.rsplit_once('\n').map_or("", |(complete, _)| complete);
        complete.lines().next_back().and_then(number) >= Some(wanted)
    };
    assert!(comes(is_written), "message {wanted} did not come\n{}\n{}", log_of(setup), setup.log());
}

/// What is missing of all messages.
fn gaps(stored: &BTreeSet<usize>) -> Vec<Range<usize>> {
    let mut gaps = Vec::new();
    let mut next = 0;
    for &number in stored {
        if number > next {
            gaps.push(next..number);
        }
        next = number + 1;
    }
    gaps
}

mod rsyslog {
    use super::*;

    /// A server, and the configuration and the command of its sender.
    fn prepared(has_tls: bool) -> (Setup, String, Command) {
        let (setup, replaced) = setup(has_tls);
        let paths: &[&str] = if has_tls { &["/etc/rsyslog"] } else { &[] };
        let example = adapted(&block("rsyslog", "", has_tls.into()), &replaced, paths, setup.path());
        // As in Debian's rsyslog.conf; a file instead of the system's log socket.
        let before = "global(workDirectory=\"{dir}\")\nmodule(load=\"imfile\")\ninput(type=\"imfile\" file=\"{dir}/input\" \
                      tag=\"shop:\" severity=\"warning\" facility=\"local3\")\n";
        let behind = "action(type=\"omfile\" file=\"{dir}/seen\")\n";
        let whole = setup.fill(before) + &example + &setup.fill(behind);
        let mut rsyslogd = unpacked::rsyslogd();
        rsyslogd.args(["-n", "-f", "sender.conf", "-i"]).arg(setup.path().join("sender.pid"));
        (setup, whole, rsyslogd)
    }

    fn sends(has_tls: bool) {
        let (setup, configuration, mut rsyslogd) = prepared(has_tls);
        sends_what_it_kept(&setup, &configuration, &mut rsyslogd, "cannot connect to");
        assert!(text(setup.written()).starts_with("<156>1 "), "local3.warning of RFC 5424");
    }

    #[test]
    fn sends_in_plain_text_what_it_kept() {
        sends(false);
    }

    #[test]
    fn sends_by_tls_with_a_client_certificate_what_it_kept() {
        sends(true);
    }

    /// One thread for each queue and all in memory, so that the messages keep their order: the main queue gets a second thread when it has
    /// 40,000 messages, and an action has a second connection while the disk helps its queue.
    fn sends_many(kills: usize) {
        let (setup, configuration, mut rsyslogd) = prepared(true);
        let replaced =
            [("highWatermark=\"5000\"", "highWatermark=\"900000\""), ("Interval=\"5\"", "Interval=\"1\"")];
        let configuration =
            format!("main_queue(queue.workerThreads=\"1\")\n{}", put(&configuration, &replaced));
        // It looks whether its connection has ended before it writes to it.
        loses_only_what_is_on_its_way(&setup, &configuration, &mut rsyslogd, kills, |_| ());
    }

    #[test]
    fn sends_100_000_messages_by_tls() {
        sends_many(0);
    }

    #[test]
    fn loses_by_a_kill_only_what_is_on_its_way_by_tls() {
        sends_many(KILLS);
    }
}

mod syslog_ng {
    use super::*;

    /// A server, and the configuration and the command of its sender.
    fn prepared(has_tls: bool) -> (Setup, String, Command) {
        let (setup, replaced) = setup(has_tls);
        let paths: &[&str] =
            if has_tls { &["/var/lib/syslog-ng", "/etc/syslog-ng"] } else { &["/var/lib/syslog-ng"] };
        let example = adapted(&block("syslog-ng", "", has_tls.into()), &replaced, paths, setup.path());
        // A file as Debian's source.
        let before = "@version: 3.35\noptions { use-dns(no); };\n\
                      source s_src { file(\"{dir}/input\" flags(no-parse) read-old-records(yes) follow-freq(0.1)); };\n";
        let behind = "log { source(s_src); destination { file(\"{dir}/seen\"); }; };\n";
        let whole = setup.fill(before) + &example + &setup.fill(behind);
        let mut syslog_ng = Command::new("/usr/sbin/syslog-ng");
        syslog_ng.args(["--foreground", "--no-caps", "--stderr", "--cfgfile", "sender.conf"]);
        for (option, file) in [("--persist-file", "persist"), ("--pidfile", "pid"), ("--control", "control")]
        {
            syslog_ng.arg(option).arg(setup.path().join(file));
        }
        (setup, whole, syslog_ng)
    }

    fn sends(has_tls: bool) {
        let (setup, configuration, mut syslog_ng) = prepared(has_tls);
        sends_what_it_kept(&setup, &configuration, &mut syslog_ng, "connection failed");
    }

    #[test]
    fn sends_in_plain_text_what_it_kept() {
        sends(false);
    }

    #[test]
    fn sends_by_tls_with_a_client_certificate_what_it_kept() {
        sends(true);
    }

    /// How it sends 100,000 messages without a kill is tested with the listeners that have TLS (`access/real_tls_clients.rs`).
    #[test]
    fn loses_by_a_kill_only_what_is_on_its_way_by_tls() {
        let (setup, configuration, mut syslog_ng) = prepared(true);
        let configuration = put(&configuration, &[("time-reopen(5)", "time-reopen(1)")]);
        // It writes to a connection whose end it has not seen yet.
        let notices = |kill| {
            let is_end =
                |line: &&str| ["connection broken", "connection closed"].iter().any(|end| line.contains(end));
            wait_until("the end that syslog-ng sees", || {
                log_of(&setup).lines().filter(is_end).count() >= kill
            });
        };
        loses_only_what_is_on_its_way(&setup, &configuration, &mut syslog_ng, KILLS, notices);
    }
}
