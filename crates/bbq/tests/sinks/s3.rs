//! If this fails, messages are lost in a bucket, or come twice, whenever bbq is killed; or bbq writes to a server that does not refuse
//! to write an object twice; or an operator is not told what to do; or a server that hangs holds up a stop or a reload.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::cell::RefCell;
use std::fs;

use super::http_server::serve;
use super::objects::{assert_once_and_in_order, assert_recovered, messages, objects, send_under_kills};
use super::s3_server::{BUCKET, KEY_ID, S3, SECRET};
use super::senders::wait_problem;
use crate::authority::Authority;
use crate::support::lineage::Lineage;
use crate::support::{Setup, refused_start};

/// A server with the default configuration that writes to an S3 server.
fn unconfigured(endpoint: &str, query: &str) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    fs::write(setup.path().join("key"), SECRET).expect("a file");
    setup.set_sinks(&[&spec(endpoint, query)]);
    setup
}

fn setup(port: u16, query: &str) -> Setup {
    unconfigured(&plain(port), query).config("drain_timeout_seconds = 1\n")
}

fn plain(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn spec(endpoint: &str, query: &str) -> String {
    let key = format!("access_key_id={KEY_ID}&secret_access_key_file={{dir}}/key");
    format!("s3://{BUCKET}/host?endpoint={endpoint}&{key}&{query}")
}

#[test]
fn each_message_is_in_the_bucket_once_and_in_order_whenever_bbq_or_the_server_is_killed() {
    let s3 = S3::new();
    s3.make_bucket();
    let running = RefCell::new(Some(s3.start()));
    let mut setup = setup(s3.port, "");
    let sink = |size: &str| spec(&plain(s3.port), &format!("object_bytes={size}&object_seconds=1"));
    let restart = || {
        running.take();
        running.replace(Some(s3.start()));
    };
    let counts = send_under_kills(&mut setup, sink, restart, || objects(&s3.bucket()).len());
    assert_once_and_in_order(&s3.bucket(), &counts);
    assert_recovered(&setup);
    assert!(!setup.log().contains(SECRET), "{}", setup.log());
}

#[test]
fn messages_come_by_tls_and_go_to_no_server_of_another_authority() {
    let (authority, other) = (Authority::new("theirs"), Authority::new("ours"));
    let s3 = S3::with_tls(&authority);
    s3.make_bucket();
    let _running = s3.start();
    let endpoint = format!("https://localhost:{}", s3.port);
    let setup =
        unconfigured(&endpoint, "object_seconds=1&tls_ca={dir}/ca.pem").config("drain_timeout_seconds = 1\n");
    let trust = |authority: &Authority| {
        fs::write(setup.path().join("ca.pem"), authority.certificate()).expect("a file");
    };
    trust(&other);
    let server = setup.start();
    server.send(1, b"precious\n");
    wait_problem(&server, "certificate");
    assert!(objects(&s3.bucket()).is_empty());
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    trust(&authority);
    let server = setup.start();
    server.wait_delivered(1);
    assert_eq!(messages(&s3.bucket()), ["precious"]);
}

#[test]
fn a_key_that_the_server_does_not_know_is_told() {
    let s3 = S3::new();
    s3.make_bucket();
    let _running = s3.start();
    let setup = setup(s3.port, "object_seconds=1");
    fs::write(setup.path().join("key"), "wrong").expect("a file");
    let server = setup.start();
    server.send(1, b"precious\n");
    wait_problem(&server, "check access_key_id");
    assert_eq!(server.status()["ledger"]["queued"], 1);
    assert!(objects(&s3.bucket()).is_empty());
}

/// A server whose sink has everything from the profile `logs` of the files in `{dir}/.aws`.
fn with_profile(config: &str) -> Setup {
    with_files(&format!("[profile logs]\n{config}\n"), "profile=logs")
}

/// A server with this file in `{dir}/.aws`, and with keys in its environment.
fn with_files(config: &str, query: &str) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&[&format!("s3://{BUCKET}/host?object_seconds=1&{query}")]);
    fs::create_dir(setup.path().join(".aws")).expect("a directory");
    fs::write(setup.path().join(".aws/config"), config).expect("a file");
    let home = format!("HOME={}", setup.path().display());
    // Which the profile of the SPEC goes before.
    setup.config("drain_timeout_seconds = 1\n").prefix(&[
        "env",
        &home,
        &format!("AWS_ACCESS_KEY_ID={}", if query.contains("profile") { "you" } else { KEY_ID }),
        &format!("AWS_SECRET_ACCESS_KEY={SECRET}"),
    ])
}

