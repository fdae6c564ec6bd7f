//! If this fails, a configuration file that is cut off or still being written closes every listener or removes every sink; or a
//! change that takes them away cannot be made when it is meant; or another web site can make a server reload.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use crate::support::lineage::Lineage;
use crate::support::{BBQ, PATIENCE, Setup, free_ports};
use rustix::process::Signal;

/// Each of the first lines is valid TOML together with those before it.
const WHOLE: &str = "# the server of this test\n\
                     workers = 1\n\
                     drain_timeout_seconds = 1\n\
                     listen = [\"lines+tcp://127.0.0.1:{0}\", \"lines+tcp://127.0.0.1:{1}\"]\n\
                     [[sink]]\n\
                     spec = \"file:{dir}/out.log\"\n\
                     name = \"first\"\n\
                     [[sink]]\n\
                     spec = \"file:{dir}/other.log\"\n\
                     name = \"second\"\n";

fn setup() -> Setup {
    let mut setup = Setup::new(&[]);
    setup.ports = free_ports(3);
    setup.set_sinks(&[]);
    let text = setup.fill(WHOLE);
    setup.config(&text)
}

fn write(setup: &Setup, text: &str) {
    let text = setup.fill(text);
    fs::write(setup.path().join("bbq.toml"), text).expect("a configuration");
}

/// The first lines of the file.
fn first(lines: usize) -> String {
    WHOLE.lines().take(lines).map(|line| line.to_owned() + "\n").collect()
}

fn reload(setup: &Setup, options: &[&str]) -> Output {
    let output = Command::new(BBQ).args(["reload", "--admin", &setup.admin()]).args(options).output();
    output.expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned()
}

fn is_open(setup: &Setup, index: usize) -> bool {
    TcpStream::connect(setup.address(index)).is_ok()
}

