//! If this fails, messages are lost in a bucket, or come twice, whenever bbq is killed; or bbq writes to a server that does not refuse
//! to write an object twice; or an operator is not told what to do; or a server that hangs holds up a stop or a reload.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;

use super::http_server::serve;
use super::objects::{assert_once_and_in_order, assert_recovered, messages, send_under_kills};
use super::s3_server::{BUCKET, S3, SECRET};
use crate::support::lineage::Lineage;
use crate::support::{Server, Setup};

fn setup(port: u16, query: &str) -> Setup {
    unconfigured(port, query).config("drain_timeout_seconds = 1\n")
}

/// With the default configuration.
fn unconfigured(port: u16, query: &str) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    let key = setup.path().join("key");
    fs::write(&key, SECRET).expect("a file");
    let key = key.display();
    let key = format!("access_key_id=me&secret_access_key_file={key}");
    setup.set_sinks(&[&format!("s3://{BUCKET}/host?endpoint=http://127.0.0.1:{port}&{key}&{query}")]);
    setup
}

fn wait_problem(server: &Server<'_>, words: &str) -> String {
    let has_words = |text: &str| text.contains(words);
    let status = server
        .wait_status("a problem", |status| status["sinks"][0]["problem"].as_str().is_some_and(has_words));
    status["sinks"][0]["problem"].as_str().expect("a text").to_owned()
}

#[test]
fn each_message_is_in_the_bucket_once_and_in_order_whenever_bbq_is_killed() {
    let s3 = S3::new();
    let _server = s3.start();
    s3.make_bucket();
    let mut setup = setup(s3.port, "");
    let key = format!("access_key_id=me&secret_access_key_file={}/key", setup.path().display());
    let sink = |size: &str| {
        let endpoint = format!("endpoint=http://127.0.0.1:{}", s3.port);
        format!("s3://{BUCKET}/host?{endpoint}&{key}&object_bytes={size}&object_seconds=1")
    };
    let counts = send_under_kills(&mut setup, sink, || s3.count());
    let copy = tempfile::tempdir().expect("a directory");
    s3.copy_to(copy.path());
    assert_once_and_in_order(copy.path(), &counts);
    assert_recovered(&setup);
    assert!(!setup.log().contains(SECRET), "{}", setup.log());
}

#[test]
fn what_came_while_the_server_was_away_or_had_no_bucket_is_written_later() {
    let s3 = S3::new();
    let setup = setup(s3.port, "object_seconds=1");
    let server = setup.start();
    server.send(1, b"early\n");
    wait_problem(&server, "onnect");
    let _s3_server = s3.start();
    wait_problem(&server, "is there such a bucket? bbq makes none");
    s3.make_bucket();
    server.wait_delivered(1);
    let copy = tempfile::tempdir().expect("a directory");
    s3.copy_to(copy.path());
    assert_eq!(messages(copy.path()), ["early"]);
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
fn a_server_that_refuses_the_key_is_told_with_what_to_check() {
    let refusal = "<Error><Code>SignatureDoesNotMatch</Code><Message>sesame</Message></Error>";
    let (address, _bodies) = serve(move |_| {
        Some(format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n{refusal}", refusal.len()))
    });
    let port = address.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let setup = setup(port, "object_seconds=1");
    let server = setup.start();
    server.send(1, b"precious\n");
    wait_problem(&server, "check access_key_id");
    assert_eq!(server.status()["ledger"]["queued"], 1);
}

#[test]
fn a_server_that_hangs_holds_up_no_stop_and_no_reload() {
    let s3 = S3::new();
    let s3_server = s3.start();
    s3.make_bucket();
    let setup = unconfigured(s3.port, "object_seconds=1").with(&["--config", "{dir}/bbq.toml"]);
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
    let copy = tempfile::tempdir().expect("a directory");
    s3.copy_to(copy.path());
    assert_eq!(messages(copy.path()), ["frozen"]);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
