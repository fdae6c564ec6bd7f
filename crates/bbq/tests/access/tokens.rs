//! If this fails, somebody without a valid token can store messages, somebody with one cannot, or a token can be read where it must not.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use bbq_wire::StreamId;
use bbq_wire::session::{RefusalCode, Token};

use crate::support::session::{Answer, Session, batch, hello_of, stream_id};
use crate::support::{BBQ, PATIENCE, Server, Setup, assert_balanced, refused_start, run};

const OLD: &str = "old-token-of-till-4";
const NEW: &str = "new-token-of-till-4";
const OTHER: &str = "token-of-the-others";
const WRONG: &str = "a-token-of-nobody";
const TOKENS: [&str; 4] = [OLD, NEW, OTHER, WRONG];

/// Listeners for bbq over tcp and unix and for http, with a file of tokens, and one without.
fn setup() -> Setup {
    let setup = Setup::new(&[
        "bbq+tcp://127.0.0.1:{0}?tokens={dir}/tokens",
        "http+tcp://127.0.0.1:{1}?tokens={dir}/tokens",
        "bbq+unix://{dir}/socket?tokens={dir}/tokens",
        "bbq+tcp://127.0.0.1:{3}",
    ]);
    write_tokens(&setup, &format!("till-4 {OLD}\ntill-4 {NEW}\nothers {OTHER}\n"));
    setup
}

/// Puts a file in its place as a whole, readable by its owner alone.
fn write_tokens(setup: &Setup, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let new = setup.path().join("tokens.new");
    fs::write(&new, text).expect("a file");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("permissions");
    fs::rename(new, setup.path().join("tokens")).expect("renamed");
}

/// `bbq send` of one message, with a token in a file.
fn send(setup: &Setup, to: &str, token: Option<&str>, message: &str) -> Output {
    let mut command = Command::new(BBQ);
    command.args(["send", "--to", to]).arg(setup.path().join("message"));
    fs::write(setup.path().join("message"), format!("{message}\n")).expect("a file");
    if let Some(token) = token {
        let file = setup.path().join("client-token");
        fs::write(&file, format!("{token}\n")).expect("a file");
        command.arg("--token-file").arg(file);
    }
    command.stdin(Stdio::null()).output().expect("it runs")
}

fn post(setup: &Setup, authorization: Option<&str>, message: &str) -> String {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time", "60", "--data-binary", message]);
    if let Some(authorization) = authorization {
        command.arg("--header").arg(format!("Authorization: {authorization}"));
    }
    let output = run(command.arg(format!("http://{}/", setup.address(1))), b"");
    String::from_utf8(output.stdout).expect("text")
}

fn hello(id: StreamId, token: &str) -> Vec<u8> {
    hello_of(id, |hello| hello.token = Token::new(token))
}

/// A session that has said hello with this token.
fn greeted(setup: &Setup, id: StreamId, token: &str) -> Session {
    let mut session = Session::connect(setup.address(0));
    session.write(&hello(id, token));
    session
}

fn assert_refused(session: Session, says: &str) {
    let refusal = session.refused(says);
    assert_eq!((refusal.code, refusal.retry), (RefusalCode::NotAllowed, false), "{refusal}");
    assert!(refusal.text.contains(says), "{refusal}");
}

fn assert_no_token(what: &str, text: &str) {
    for token in TOKENS {
        assert!(!text.contains(token), "{what} shows a token: {text}");
    }
}

fn refused_at(server: &Server<'_>, listener: usize) -> u64 {
    server.status()["listeners"][listener]["ledger"]["refused"].as_u64().expect("a number")
}

