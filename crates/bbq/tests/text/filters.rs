//! If this fails, a listener stores what its rules leave out, or a secret that it should replace, or nobody can tell where messages are.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::process::Command;

use serde_json::Value;

use crate::support::{BBQ, Setup, assert_balanced, free_ports};

fn lines(setup: &Setup) -> Vec<String> {
    String::from_utf8(setup.written()).expect("text").lines().map(str::to_owned).collect()
}

fn filtered(status: &Value, listener: usize) -> u64 {
    status["listeners"][listener]["ledger"]["filtered"].as_u64().expect("a number")
}

#[test]
fn lines_are_left_out_and_replaced_before_the_disk() {
    let setup = Setup::new(&[
        "lines+tcp://127.0.0.1:{0}?where=!message.contains('debug') && bytes > 0&redact=s/password=\\S+/password=***/",
    ]);
    let server = setup.start();
    server.send(0, b"one debug\ntwo password=sesame x\n\nthree debug\nfour\n");
    let status = server.wait_delivered(2);
    assert_eq!(filtered(&status, 0), 3, "{status:#}");
    assert_eq!(status["ledger"]["filtered"], 3, "{status:#}");
    assert_eq!(status["ledger"]["received"], 5, "{status:#}");
    assert_eq!(lines(&setup), ["two password=*** x", "four"]);
    let text = Command::new(BBQ).args(["status", "--admin", &setup.admin()]).output().expect("status runs");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("+ dropped 0 + filtered 3"), "{text}");
    assert!(text.contains("received 5, dropped 0, filtered 3"), "{text}");
    let (_, metrics) = server.probe("/metrics");
    assert!(metrics.contains("bbq_filtered_messages_total 3"), "{metrics}");
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    let secret = walk(&setup).any(|bytes| bytes.windows(6).any(|part| part == b"sesame"));
    assert!(!secret, "the secret is on disk");
    // The count outlives the server.
    let server = setup.start();
    let status = server.wait_delivered(2);
    assert_eq!(filtered(&status, 0), 3, "{status:#}");
}

/// Every file of the data directory, and the output.
fn walk(setup: &Setup) -> impl Iterator<Item = Vec<u8>> {
    let mut directories = vec![setup.data()];
    let mut files = vec![setup.output()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { directories.push(path) } else { files.push(path) }
        }
    }
    files.into_iter().filter_map(|file| std::fs::read(file).ok())
}

#[test]
fn syslog_is_filtered_by_severity_and_what_it_does_not_have_is_kept_and_counted() {
    let setup = Setup::new(&["syslog+udp://127.0.0.1:{0}?where=severity <= 4 || app == 'audit'"]);
    let server = setup.start();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for message in [
        "<34>Oct 11 22:14:15 h su: failed",
        "<38>Oct 11 22:14:15 h su: info",
        "<38>Oct 11 22:14:15 h audit: info",
        "no header",
    ] {
        socket.send_to(message.as_bytes(), setup.address(0)).expect("it listens");
    }
    let status = server.wait_delivered(3);
    assert_eq!(filtered(&status, 0), 1, "{status:#}");
    assert_eq!(status["listeners"][0]["filter_failed"], 1, "{status:#}");
    server.wait_log("cannot evaluate where");
    let said = setup.log();
    assert!(said.contains("the message has no"), "{said}");
    assert_balanced(&server.status());
}

#[test]
fn a_share_of_the_messages_is_kept_and_nothing_else_is_lost() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?sample=0.2"]);
    let server = setup.start();
    let sent: String = (0..10_000).map(|number| format!("{number}\n")).collect();
    server.send(0, sent.as_bytes());
    let status = server.wait_status("all", |status| status["ledger"]["received"] == 10_000);
    let kept = 10_000 - filtered(&status, 0);
    // Six standard deviations.
    assert!((1760..2240).contains(&kept), "{kept}");
    server.wait_delivered(kept);
    let numbers: Vec<u64> = lines(&setup).iter().map(|line| line.parse().expect("a number")).collect();
    assert!(numbers.is_sorted() && numbers.len() as u64 == kept, "{} of {kept}", numbers.len());
}

#[test]
fn a_wrong_rule_is_refused_with_its_place() {
    let setup = Setup::new(&[]);
    for (table, says) in [
        ("where = 'severity <= \"4\"'", "where: column 10: an integer does not compare with a text"),
        ("where = 'sverity == 1'", "\"sverity\" is not a name (did you mean \"severity\"?)"),
        ("redact = [{ pattern = '(', with = '' }]", "redact: replacement 1: \"(\" is not a pattern"),
        ("sample = 1.5", "sample: \"1.5\" is not a share"),
        ("parse = 'xml'", "json, logfmt, syslog or /PATTERN/"),
    ] {
        let path = setup.path().join("bbq.toml");
        let text = format!("[[listen]]\nspec = 'lines+tcp://127.0.0.1:1'\n{table}\n");
        std::fs::write(&path, text).expect("a file");
        let checked = Command::new(BBQ).arg("check").arg(&path).output().expect("check runs");
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.code() == Some(2) && said.contains(says), "{table}: {said}");
        assert!(said.contains("bbq.toml:3:"), "{table}: {said}");
    }
}