#[test]
fn a_file_that_is_cut_off_is_refused_with_what_is_missing() {
    let setup = setup();
    let server = Lineage::start(&setup);
    let all = ["every listener (", "open the default listeners instead", "every sink (first, second)"];
    let three: &[&str] = &[all[0], all[1], all[2], "ends with line 3, and lacks 7 lines of the earlier file"];
    let four: &[&str] = &[all[2], "ends with line 4"];
    let seven: &[&str] = &["ends with line 7, and lacks 3 lines of the earlier file"];
    for (lines, words) in [(3, three), (4, four), (7, seven)] {
        write(&setup, &first(lines));
        let why = server.refused(Signal::HUP);
        for word in words.iter().chain(&["send SIGHUP again within 10 s", "bbq reload --anyway"]) {
            assert!(why.contains(word), "{lines}: no {word:?} in {why}");
        }
        let why = server.refused(Signal::USR2);
        assert!(
            why.contains(words[0]) && why.contains("send SIGUSR2 again"),
            "an upgrade reads it, too: {why}"
        );
        let asked = reload(&setup, &[]);
        assert!(asked.status.code() == Some(1) && said(&asked).contains(words[0]), "{asked:?}");
    }
    write(&setup, "# nothing\n");
    let why = server.refused(Signal::HUP);
    assert!(why.contains("back to the defaults (drain_timeout_seconds, workers, listen, sink"), "{why}");
    assert!(is_open(&setup, 0) && is_open(&setup, 1));
    TcpStream::connect(setup.address(1)).expect("it listens").write_all(b"still here\n").expect("it reads");
    server.wait_delivered(1);
    write(&setup, WHOLE);
    server.reload();
    assert!(server.status()["refused_change"].is_null());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn a_change_that_is_meant_is_made_when_it_is_asked_for_again() {
    let setup = setup();
    let server = Lineage::start(&setup);
    let (before, behind) = WHOLE.split_once("listen = ").expect("a key");
    let (_, behind) = behind.split_once('\n').expect("a line");
    write(&setup, &format!("{before}listen = [\"lines+tcp://127.0.0.1:0\"]\n{behind}"));
    server.refused(Signal::HUP);
    assert!(is_open(&setup, 0));
    server.reload();
    assert!(!is_open(&setup, 0) && !is_open(&setup, 1), "the second signal says that it is meant");
    // What is added, and what takes away only a part, is made at once.
    write(&setup, WHOLE);
    assert_eq!(said(&reload(&setup, &["--anyway"])), "reloaded\n");
    assert!(is_open(&setup, 0) && is_open(&setup, 1));
    write(&setup, &WHOLE.replace(", \"lines+tcp://127.0.0.1:{1}\"", "").replace("other", "third"));
    let asked = reload(&setup, &[]);
    assert_eq!((asked.status.code(), &*said(&asked)), (Some(0), "reloaded\n"));
    assert!(is_open(&setup, 0) && !is_open(&setup, 1));
    assert_eq!(said(&reload(&setup, &[])), "reloaded: nothing has changed\n");
    write(&setup, "workers = \"no number\"\n");
    let asked = reload(&setup, &["--anyway"]);
    assert!(asked.status.code() == Some(1) && said(&asked).contains("bbq.toml:1:"), "{asked:?}");
    write(&setup, &first(4));
    assert_eq!(reload(&setup, &["--anyway"]).status.code(), Some(0));
    let sinks = &server.status()["sinks"];
    assert!(
        sinks[0]["spec"].as_str().expect("a sink").ends_with("messages.log"),
        "the default one: {sinks:#}"
    );
    assert_eq!(reload(&setup, &["--certainly"]).status.code(), Some(2));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let gone = reload(&setup, &[]);
    assert!(gone.status.code() == Some(1) && said(&gone).contains("no server listens"), "{gone:?}");
}

/// Sends a request as a browser or a script does; returns the status.
fn post(setup: &Setup, method: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(setup.admin()).expect("the admin listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let request = format!("{method} /reload HTTP/1.1\r\nContent-Length: 0\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("no HTTP: {answer}"))
}

#[test]
fn only_a_program_that_may_ask_makes_a_server_reload() {
    let setup = setup();
    let server = Lineage::start(&setup);
    let reloads = || server.count("reloaded");
    for (method, headers, code) in [
        ("GET", "Host: localhost\r\n", 405),
        ("POST", "Host: somewhere.example\r\n", 403),
        ("POST", "Host: localhost\r\nOrigin: http://localhost\r\n", 403),
        ("POST", "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", 403),
    ] {
        assert_eq!(post(&setup, method, headers), code, "{method} {headers}");
    }
    assert_eq!(reloads(), 0);
    assert_eq!(post(&setup, "POST", "Host: localhost\r\n"), 200);
    setup.wait_log("reloaded");
    assert_eq!(reloads(), 1);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());

    let tokens = setup.path().join("tokens");
    fs::write(&tokens, "ops 0123456789abcdef0123456789abcdef\n").expect("tokens");
    fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its owner's");
    write(&setup, &format!("admin_token_file = \"{{dir}}/tokens\"\n{WHOLE}"));
    let mut ready = setup.command();
    let mut server = ready.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let token = |text: &str| {
        let path = setup.path().join("token");
        fs::write(&path, text).expect("a token");
        path.display().to_string()
    };
    let right = token("0123456789abcdef0123456789abcdef\n");
    let waited = Command::new(BBQ)
        .args(["status", "--wait", "30", "--admin", &setup.admin(), "--token-file", &right])
        .output()
        .expect("it runs");
    assert!(waited.status.success(), "{waited:?}");
    let without = reload(&setup, &[]);
    assert!(without.status.code() == Some(1) && said(&without).contains("asks for a token"), "{without:?}");
    assert_eq!(reload(&setup, &["--token-file", &right]).status.code(), Some(0));
    let wrong = token("0123456789abcdef0123456789abcdee\n");
    assert!(said(&reload(&setup, &["--token-file", &wrong])).contains("asks for another token"));
    server.kill().expect("it runs");
    server.wait().expect("it was ours");
}
