//! If this fails, a mistake in the configuration or on the command line is accepted, or its message does not say where the mistake is
//! and what to write, or a program that calls bbq cannot tell success from failure.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use bbq_server::KINDS;

use crate::support::mounts::{in_own_mounts, mount_small};
use crate::support::namespace::in_own_network;
use crate::support::{BBQ, Server, Setup, free_ports, refused_start};

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
        "1.00 GiB",
        "8.00 MiB",
        "admin    off",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(check("# defaults\n").0, Some(0), "a file with only a comment means the defaults");
}

const MEETS: &str = "a server that this user starts now would have these problems on this machine";

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

/// `bbq check` prints this obstacle for a file that is valid.
fn assert_met(file: &str, parts: &[&str]) {
    let (code, text) = check(file);
    assert_eq!(code, Some(0), "the file is valid: {text}");
    let (_, met) = text.split_once(MEETS).unwrap_or_else(|| panic!("no obstacle: {text}"));
    for part in parts {
        assert!(met.contains(part), "{part}: {text}");
    }
}

const NO_SINK: &str = "sink = [\"null:\"]\n";

#[test]
fn a_data_directory_of_another_server_is_in_the_way() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let file = format!(
        "listen = [\"lines+tcp://127.0.0.1:0\"]\nadmin = \"off\"\ndata = {:?}\n{NO_SINK}",
        setup.data()
    );
    let pid = server.pid();
    let in_use = format!("data     {}: it is in use by pid {pid}; stop it", setup.data().display());
    assert_met(&file, &[&in_use, &format!("reload it (kill -HUP {pid})")]);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let (_, free) = check(&file);
    assert!(!free.contains(MEETS), "{free}");
}

#[test]
fn listeners_that_need_one_port_are_in_the_way() {
    let port = free_ports(1)[0];
    let file = format!(
        "listen = [\"lines+tcp://127.0.0.1:{port}\", \"syslog+tcp://0.0.0.0:{port}\"]\nadmin = \"127.0.0.1:{port}\"\n{NO_SINK}"
    );
    let remedy = "give one of them another port";
    assert_met(
        &file,
        &[
            &format!(
                "listen   syslog+tcp://0.0.0.0:{port}: it overlaps lines+tcp://127.0.0.1:{port}; {remedy}"
            ),
            &format!("admin    127.0.0.1:{port}: it overlaps lines+tcp://127.0.0.1:{port}; {remedy}"),
        ],
    );
    // A server does not blame another process.
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}", "syslog+tcp://0.0.0.0:{0}"]);
    let (code, said) = refused_start(&mut setup.command());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("this process: its sockets need different addresses"), "{said}");
}

#[test]
fn a_link_to_the_servers_own_file_is_refused_by_the_sink() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    std::os::unix::fs::symlink(setup.data().join("ledger"), setup.path().join("link.log")).expect("a link");
    setup.set_sinks(&["file:{dir}/link.log"]);
    let (code, said) = refused_start(&mut setup.command());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("ledger is where the server keeps its own data; choose another path"), "{said}");
    assert!(!setup.data().join("ledger").exists(), "nothing was written");
}

#[test]
fn an_address_of_another_machine_is_in_the_way() {
    // RFC 5737: no machine has it.
    let file = format!(
        "listen = [\"lines+tcp://192.0.2.1:7701\", \"syslog+udp://192.0.2.1:5514\"]\nadmin = \"off\"\n{NO_SINK}"
    );
    let remedy = "is not an address of this machine; `ip address` lists those that are";
    assert_met(
        &file,
        &[
            &format!("listen   lines+tcp://192.0.2.1:7701: tcp://192.0.2.1:7701 {remedy}"),
            &format!("listen   syslog+udp://192.0.2.1:5514: udp://192.0.2.1:5514 {remedy}"),
        ],
    );
}

#[test]
fn a_port_that_needs_a_privilege_is_in_the_way() {
    const PRIVILEGED: &str = "net.ipv4.ip_unprivileged_port_start=100";
    const FREE: &str = "net.ipv4.ip_unprivileged_port_start=0";
    let test = "configuration::a_port_that_needs_a_privilege_is_in_the_way";
    in_own_network(test, &[PRIVILEGED, FREE], || {
        let directory = tempfile::tempdir().expect("a directory");
        let listen =
            "listen = [\"lines+tcp://127.0.0.1:99\", \"syslog+udp://[::]:99\", \"http+tcp://127.0.0.1:100\"]";
        fs::write(
            directory.path().join("bbq.toml"),
            format!("{listen}\nadmin = \"127.0.0.1:98\"\n{NO_SINK}"),
        )
        .expect("a file");
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_bind_service", BBQ, "check", "bbq.toml"]);
        let (code, text) = refused_start(command.current_dir(directory.path()));
        assert_eq!(code, Some(0), "{text}");
        let start = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").expect("a number");
        if start.trim() == "0" {
            assert!(!text.contains(MEETS), "{text}");
            return;
        }
        for address in ["99: tcp://127.0.0.1:99", "udp://[::]:99", "admin    tcp://127.0.0.1:98"] {
            let told = format!("{address} is a privileged port; grant CAP_NET_BIND_SERVICE");
            assert!(text.contains(&told), "{text}");
        }
        assert!(!text.contains("127.0.0.1:100 is a privileged port"), "{text}");
        // With the privilege nothing is in the way.
        let (_, text) = refused_start(bbq(&["check", "bbq.toml"]).current_dir(directory.path()));
        assert!(!text.contains(MEETS), "{text}");
    });
}