#[test]
fn a_file_may_have_fractions_lists_and_expressions_of_several_lines() {
    let port = free_ports(1)[0];
    let setup = Setup::new(&[]).config(&format!(
        "[[listen]]\nspec = 'lines+tcp://127.0.0.1:{port}'\nsample = 1.0\nparse = 'json'\n\
         where = \"\"\"\nparsed.level != 'debug'\n  && parsed.n < 3 // few\n\"\"\"\n\
         redact = ['s/a/b/', {{ pattern = 'key=(\\w)\\w*', with = 'key=$1*' }}]\n"
    ));
    let server = setup.start();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream
        .write_all(b"{\"level\":\"debug\",\"n\":1}\n{\"level\":\"info\",\"n\":9}\n{\"level\":\"info\",\"n\":2,\"x\":\"a key=uvw\"}\n")
        .expect("it reads");
    drop(stream);
    let status = server.wait_delivered(1);
    assert_eq!(filtered(&status, 0), 2, "{status:#}");
    assert_eq!(lines(&setup), ["{\"level\":\"info\",\"n\":2,\"x\":\"b key=u*\"}"]);
}

#[test]
fn rules_are_tested_without_a_server() {
    let setup = Setup::new(&[]);
    let path = |name: &str| setup.path().join(name);
    let config = "sink = ['file:/tmp/a?name=archive']\n[[listen]]\nspec = 'syslog+tcp://127.0.0.1:1'\nname = 'in'\n\
                  where = 'severity <= 4'\nredact = 's/password=\\S+/***/'\n";
    std::fs::write(path("bbq.toml"), config).expect("a file");
    let check = |cases: &str| {
        std::fs::write(path("cases.toml"), cases).expect("a file");
        let mut command = Command::new(BBQ);
        command.arg("check").arg(path("bbq.toml")).arg("--test").arg(path("cases.toml"));
        let output = command.output().expect("check runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let error = "[[case]]\ninput = '<34>h su: password=sesame failed'\nlistener = 'in'\nleft_out = false\n\
                 redacted = '<34>h su: *** failed'\nsinks = ['archive']\n";
    let info = "[[case]]\nname = 'info'\ninput = '<38>h su: x'\nleft_out = true\nsinks = []\n";
    assert_eq!(check(&format!("{error}{info}")), (Some(0), "2 cases passed.\n".to_owned()));
    let (code, said) = check(&info.replace("true", "false"));
    assert!(
        code == Some(1) && said.contains("case 1 (info) fails:\n  left_out: expected false, found true"),
        "{said}"
    );
    let (code, said) = check("[[case]]\ninput = 'no header'\nleft_out = true\n");
    assert!(code == Some(1) && said.contains("the expression of where failed"), "{said}");
    let (code, said) = check("[[case]]\ninput = '<34>h su: x'\nparsed = { level = 'warn' }\n");
    assert!(code == Some(1) && said.contains("has a parse that finds fields"), "{said}");
    for (cases, says) in [
        ("[[case]]\ninput = 'x'\n", "case 1 expects nothing"),
        (
            "[[case]]\ninput = 'x'\nleft_out = true\nlistener = 'out'\n",
            "\"out\" is not a listener or reader; there are in",
        ),
        ("[[case]]\ninput = 'x'\nleftout = true\n", "unknown field `leftout`"),
    ] {
        let (code, said) = check(cases);
        assert!(code == Some(2) && said.contains(says), "{cases}: {said}");
    }
}

#[test]
fn what_is_parsed_is_tested_without_a_server() {
    let setup = Setup::new(&[]);
    let path = |name: &str| setup.path().join(name);
    let config = "[[sink]]\nspec = 'null:?name=all'\n\
                  [[sink]]\nspec = 'null:?name=warn&where=has(parsed.level) && parsed.level == \"warn\"'\n\
                  [[listen]]\nspec = 'lines+tcp://127.0.0.1:1'\nname = 'in'\nparse = 'json'\nredact = 's/sesame/***/'\n\
                  [[listen]]\nspec = 'lines+tcp://127.0.0.1:2'\nname = 'raw'\n\
                  [[sink]]\nspec = 'null:?name=own&parse=/(?<word>[a-z]+)/&redact=s/[0-9]+/many/'\n";
    std::fs::write(path("bbq.toml"), config).expect("a file");
    let check = |case: &str| {
        std::fs::write(path("cases.toml"), format!("[[case]]\n{case}\n")).expect("a file");
        let mut command = Command::new(BBQ);
        command.arg("check").arg(path("bbq.toml")).arg("--test").arg(path("cases.toml"));
        let output = command.output().expect("check runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let json = r#"listener = 'in'
        input = '{"level":"warn","n":500,"key":"sesame","in":{"a":1}}'"#;
    for expected in [
        "parsed = { level = 'warn', n = 500, key = '***', in = { a = 1 } }\nsinks = ['all', 'warn', 'own']",
        "parsed = { n = 500 }",
    ] {
        assert_eq!(
            check(&format!("{json}\n{expected}")),
            (Some(0), "1 case passed.\n".to_owned()),
            "{expected}"
        );
    }
    for (case, says) in [
        (format!("{json}\nparsed = {{ n = '500' }}"), "parsed.n: expected \"500\", found 500 by parse of in"),
        (
            format!("{json}\nparsed = {{ other = 1 }}"),
            "parsed.other: expected 1, found nothing by parse of in",
        ),
        (format!("{json}\nparsed = {{}}"), "parsed: expected no field, found "),
        (
            "listener = 'raw'\ninput = '42 x'\nparsed = { word = 'x' }".to_owned(),
            "parsed.word: expected \"x\", found \"many\" by parse of own",
        ),
    ] {
        let (code, said) = check(&case);
        assert!(code == Some(1) && said.contains(says), "{case}: {said}");
    }
    let none = "listener = 'in'\ninput = 'no object'\nparsed = {}";
    assert_eq!(check(none), (Some(0), "1 case passed.\n".to_owned()));
}
