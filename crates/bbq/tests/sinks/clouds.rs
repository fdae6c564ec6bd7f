//! If this fails, messages are lost in Google Cloud Storage or Azure Blob Storage, or come twice, whenever bbq is killed; or bbq writes to
//! a server that does not refuse to write an object twice; or an operator is not told what to do.

use std::cell::RefCell;
use std::sync::mpsc;

use super::cloud_server::{Cloud, Protocol};
use super::http_server::serve_with_heads;
use super::objects::{assert_once_and_in_order, assert_recovered, messages, objects, send_under_kills};
use super::senders::wait_problem;
use crate::support::Setup;

fn setup(cloud: &Cloud) -> Setup {
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&[&cloud.spec(cloud.port, "object_seconds=1")]);
    cloud.write_credentials(setup.path(), true);
    setup.config("drain_timeout_seconds = 1\n")
}

fn once_whoever_is_killed(protocol: Protocol) {
    let cloud = Cloud::new(protocol);
    cloud.make_bucket();
    let running = RefCell::new(Some(cloud.start()));
    let mut setup = setup(&cloud);
    let sink = |size: &str| cloud.spec(cloud.port, &format!("object_bytes={size}&object_seconds=1"));
    let restart = || {
        running.take();
        running.replace(Some(cloud.start()));
    };
    let counts = send_under_kills(&mut setup, sink, restart, || objects(&cloud.bucket()).len());
    assert_once_and_in_order(&cloud.bucket(), &counts);
    assert_recovered(&setup);
    assert!(!setup.log().contains(cloud.secret()), "{}", setup.log());
}

#[test]
fn each_message_is_at_google_once_and_in_order_whenever_bbq_or_the_server_is_killed() {
    once_whoever_is_killed(Protocol::Google);
}

#[test]
fn each_message_is_at_azure_once_and_in_order_whenever_bbq_or_the_server_is_killed() {
    once_whoever_is_killed(Protocol::Azure);
}

#[test]
fn a_key_of_google_is_read_again_when_its_file_changes() {
    let cloud = Cloud::new(Protocol::Google);
    cloud.make_bucket();
    let _running = cloud.start();
    let setup = setup(&cloud);
    cloud.write_credentials(setup.path(), false);
    let server = setup.start();
    server.send(1, b"precious\n");
    wait_problem(&server, "check the credentials");
    assert!(objects(&cloud.bucket()).is_empty());
    cloud.write_credentials(setup.path(), true);
    server.wait_delivered(1);
    assert_eq!(messages(&cloud.bucket()), ["precious"]);
}

fn what_came_before_the_bucket_is_written_later(protocol: Protocol, says: &str) {
    let cloud = Cloud::new(protocol);
    let setup = setup(&cloud);
    let server = setup.start();
    server.send(1, b"early\n");
    wait_problem(&server, "onnect");
    let _running = cloud.start();
    wait_problem(&server, says);
    cloud.make_bucket();
    server.wait_delivered(1);
    assert_eq!(messages(&cloud.bucket()), ["early"]);
}

#[test]
fn what_came_while_google_was_away_or_had_no_bucket_is_written_later() {
    what_came_before_the_bucket_is_written_later(Protocol::Google, "check that the bucket exists");
}

#[test]
fn what_came_while_azure_was_away_or_had_no_container_is_written_later() {
    what_came_before_the_bucket_is_written_later(Protocol::Azure, "check that the container exists");
}

#[test]
fn a_server_that_writes_an_object_twice_gets_no_messages() {
    for (protocol, condition) in
        [(Protocol::Google, "x-goog-if-generation-match: 0"), (Protocol::Azure, "If-None-Match: *")]
    {
        let cloud = Cloud::careless(protocol);
        cloud.make_bucket();
        let _running = cloud.start();
        let setup = setup(&cloud);
        let server = setup.start();
        server.send(1, b"precious\n");
        wait_problem(&server, condition);
        assert_eq!(server.status()["ledger"]["queued"], 1);
        assert!(objects(&cloud.bucket()).is_empty());
    }
}

#[test]
fn an_emulator_of_google_in_the_environment_gets_no_credentials() {
    let (told, heads) = mpsc::sync_channel(1000);
    let (address, _bodies) = serve_with_heads(move |head, _| {
        let _dropped = told.try_send(head.to_owned());
        Some("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned())
    });
    let mut setup = Setup::new(&["bbq+tcp://127.0.0.1:{0}", "lines+tcp://127.0.0.1:{1}"]);
    setup.set_sinks(&["gs://logs?object_seconds=1"]);
    let emulator = format!("STORAGE_EMULATOR_HOST={address}");
    let setup = setup.prefix(&["env", &emulator, "GOOGLE_APPLICATION_CREDENTIALS=/nowhere"]);
    let server = setup.start();
    server.send(1, b"precious\n");
    wait_problem(&server, "check that the bucket exists");
    // The library sends the header without a token.
    let has_token = |line: &str| line.starts_with("authorization:") && line.trim() != "authorization: bearer";
    for head in heads.try_iter() {
        assert!(head.starts_with("put /logs/") && !head.lines().any(has_token), "{head}");
    }
}
