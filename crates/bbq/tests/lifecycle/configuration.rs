//! If this fails, a mistake in the configuration or on the command line is accepted, or its message does not say where the mistake is
//! and what to write, or a program that calls bbq cannot tell success from failure.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use crate::support::{BBQ, Server, Setup, refused_start};

fn bbq(arguments: &[&str]) -> Command {
    let mut command = Command::new(BBQ);
    command.args(arguments);
    command
}

/// The output of `bbq check` for a file.
fn check(text: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("bbq.toml"), text).expect("a file");
    refused_start(bbq(&["check", "bbq.toml"]).current_dir(directory.path()))
}

#[test]
fn a_right_file_is_shown_as_it_would_be_used() {
    let (code, text) = check(
        "listen = [\"lines+tcp://127.0.0.1:7701?on_full=drop-oldest\", \"syslog+udp://127.0.0.1:5514\"]\n\
         sink = [\"file:out.log?rotate=daily&keep=3\", \"stdout:?format=json\"]\n\
         data = \"the-data\"\nworkers = 3\nadmin = \"off\"\n[spool]\nbytes_max = \"1GiB\"\nsegment_bytes = \"8MiB\"\n",
    );
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "lines+tcp://127.0.0.1:7701?on_full=drop-oldest",
        "syslog+udp://127.0.0.1:5514",
        "file:out.log?rotate=daily&keep=3",
        "the-data",
        "1073741824",
        "8388608",
        "admin    off",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(check("# defaults\n").0, Some(0), "a file with only a comment means the defaults");
}

const MEETS: &str = "on this machine, now, a server of this user would meet";

#[test]
fn what_is_in_the_way_on_this_machine_is_shown() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("an address");
    let (code, text) = check(&format!(
        "listen = [\"lines+tcp://{address}\"]\ndata = \"bbq.toml/data\"\nsink = [\"file:bbq.toml/out.log\"]\n"
    ));
    assert_eq!(code, Some(0), "the file is valid: {text}");
    let (_, met) = text.split_once(MEETS).expect("obstacles");
    let holder = format!("is in use by pid {}", std::process::id());
    for part in
        [&format!("tcp://{address} {holder}"), "data     bbq.toml/data: ", "out.log: ", "is not a directory"]
    {
        assert!(met.contains(part), "{part}: {text}");
    }
    // What the server of this data directory holds is its own.
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let listen = format!("listen = [\"lines+tcp://{}\"]\n", setup.address(0));
    let own = check(&format!("{listen}data = {:?}\nsink = [\"stdout:\"]\n", setup.data())).1;
    assert!(!own.contains(MEETS), "{own}");
    let others = check(&format!("{listen}sink = [\"stdout:\"]\n")).1;
    assert!(others.contains(&format!("is in use by pid {} (bbq)", server.pid())), "{others}");
}

#[test]
fn an_empty_file_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    for text in ["", " \n\t\r\n"] {
        fs::write(directory.path().join("bbq.toml"), text).expect("a file");
        for arguments in
            [&["serve", "--config", "bbq.toml"][..], &["check", "bbq.toml"], &["config", "check", "bbq.toml"]]
        {
            let (code, said) = refused_start(bbq(arguments).current_dir(directory.path()));
            assert_eq!(code, Some(2), "{text:?}: {said}");
            assert!(said.contains("bbq.toml is empty") && said.contains("# defaults"), "{text:?}: {said}");
        }
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1, "it created something");
    }
}