#[test]
fn a_sink_that_cannot_write_its_file_is_in_the_way() {
    in_own_mounts("configuration::a_sink_that_cannot_write_its_file_is_in_the_way", || {
        let directory = tempfile::tempdir().expect("a directory");
        let closed = directory.path().join("closed");
        mount_small(&closed, 1024);
        let file = closed.join("out.log");
        fs::write(&file, "").expect("a file");
        let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&closed).status();
        assert!(remounted.expect("mount runs").success());
        let (shown, data) = (closed.display(), directory.path().join("data"));
        for (path, told) in [
            (format!("{shown}"), format!("{shown} names a directory; write the path of a file")),
            (format!("{shown}/a/"), format!("{shown}/a/ names a directory; write the path of a file")),
            (format!("{shown}/out.log"), format!("cannot write to {shown}/out.log: Read-only file system")),
            (format!("{shown}/a/b.log"), format!("cannot write into {shown}: Read-only file system")),
            (format!("{shown}/out.log/a"), format!("{shown}/out.log is not a directory")),
        ] {
            let sink = format!("admin = \"off\"\ndata = {data:?}\nsink = [\"file:{path}\"]\n");
            assert_met(&sink, &[&format!("sink     file:{path}: "), &told]);
        }
        assert!(!data.exists(), "it created something");
    });
}

/// A user may write to a file in a directory that is closed to the user, such as /var/log.
#[test]
fn a_file_that_exists_needs_no_directory_unless_it_is_set_aside() {
    in_own_mounts("configuration::a_file_that_exists_needs_no_directory_unless_it_is_set_aside", || {
        let directory = tempfile::tempdir().expect("a directory");
        let closed = directory.path().join("closed");
        mount_small(&closed, 1024);
        let (outside, inside) = (directory.path().join("out.log"), closed.join("out.log"));
        for file in [&outside, &inside] {
            fs::write(file, "").expect("a file");
        }
        let mount = |options: &[&str]| Command::new("mount").args(options).status().expect("mount runs");
        assert!(mount(&["-o", "remount,ro", &closed.display().to_string()]).success());
        let [from, to] = [&outside, &inside].map(|path| path.display().to_string());
        assert!(mount(&["--bind", &from, &to]).success());
        let file = |options: &str| {
            format!("admin = \"off\"\ndata = {:?}\nsink = [\"file:{to}{options}\"]\n", directory.path())
        };
        let (_, text) = check(&file(""));
        assert!(!text.contains(MEETS), "{text}");
        assert_met(&file("?rotate=daily"), &[&format!("this user cannot write into {}", closed.display())]);
    });
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
        ("listen = [\"lines+tcp://127.0.0.1:1\", \"syslog+tcp://127.0.0.1:1\"]\n", "of another listener"),
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
        // In a table, the place is that of the key or the value.
        (
            "[[sink]]\nspec = \"file:a\"\n formt = \"json\"\n",
            "bbq.toml:3:2: \"file:a?formt=<hidden>\": unknown option",
        ),
        ("[[sink]]\nspec = \"file:a\"\nformat = \"xml\"\n", "bbq.toml:3:10: \"file:a?format=xml\": format: "),
        ("[[sink]]\nspec = \"file:a\"\nkeep = [3]\n", "bbq.toml:3:8: keep is of type array"),
        ("[[sink]]\nname = \"a\"\nspec = \"fil:a\"\n", "bbq.toml:3:8: \"fil:a\" is not a sink"),
        ("[[sink]]\nname = \"a\"\nspec = \"file:a?formt=json\"\n", "bbq.toml:3:8: "),
        (
            "[[sink]]\nspec = \"file:a?keep=2\"\n\nkeep = 3\n",
            "bbq.toml:4:1: \"file:a?keep=<hidden>\": keep is given twice",
        ),
        ("[[listen]]\nspec = \"lines+tcp://127.0.0.1:1\"\nbacklog = 0\n", "bbq.toml:3:11: "),
        ("[[listen]]\nbacklog = 9\nspec = \"syslog+udp://127.0.0.1:1\"\n", "bbq.toml:2:1: "),
        ("workers = 1.5\n", "bbq.toml:1:11: workers is of type float; allowed: 1 to 256"),
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
fn a_data_directory_that_cannot_be_written_is_refused_with_the_remedy() {
    let test = "configuration::a_data_directory_that_cannot_be_written_is_refused_with_the_remedy";
    in_own_mounts(test, || {
        let directory = tempfile::tempdir().expect("a directory");
        mount_small(directory.path(), 1024);
        fs::create_dir(directory.path().join("there")).expect("a directory");
        let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(directory.path()).status();
        assert!(remounted.expect("mount runs").success());
        for (data, what) in [("new", "cannot create"), ("there", "cannot open")] {
            let path = directory.path().join(data);
            let (code, text) = refused_start(bbq(&["serve", "--data"]).arg(&path));
            assert_eq!(code, Some(1), "{text}");
            for part in [
                &format!("{what} {}", path.display()),
                "the data directory must be writable for this user: change its owner (chown), or choose another with --data",
                "Read-only file system",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    });
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
        (&["-V"], if KINDS.left_out.is_empty() { "(with every sink)" } else { "(without the sinks " }),
    ] {
        let (code, text) = refused_start(&mut bbq(arguments));
        assert!(code == Some(0) && text.contains(says), "{arguments:?}: {text}");
    }
    assert_eq!(refused_start(&mut bbq(&["sent"])).0, Some(2));
    // What each key means is told by `bbq config explain`.
    let lines = refused_start(&mut bbq(&["serve", "--help"])).1.lines().count();
    assert!(lines <= 120, "{lines}");
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
