//! If this fails, a user whose sender and server do not agree on TLS does not learn that this is the reason.

use std::io::{Read, Write};

use bbq_wire::session::{Refusal, RefusalCode};

use crate::authority::Authority;
use crate::serve_until_left;
use crate::support::{Setup, accept};

/// What a sender that is to speak TLS tells of a server that says this and leaves.
fn told_of(said: &[u8]) -> String {
    let (setup, authority) = (Setup::new(), Authority::new("the CA"));
    let _sender = setup.sender_to("bbq+tls://").tls_ca(authority.ca()).start().unwrap();
    let mut socket = accept(&setup.listener);
    // All of its hello: bytes that nobody read would reset the connection.
    let _ = socket.read(&mut [0; 16 * 1024]).unwrap();
    socket.write_all(said).unwrap();
    drop(socket);
    setup.unreachable()
}

#[test]
fn a_server_without_tls_is_told_from_one_that_is_away() {
    let mut refusal = Vec::new();
    Refusal::new(RefusalCode::Malformed, "no bbq").encode(&mut refusal);
    for said in [&refusal[..], b"HTTP/1.1 400 Bad Request\r\n\r\n", b"<34>1 - - - - - -\n"] {
        let text = told_of(said);
        assert_eq!(text, "it does not answer with TLS; write bbq:// for a server without TLS");
    }
    let text = told_of(b"");
    assert!(
        text.contains("it ended the connection in the TLS handshake") && text.contains("write bbq://"),
        "{text}"
    );
}

#[test]
fn a_server_with_tls_tells_a_sender_without_that_it_wants_it() {
    let (setup, authority) = (Setup::new(), Authority::new("the CA"));
    let _sender = setup.sender_to("bbq://").start().unwrap();
    serve_until_left(&setup, &authority.server());
    let text = setup.unreachable();
    assert_eq!(text, "it speaks TLS; write bbq+tls://HOST:PORT");
}