#[test]
fn a_table_is_a_spec_with_its_options_as_keys() {
    let (code, text) = check(
        "[[listen]]\nspec = \"lines+tcp://127.0.0.1:7701\"\nname = \"front door\"\nbacklog = 100\n\
         [[sink]]\nspec = \"file:out.log\"\nformat = \"json\"\nrotate_bytes = \"1MiB\"\nkeep = 3\n\
         [[sink]]\nspec = \"null:\"\nname = \"first\"\n[[sink]]\nspec = \"null:\"\nname = \"second\"\n",
    );
    assert_eq!(code, Some(0), "{text}");
    for part in [
        "lines+tcp://127.0.0.1:7701?backlog=100&name=front door",
        "file:out.log?format=json&keep=3&rotate_bytes=1MiB",
        "null:?name=first",
        "null:?name=second",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn mistakes_in_a_file_name_their_place_and_the_remedy() {
    for (file, says) in [
        ("workers = 2\nlisen = []\n", "bbq.toml:2:1: unknown key \"lisen\"; did you mean \"listen\"?"),
        (
            "[spool]\n  segment_byte = 1\n",
            "bbq.toml:2:3: unknown key \"segment_byte\"; did you mean \"segment_bytes\"?",
        ),
        ("zzz = 1\n", "bbq.toml:1:1: unknown key \"zzz\"; known keys: listen"),
        ("workers = 0\n", "1 to 256"),
        ("workers = \"two\"\n", "bbq.toml:1:11: "),
        ("workers = \n", "bbq.toml:1:"),
        ("admin = \"everywhere\"\n", "bbq.toml:1:9: "),
        ("listen = []\n", "listen has 0; allowed: a list of 1 to 256"),
        ("listen = [\"lnes+tcp://127.0.0.1:1\"]\n", "did you mean \"lines\"?"),
        ("listen = [\"lines+tcp://127.0.0.1:1?on_ful=block\"]\n", "did you mean \"on_full\"?"),
        ("listen = [\"lines+tcp://127.0.0.1:1\", \"syslog+tcp://127.0.0.1:1\"]\n", "listened on twice"),
        ("listen = [\"bbq+tcp://127.0.0.1:1?on_full=drop-newest\"]\n", "contradicts bbq"),
        ("listen = [\"lines+unix:///tmp/x?distribution=reuseport\"]\n", "unix sockets"),
        ("sink = [\"file:a?format=raw\", \"file:a?format=json\"]\n", "two sinks write to file:a"),
        ("sink = [\"file:a\", \"file:./a?name=b\"]\n", "two sinks write to file:./a"),
        ("sink = [\"file:a?keep=2\"]\n", "keep has no meaning without rotate"),
        ("sink = [\"mongodb:a\"]\n", "is not a sink"),
        ("sink = [\"null:\", \"null:\"]\n", "another sink has this name"),
        (
            "[[sink]]\nspec = \"null:\"\nname = \"a\"\n[[sink]]\nspec = \"file:b\"\nname = \"a\"\n",
            "another sink has this name",
        ),
        ("[[sink]]\nspec = \"file:a\"\nformt = \"json\"\n", "did you mean \"format\"?"),
        ("[[sink]]\nname = \"a\"\n", "bbq.toml:1:1: the table has no spec"),
        ("[[sink]]\nspec = \"file:a?keep=2\"\nkeep = 3\n", "keep is given twice"),
        ("[[sink]]\nspec = \"file:a\"\nkeep = [3]\n", "keep is of type array"),
        ("sink = [7]\n", "a SPEC in quotes, or a table"),
        (
            "listen = [\"lines+tcp://127.0.0.1:1?name=a\", \"lines+tcp://127.0.0.1:2?name=a\"]\n",
            "another listener has this name",
        ),
        (
            "listen = [\"lines+tcp://127.0.0.1:1\", \"lines+tcp://127.0.0.1:2?name=lines+tcp://127.0.0.1:1\"]\n",
            "another listener has this name",
        ),
        ("listen = [\"lines+tcp://127.0.0.1:1?name=\"]\n", "is not a name"),
        ("[spool]\nsegment_bytes = \"1KiB\"\n", "allowed: 64KiB to 1GiB"),
        (
            "workers = 4\n[spool]\nbytes_max = \"64MiB\"\nsegment_bytes = \"64MiB\"\n",
            "raise spool.bytes_max or lower spool.segment_bytes",
        ),
        ("[spool]\nbytes_max = \"many\"\n", "bbq.toml:2:13: spool.bytes_max"),
    ] {
        let (code, text) = check(file);
        assert_eq!(code, Some(2), "{file}{text}");
        assert!(text.contains(says), "{file}{text}");
    }
    let (code, text) = refused_start(&mut bbq(&["check", "/nowhere/bbq.toml"]));
    assert!(code == Some(2) && text.contains("/nowhere/bbq.toml"), "{text}");
}

#[test]
fn a_wrong_command_line_opens_and_creates_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("bbq.toml");
    fs::write(&path, "unknown = 1\n").expect("a file");
    for arguments in [
        ["--listen", "lines+tcp://nowhere"],
        ["--listen", "lines+tcp://127.0.0.1:0?what=1"],
        ["--listen", "lines+unix://a.sock?distribution=reuseport"],
        ["--sink", "file:"],
        ["--workers", "0"],
        ["--workers", "none"],
        ["--distribution", "fair"],
        ["--admin", "nowhere"],
        ["--config", "bbq.toml"],
        ["--config", "missing.toml"],
        ["--unknown", "option"],
    ] {
        let mut command = bbq(&["serve"]);
        let (code, text) = refused_start(command.args(arguments).current_dir(directory.path()));
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
        assert!(text.len() > 20, "{arguments:?}: {text}");
        let left = fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(left, 1, "{arguments:?} created something");
    }
}

#[test]
fn each_command_explains_itself() {
    for (arguments, says) in [
        (&["--help"][..], "Usage: bbq"),
        (&["serve", "--help"], "PROTOCOL+TRANSPORT://ADDRESS"),
        (&["send", "--help"], "bbq://HOST:PORT"),
        (&["status", "--help"], "--wait"),
        (&["check", "--help"], "TOML"),
        (&["config", "default"], "#drain_timeout_seconds = 10"),
        (&["config", "schema"], "\"$schema\""),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let (code, text) = refused_start(&mut bbq(arguments));
        assert!(code == Some(0) && text.contains(says), "{arguments:?}: {text}");
    }
    assert_eq!(refused_start(&mut bbq(&["sent"])).0, Some(2));
}

#[test]
fn status_says_when_there_is_no_server() {
    let setup = Setup::new(&[]);
    for arguments in [&["status"][..], &["status", "--json"], &["status", "--wait", "0.2"]] {
        let (code, text) = refused_start(bbq(arguments).args(["--admin", &setup.admin()]));
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&setup.admin()) && !text.contains('{'), "{text}");
    }
    assert_eq!(refused_start(&mut bbq(&["status", "--wait", "-1"])).0, Some(2));
}