#[test]
fn a_client_needs_a_token_of_the_file() {
    let setup = setup();
    let server = setup.start();
    let tcp = format!("bbq://127.0.0.1:{}", setup.ports[0]);
    let unix = format!("bbq+unix://{}", setup.path().join("socket").display());
    let open = format!("bbq://127.0.0.1:{}", setup.ports[3]);
    for (to, token) in
        [(&tcp, Some(OLD)), (&tcp, Some(NEW)), (&unix, Some(OTHER)), (&open, Some(WRONG)), (&open, None)]
    {
        let output = send(&setup, to, token, "good");
        assert!(output.status.success(), "{output:?}");
    }
    for (to, token, says) in [
        (&tcp, None, "a token is needed here, and none was sent"),
        (&tcp, Some(WRONG), "the token is not valid here"),
        (&unix, None, "a token is needed here"),
    ] {
        let output = send(&setup, to, token, "bad");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(says) && said.contains("--token-file"), "{said}");
        assert_no_token("bbq send", &said);
    }
    // From the environment, which no other user can read.
    let mut command = Command::new(BBQ);
    run(command.args(["send", "--to", &tcp]).env("BBQ_TOKEN", NEW), b"good\n");
    let status = server.wait_delivered(6);
    assert_balanced(&status);
    assert_eq!((refused_at(&server, 0), refused_at(&server, 2)), (2, 1));
    assert_no_token("the status", &status.to_string());
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"good\n".repeat(6));
    let log = setup.log();
    assert_no_token("the log", &log);
    // Each address once a minute for each listener, with the reason.
    assert_eq!(log.matches("session refused").count(), 2, "{log}");
    assert!(log.contains("a token is needed here"), "{log}");
}

#[test]
fn a_file_with_the_names_of_a_server_is_no_token_of_a_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("tokens");
    for (text, says) in [
        (format!("till-4 {NEW}\n"), "without the name before it in a server's file"),
        (format!("{NEW}\n{OLD}\n"), "it has more than one word; a client shows one token"),
        ("short\n".to_owned(), "it is not a token; a token has 16 to 512 visible ASCII characters"),
        (String::new(), "is empty"),
    ] {
        fs::write(&path, text).expect("a file");
        for command in [&["send", "--to", "bbq://127.0.0.1:1"][..], &["status"]] {
            let (code, said) = refused_start(Command::new(BBQ).args(command).arg("--token-file").arg(&path));
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains("--token-file") && said.contains(says), "{says}: {said}");
            assert_no_token("the error", &said);
        }
    }
}

#[test]
fn a_request_needs_a_token_before_its_body_is_read() {
    let setup = setup();
    let server = setup.start();
    for authorization in [format!("Bearer {OLD}"), format!("bearer  {OTHER}")] {
        assert!(post(&setup, Some(&authorization), "good").starts_with("HTTP/1.1 200"));
    }
    for (authorization, says) in [
        (None, "a token is needed here"),
        (Some(format!("Bearer {WRONG}")), "the token is not valid here"),
        (Some(format!("Basic {OLD}")), "a token is needed here"),
        (Some(OLD.to_owned()), "a token is needed here"),
    ] {
        let answer = post(&setup, authorization.as_deref(), "bad");
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
        assert!(answer.contains(says) && answer.contains("Authorization: Bearer"), "{answer}");
        assert_no_token("the answer", &answer);
    }
    assert_balanced(&server.wait_delivered(2));
    assert_eq!(refused_at(&server, 1), 4);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"good\ngood\n");
    assert_no_token("the log", &setup.log());
    assert_eq!(setup.log().matches("request refused").count(), 1);
}

