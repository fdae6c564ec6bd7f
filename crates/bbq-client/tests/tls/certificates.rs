//! If this fails, a sender gives messages to a server that is not the one it was told of, or its user does not learn why none is taken.

use std::sync::Arc;
use std::time::Duration;

use bbq_client::{SendError, Sender, SenderBuilder};
use rcgen::date_time_ymd;
use rustls::ServerConfig;

use crate::authority::{Authority, BOTH, Issued, ONLY_12, ONLY_13};
use crate::support::{Connection, PATIENCE, Setup, acknowledged};
use crate::{accept, serve_until_left};

/// Longer than a sender takes for one connection.
const ONE_TRY: Duration = Duration::from_secs(5);

/// Lets a sender send one message.
fn assert_delivers(setup: &Setup, server: &Arc<ServerConfig>, sender: SenderBuilder) -> Sender {
    let sender = sender.start().unwrap();
    sender.send(b"message").unwrap();
    let mut connection = Connection::over(accept(setup, server));
    connection.hello();
    connection.welcome(0);
    assert_eq!(connection.batch().unwrap().records, [b"message"]);
    connection.ack(1);
    acknowledged(&sender, 1);
    sender.close(PATIENCE).unwrap();
    connection.left();
    sender
}

/// Why a sender does not get through: as a notice while it tries again, and as the error of one that ends.
fn why_not(server: &Arc<ServerConfig>, with: impl Fn(SenderBuilder) -> SenderBuilder) -> String {
    let setup = Setup::new();
    let sender = with(setup.sender_to("bbq+tls://")).start().unwrap();
    sender.send(b"message").unwrap();
    serve_until_left(&setup, server);
    // It tries again.
    serve_until_left(&setup, server);
    let why = setup.unreachable();
    assert_eq!(sender.counters().sent, 0, "{why}");
    drop(sender);
    let sender = with(setup.sender_to("bbq+tls://")).end_on_lasting_errors(true).start().unwrap();
    serve_until_left(&setup, server);
    let mut failed = sender.send(b"message").and_then(|()| sender.flush(ONE_TRY));
    // An alert may be lost on its way (see the test below), and then the sender tries again.
    while matches!(failed, Err(SendError::Timeout { .. })) {
        serve_until_left(&setup, server);
        failed = sender.flush(ONE_TRY);
    }
    assert!(
        matches!(&failed, Err(SendError::Unreachable { problem, .. }) if without_time(problem) == without_time(&why)),
        "{failed:?}, {why}"
    );
    why
}

/// A text about a certificate without the time at which it was looked at.
fn without_time(why: &str) -> String {
    why.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

fn assert_words(text: &str, words: &[&str]) {
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} are not in: {text}");
}