#[test]
fn status_shows_sums_of_sockets_or_each() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?distribution=reuseport"]).with(&["--workers", "2"]);
    let server = setup.start();
    server.send(0, b"one\n");
    server.send(0, b"two\n");
    server.wait_delivered(2);
    let status = |option: &[&str]| {
        let (code, text) = refused_start(bbq(&["status", "--admin", &setup.admin()]).args(option));
        assert_eq!(code, Some(0), "{text}");
        text
    };
    let (short, long) = (status(&[]), status(&["-v"]));
    assert!(
        short.contains("2 sockets: accepted 2, queue 0 of 8192, drops 0") && !short.contains("worker 1:"),
        "{short}"
    );
    assert!(
        long.contains("socket 0 worker 0: accepted") && long.contains("socket 1 worker 1: accepted"),
        "{long}"
    );
}

#[test]
fn status_prints_rates_until_a_signal_ends_it() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    server.send(0, b"one\ntwo\n");
    server.wait_delivered(2);
    let mut command = bbq(&["status", "--watch", "0.1", "--admin", &setup.admin()]);
    let mut watching = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(watching.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().trim_start().starts_with("received/s "));
    for _ in 0..3 {
        let line = next();
        let words: Vec<&str> = line.split_whitespace().collect();
        // The connection may be there still.
        assert_eq!((&words[..4], &words[5..]), (&["0"; 4][..], &["none"][..]), "nothing comes");
    }
    watching.kill().expect("it was ours");
    watching.wait().expect("it was ours");
    let (code, text) = refused_start(&mut bbq(&["status", "--watch", "0", "--admin", &setup.admin()]));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("from 0.1 to 86400"), "{text}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let (code, text) = refused_start(&mut bbq(&["status", "--watch", "--admin", &setup.admin()]));
    assert_eq!(code, Some(1), "{text}");
}

#[test]
fn the_admin_can_be_off() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let mut command = bbq(&["serve", "--admin", "off", "--listen", &setup.fill("lines+tcp://127.0.0.1:{0}")]);
    command.arg("--data").arg(setup.data()).arg("--sink").arg(format!("file:{}", setup.output().display()));
    let log = fs::File::create(setup.path().join("log")).expect("a log");
    let server = command.stdin(Stdio::null()).stderr(log).spawn().expect("it starts");
    let mut server = Server { setup: &setup, child: server };
    // Without the admin only the log tells that the server is ready.
    while !setup.log().contains("ready pid=") {
        assert!(server.child.try_wait().expect("it was ours").is_none(), "{}", setup.log());
    }
    assert_eq!(refused_start(bbq(&["status"]).args(["--admin", &setup.admin()])).0, Some(1));
    server.send(0, b"taken\n");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"taken\n");
}

/// `bbq status | head -1`
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let _server = setup.start();
    for arguments in [&["status"][..], &["status", "--json"]] {
        let mut command = bbq(arguments);
        command.args(["--admin", &setup.admin()]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it was ours");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}