#[test]
fn keys_come_from_the_shared_files_and_are_read_again_when_they_change() {
    let s3 = S3::new();
    s3.make_bucket();
    let _running = s3.start();
    let setup = with_profile(&format!("region = us-east-1\nendpoint_url = {}", plain(s3.port)));
    let put = |secret: &str| {
        let text = format!("[logs]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {secret}\n");
        fs::write(setup.path().join(".aws/credentials"), text).expect("a file");
    };
    put("not-sesame");
    let server = setup.start();
    server.send(1, b"precious\n");
    wait_problem(&server, "check access_key_id");
    assert!(objects(&s3.bucket()).is_empty());
    put(SECRET);
    server.wait_delivered(1);
    assert_eq!(messages(&s3.bucket()), ["precious"]);
    fs::remove_file(setup.path().join(".aws/credentials")).expect("it is there");
    server.send(1, b"later\n");
    wait_problem(&server, "has no aws_access_key_id");
    put(SECRET);
    server.wait_delivered(2);
    assert!(!setup.log().contains(SECRET), "{}", setup.log());
}

#[test]
fn a_profile_with_what_is_not_supported_is_refused() {
    let setup = with_profile("sso_session = corp");
    let (code, output) = refused_start(&mut setup.command());
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("sso_session") && output.contains(".aws/config"), "{output}");
}

/// People sign in by `aws sso login`, and a server on their machine has keys of its own.
#[test]
fn a_profile_with_what_is_not_supported_matters_only_to_who_needs_its_keys() {
    let s3 = S3::new();
    s3.make_bucket();
    let _running = s3.start();
    let config =
        format!("[default]\nsso_session = corp\nregion = us-east-1\nendpoint_url = {}\n", plain(s3.port));
    let setup = with_files(&config, "level=3");
    let server = setup.start();
    server.send(1, b"precious\n");
    server.wait_delivered(1);
    assert_eq!(messages(&s3.bucket()), ["precious"]);
}

#[test]
fn what_came_while_the_server_was_away_or_had_no_bucket_is_written_later() {
    let s3 = S3::new();
    let setup = setup(s3.port, "object_seconds=1");
    let server = setup.start();
    server.send(1, b"early\n");
    wait_problem(&server, "onnect");
    let _s3_server = s3.start();
    wait_problem(&server, "check that the bucket exists; bbq does not create it");
    s3.make_bucket();
    server.wait_delivered(1);
    assert_eq!(messages(&s3.bucket()), ["early"]);
}

#[test]
fn a_server_that_writes_an_object_twice_gets_no_messages() {
    let (address, bodies) =
        serve(|_| Some("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\n\r\n".to_owned()));
    let port = address.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let setup = setup(port, "object_seconds=1");
    let server = setup.start();
    server.send(1, b"precious\n");
    wait_problem(&server, "use a server with conditional writes");
    assert_eq!(server.status()["ledger"]["queued"], 1);
    assert!(bodies.try_iter().all(|body| body.is_empty()));
}

#[test]
fn a_server_that_hangs_holds_up_no_stop_and_no_reload() {
    let s3 = S3::new();
    let s3_server = s3.start();
    s3.make_bucket();
    let setup = unconfigured(&plain(s3.port), "object_seconds=1").with(&["--config", "{dir}/bbq.toml"]);
    let configure = |seconds: u32| {
        fs::write(setup.path().join("bbq.toml"), format!("drain_timeout_seconds = {seconds}\n"))
            .expect("a file");
    };
    configure(1);
    let server = Lineage::start(&setup);
    s3_server.freeze();
    {
        use std::io::Write as _;
        let mut client = std::net::TcpStream::connect(setup.address(1)).expect("it listens");
        client.write_all(b"frozen\n").expect("it reads");
    }
    server.wait_status("received", |status| status["ledger"]["received"] == 1);
    configure(2);
    server.reload();
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    s3_server.thaw();
    let server = Lineage::start(&setup);
    server.wait_delivered(1);
    assert_eq!(messages(&s3.bucket()), ["frozen"]);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