#[test]
fn every_version_is_spoken() {
    let authority = Authority::new("the CA");
    for versions in [ONLY_12, ONLY_13, BOTH] {
        let setup = Setup::new();
        let server = authority.issue("127.0.0.1").server(versions, None);
        assert_delivers(&setup, &server, setup.sender_to("bbq+tls://").tls_ca(authority.ca()));
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    // One has another name; the other pretends to be the right one.
    for name in ["another CA", "the CA"] {
        let (authority, other) = (Authority::new("the CA"), Authority::new(name));
        let why = why_not(&other.server(), |sender| sender.tls_ca(authority.ca()));
        assert_words(&why, &["issued by none of the trusted CAs", "tls_ca", "ca.pem"]);
    }
    // Without the option the system's are trusted, and the CA of this test is none of those.
    let authority = Authority::new("the CA");
    assert_words(&why_not(&authority.server(), |sender| sender), &["the system's (tls_ca is not set)"]);
}

#[test]
fn a_certificate_for_another_name_is_refused_unless_the_name_is_told() {
    let authority = Authority::new("the CA");
    let server = authority.issue("logs.example").server(BOTH, None);
    let why = why_not(&server, |sender| sender.tls_ca(authority.ca()));
    assert_words(&why, &["for another name", "127.0.0.1", "logs.example", "set tls_server_name"]);
    let setup = Setup::new();
    let sender = setup.sender_to("bbq+tls://").tls_ca(authority.ca()).tls_server_name("logs.example");
    assert_delivers(&setup, &server, sender);
}

#[test]
fn a_certificate_is_refused_before_and_after_its_time() {
    let authority = Authority::new("the CA");
    let until =
        |year| authority.issue_with("127.0.0.1", |params| params.not_after = date_time_ymd(year, 1, 1));
    let why = why_not(&until(2020).server(BOTH, None), |sender| sender.tls_ca(authority.ca()));
    assert_words(&why, &["its certificate has expired", "renew it"]);
    let from =
        |year| authority.issue_with("127.0.0.1", |params| params.not_before = date_time_ymd(year, 1, 1));
    let why = why_not(&from(4000).server(BOTH, None), |sender| sender.tls_ca(authority.ca()));
    assert_words(&why, &["not valid yet", "clock"]);
}

#[test]
fn a_certificate_that_signed_itself_is_trusted_where_it_is_named() {
    let authority = Authority::new("the CA");
    let issued = authority.self_signed("127.0.0.1");
    let setup = Setup::new();
    let sender = setup.sender_to("bbq+tls://").tls_ca(&issued.cert);
    assert_delivers(&setup, &issued.server(BOTH, None), sender);
}

#[test]
fn the_certificate_of_a_ca_is_not_that_of_a_server() {
    let authority = Authority::new("the CA");
    let why = why_not(&authority.itself().server(BOTH, None), |sender| {
        sender.tls_ca(authority.ca()).tls_server_name("x")
    });
    assert_words(&why, &["that of a CA", "CA:FALSE"]);
}

/// A server that demands a certificate of a client.
fn demanding(versions: &[&'static rustls::SupportedProtocolVersion]) -> (Authority, Arc<ServerConfig>) {
    let authority = Authority::new("the CA");
    let server = authority.issue("127.0.0.1").server(versions, Some(&authority));
    (authority, server)
}

#[test]
fn a_server_that_demands_a_certificate_gets_it() {
    for versions in [ONLY_12, ONLY_13] {
        let (authority, server) = demanding(versions);
        let Issued { cert, key } = authority.issue("a client");
        let setup = Setup::new();
        let sender = setup.sender_to("bbq+tls://").tls_ca(authority.ca()).tls_cert(cert).tls_key(key);
        assert_delivers(&setup, &server, sender);
    }
}

#[test]
fn a_client_that_a_server_refuses_learns_what_it_lacks() {
    for versions in [ONLY_12, ONLY_13] {
        let (authority, server) = demanding(versions);
        let why = why_not(&server, |sender| sender.tls_ca(authority.ca()));
        assert_words(&why, &["demands a client certificate; set tls_cert and tls_key"]);
        let other = Authority::new("another CA");
        let Issued { cert, key } = other.issue("a client");
        let why = why_not(&server, |sender| sender.tls_ca(authority.ca()).tls_cert(&cert).tls_key(&key));
        assert_words(&why, &["refuses the client certificate in tls_cert", "whose CA the server trusts"]);
    }
}

/// The alert is lost where the server closes the connection before it has read what the client wrote.
#[test]
fn a_client_whose_server_closed_without_a_word_learns_what_that_may_mean() {
    let (authority, server) = demanding(ONLY_13);
    let setup = Setup::new();
    let sender = setup.sender_to("bbq+tls://").tls_ca(authority.ca()).start().unwrap();
    let mut stream = accept(&setup, &server);
    // The hello of the client; the rest of the handshake stays unread, and so unanswered.
    stream.conn.read_tls(&mut stream.sock).unwrap();
    stream.conn.process_new_packets().unwrap();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut stream.sock).unwrap();
    }
    // The client has finished its part when this arrives.
    stream.conn.read_tls(&mut stream.sock).unwrap();
    drop(stream.sock);
    let why = setup.unreachable();
    assert_words(&why, &["it asked for a client certificate before", "set tls_cert and tls_key"]);
    drop(sender);
}