#[test]
fn a_call_of_grpc_needs_a_token() {
    let setup = setup();
    let server = setup.start();
    // resource_logs, scope_logs, log_records, body, string_value; behind the prefix of gRPC.
    let fields = [0x0a, 14, 0x12, 12, 0x12, 10, 0x2a, 8, 0x0a, 6];
    let request = [&[0, 0, 0, 0, 16][..], &fields, b"a body"].concat();
    let call = |authorization: Option<String>| {
        let path = "opentelemetry.proto.collector.logs.v1.LogsService/Export";
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--show-error",
            "--include",
            "--max-time",
            "60",
            "--http2-prior-knowledge",
        ]);
        command.args(["--header", "Content-Type: application/grpc", "--header", "TE: trailers"]);
        if let Some(authorization) = authorization {
            command.arg("--header").arg(format!("Authorization: {authorization}"));
        }
        command.args(["--data-binary", "@-"]).arg(format!("http://{}/{path}", setup.address(1)));
        command
    };
    let stored = run(&mut call(Some(format!("Bearer {OLD}"))), &request).stdout;
    // The status is in a trailer then, which curl does not show.
    let stored = String::from_utf8_lossy(&stored).into_owned();
    assert!(stored.starts_with("HTTP/2 200") && !stored.contains("grpc-status"), "{stored}");
    for authorization in [None, Some(format!("Bearer {WRONG}"))] {
        // curl 7.88 fails when the stream is reset behind the answer, as RFC 9113 has it for a body that is not read; so what is answered is
        // not looked at.
        let output = call(authorization).stdin(Stdio::null()).output().expect("curl is there");
        assert_no_token("the answer", &String::from_utf8_lossy(&output.stdout));
    }
    assert_balanced(&server.wait_delivered(1));
    assert_eq!(refused_at(&server, 1), 2);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"a body\n");
}

#[test]
fn a_token_that_was_taken_out_of_the_file_is_worth_nothing_and_others_go_on() {
    let setup = setup();
    let server = setup.start();
    let open = |token: &str, number| {
        let mut session = greeted(&setup, stream_id(number), token);
        assert!(matches!(session.next(), Answer::Welcome(_)), "{token}");
        session.write(&batch(stream_id(number), 1, &["kept"]));
        session.acknowledged(1);
        session
    };
    let (mut old, mut new) = (open(OLD, 1), open(NEW, 2));
    write_tokens(&setup, &format!("till-4 {NEW}\n"));
    server.signal(libc::SIGHUP);
    server.wait_log("new tokens");
    new.write(&batch(stream_id(2), 2, &["kept"]));
    new.acknowledged(2);
    old.write(&batch(stream_id(1), 2, &["not taken"]));
    assert_refused(old, "was removed from the server's file");
    assert_refused(greeted(&setup, stream_id(1), OLD), "not valid here");
    // The stream goes on with the other token of the same name.
    let mut again = greeted(&setup, stream_id(1), NEW);
    assert!(matches!(again.next(), Answer::Welcome(_)));
    // A file that cannot be used changes nothing, and a person is told.
    write_tokens(&setup, &format!("till-4 {NEW} {OTHER}\n"));
    let status = server.wait_status("a problem", |status| status["problems"][0].is_string());
    let problem = status["problems"][0].as_str().expect("text");
    assert!(
        problem.contains("accepts the old tokens") && problem.contains(":1: only the word relay"),
        "{problem}"
    );
    assert_no_token("the problem", problem);
    assert_eq!(server.health().0, 503);
    new.write(&batch(stream_id(2), 3, &["kept"]));
    new.acknowledged(3);
    // Without a signal.
    write_tokens(&setup, &format!("others {OTHER}\n"));
    server.wait_status("no problem", |status| status["problems"].as_array().is_some_and(Vec::is_empty));
    assert_refused(greeted(&setup, stream_id(2), NEW), "not valid here");
    assert!(matches!(greeted(&setup, stream_id(3), OTHER).next(), Answer::Welcome(_)));
    server.wait_delivered(4);
    assert_eq!(server.stop(), Some(0));
    assert_eq!(setup.written(), b"kept\n".repeat(4));
}

