//! rsyslog and syslog-ng, which keep messages while bbq is away.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::page::{block, put, spec_of};
use super::{text, unpacked, wait_until};
use crate::authority::Authority;
use crate::support::Setup;
use crate::support::program::Program;

/// More than a queue of rsyslog holds that has no size of its own.
const LINES: usize = 5000;

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

/// Writes the sender's configuration and its input, and starts it. bbq is started when the sender has said that it cannot connect, and
/// has taken everything: it passes each line on to the file `seen`, too.
fn sends_what_it_kept(setup: &Setup, configuration: &str, sender: &mut Command, refused: &str) {
    let input: String = (0..LINES).map(|number| format!("line {number} of the input\n")).collect();
    fs::write(setup.path().join("input"), input).expect("a file");
    fs::write(setup.path().join("sender.conf"), configuration).expect("a file");
    let path = setup.path().join("sender.log");
    let log = fs::File::create(&path).expect("a file");
    let sender = Program::start(
        sender.current_dir(setup.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log),
    );
    let log = || fs::read_to_string(&path).unwrap_or_default();
    wait_until(&format!("{refused:?} of the sender"), || log().contains(refused));
    let last = format!("line {} of the input\n", LINES - 1);
    wait_until("the last line that the sender takes", || {
        fs::read_to_string(setup.path().join("seen")).is_ok_and(|seen| seen.ends_with(&last))
    });
    let server = setup.start();
    // A message may come twice.
    let arrived = || {
        let number =
            |line: &str| line.rsplit_once("line ")?.1.strip_suffix(" of the input")?.parse::<usize>().ok();
        text(setup.written()).lines().map(|line| number(line).unwrap_or(usize::MAX)).collect::<BTreeSet<_>>()
    };
    let start = std::time::Instant::now();
    while arrived().len() < LINES && start.elapsed() < crate::support::PATIENCE {
        std::thread::yield_now();
    }
    let arrived = arrived();
    let missing: Vec<usize> = (0..LINES).filter(|number| !arrived.contains(number)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}\n{}\n{}", log(), setup.log());
    assert_eq!(arrived.len(), LINES, "what the sender did not get arrived");
    drop(sender);
    assert_eq!(server.stop(), Some(0));
}

mod rsyslog {
    use super::*;

    fn sends(example: usize) {
        let has_tls = example == 1;
        let (setup, replaced) = setup(has_tls);
        let paths: &[&str] = if has_tls { &["/etc/rsyslog"] } else { &[] };
        let example = adapted(&block("rsyslog", "", example), &replaced, paths, setup.path());
        // As in Debian's rsyslog.conf; a file instead of the system's log socket.
        let before = "global(workDirectory=\"{dir}\")\nmodule(load=\"imfile\")\ninput(type=\"imfile\" file=\"{dir}/input\" \
                      tag=\"shop:\" severity=\"warning\" facility=\"local3\")\n";
        let behind = "action(type=\"omfile\" file=\"{dir}/seen\")\n";
        let whole = setup.fill(before) + &example + &setup.fill(behind);
        let mut rsyslogd = unpacked::rsyslogd();
        rsyslogd.args(["-n", "-f", "sender.conf", "-i"]).arg(setup.path().join("sender.pid"));
        sends_what_it_kept(&setup, &whole, &mut rsyslogd, "cannot connect to");
        assert!(text(setup.written()).starts_with("<156>1 "), "local3.warning of RFC 5424");
    }

    #[test]
    fn sends_in_plain_text_what_it_kept() {
        sends(0);
    }

    #[test]
    fn sends_by_tls_with_a_client_certificate_what_it_kept() {
        sends(1);
    }
}

mod syslog_ng {
    use super::*;

    fn sends(example: usize) {
        let has_tls = example == 1;
        let (setup, replaced) = setup(has_tls);
        let paths: &[&str] =
            if has_tls { &["/var/lib/syslog-ng", "/etc/syslog-ng"] } else { &["/var/lib/syslog-ng"] };
        let example = adapted(&block("syslog-ng", "", example), &replaced, paths, setup.path());
        // A file as Debian's source.
        let before = "@version: 3.35\noptions { use-dns(no); };\n\
                      source s_src { file(\"{dir}/input\" flags(no-parse) read-old-records(yes)); };\n";
        let behind = "log { source(s_src); destination { file(\"{dir}/seen\"); }; };\n";
        let whole = setup.fill(before) + &example + &setup.fill(behind);
        let mut syslog_ng = Command::new("/usr/sbin/syslog-ng");
        syslog_ng.args(["--foreground", "--no-caps", "--stderr", "--cfgfile", "sender.conf"]);
        for (option, file) in [("--persist-file", "persist"), ("--pidfile", "pid"), ("--control", "control")]
        {
            syslog_ng.arg(option).arg(setup.path().join(file));
        }
        sends_what_it_kept(&setup, &whole, &mut syslog_ng, "connection failed");
    }

    #[test]
    fn sends_in_plain_text_what_it_kept() {
        sends(0);
    }

    #[test]
    fn sends_by_tls_with_a_client_certificate_what_it_kept() {
        sends(1);
    }
}