#[test]
fn a_stream_belongs_to_the_name_that_began_it_also_after_a_restart_and_a_kill() {
    let setup = setup();
    let server = setup.start();
    let mut session = greeted(&setup, stream_id(1), OLD);
    assert!(matches!(session.next(), Answer::Welcome(_)));
    session.write(&batch(stream_id(1), 1, &["mine"]));
    session.acknowledged(1);
    let foreign = "begun with a token of another name";
    assert_refused(greeted(&setup, stream_id(1), OTHER), foreign);
    // The owner is not disturbed.
    session.write(&batch(stream_id(1), 2, &["mine"]));
    session.acknowledged(2);
    // Its checkpoint would have the name.
    server.kill();
    let server = setup.start();
    assert_refused(greeted(&setup, stream_id(1), OTHER), foreign);
    assert_eq!(server.stop(), Some(0));
    let server = setup.start();
    assert_refused(greeted(&setup, stream_id(1), OTHER), foreign);
    let mut session = greeted(&setup, stream_id(1), NEW);
    assert!(matches!(session.next(), Answer::Welcome(welcome) if welcome.last_sequence == 2));
    server.wait_delivered(2);
    assert_eq!(server.stop(), Some(0));
}

/// A link with the owner's stream, and a request with its numbers.
#[test]
fn the_token_of_another_has_no_way_to_a_stream() {
    let setup = setup();
    write_tokens(&setup, &format!("till-4 {OLD}\nothers {OTHER}\nedge {NEW} relay\n"));
    let server = setup.start();
    let id = stream_id(7);
    let mut owner = greeted(&setup, id, OLD);
    assert!(matches!(owner.next(), Answer::Welcome(_)));
    owner.write(&batch(id, 1, &["mine"]));
    owner.acknowledged(1);
    let link = |token: &str, listener: usize| {
        let mut session = Session::connect(setup.address(listener));
        session
            .write(&hello_of(stream_id(8), |hello| (hello.relays, hello.token) = (true, Token::new(token))));
        session
    };
    assert_refused(link(OTHER, 0), "the word relay");
    // By a listener without tokens.
    let mut open = link(OTHER, 3);
    assert!(matches!(open.next(), Answer::Welcome(_)));
    open.write(&batch(id, 2, &["forged"]));
    assert_refused(open, "begun with a token");
    let mut open = Session::connect(setup.address(3));
    open.write(&hello_of(id, |_| {}));
    assert_refused(open, "begun with a token");
    let post = |token: &str| {
        let headers = [format!("Authorization: Bearer {token}"), format!("BBQ-Stream: {}", "07".repeat(16))];
        let mut command = Command::new("curl");
        command.args(["--silent", "--include", "--max-time", "60", "--data-binary", "forged"]);
        for header in &headers {
            command.args(["--header", header]);
        }
        command.args(["--header", "BBQ-Sequence: 2"]);
        String::from_utf8(run(command.arg(format!("http://{}/", setup.address(1))), b"").stdout)
            .expect("text")
    };
    let answer = post(OTHER);
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("another name"), "{answer}");
    owner.write(&batch(id, 2, &["mine"]));
    owner.acknowledged(2);
    // A server with the right to relay passes on what the owner sent over it. For the order, it waits until what came before is delivered.
    let begin = Instant::now();
    loop {
        let mut relay = link(NEW, 0);
        assert!(matches!(relay.next(), Answer::Welcome(_)));
        relay.write(&batch(id, 3, &["mine"]));
        match relay.next() {
            Answer::Ack(1) => break,
            Answer::Refused(refusal) if refusal.code == RefusalCode::Busy && begin.elapsed() < PATIENCE => {}
            other => panic!("{other:?}"),
        }
    }
    server.wait_delivered(3);
    assert_eq!(setup.written(), b"mine\n".repeat(3));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_that_names_the_line_and_not_the_token() {
    let setup = setup();
    write_tokens(&setup, &format!("till-4 {OLD}\nothers short\n"));
    let file = setup.path().join("bbq.toml");
    let tokens = setup.path().join("tokens").display().to_string();
    fs::write(&file, format!("[[listen]]\nspec = \"bbq+tcp://127.0.0.1:1\"\ntokens = \"{tokens}\"\n"))
        .expect("a file");
    let output = Command::new(BBQ).arg("check").arg(&file).output().expect("it runs");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("{tokens}:2: a token has 16 to 512")), "{said}");
    assert!(!said.contains("short"), "{said}");
    assert_no_token("bbq check", &said);
}
