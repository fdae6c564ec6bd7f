//! If this fails, messages that a server has taken are posted to it again because of what its response looks like, or a
//! secret that a server repeats, or that stands in the configuration where none belongs, is shown.

use std::fs;

use crate::http::{lines, poster, wait_dead_letters, wait_problem};
use crate::http_server::{response, serve};
use crate::support::assert_balanced;

/// Whatever is wrong with a response behind its status.
#[test]
fn what_a_server_has_taken_is_not_posted_again_for_its_body() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\n\r\nuntil the connection ends",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nall",
    ] {
        let (address, bodies) = serve(move |_| Some(response.to_owned()));
        let setup = poster(&address, "/?format=raw");
        let server = setup.start();
        for part in 0..3 {
            server.send(0, &lines(part * 10..(part + 1) * 10));
            let status = server.wait_delivered(u64::from(part + 1) * 10);
            assert_balanced(&status);
            assert_eq!(status["sinks"][0]["problem"], serde_json::Value::Null, "{response}");
        }
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
        let all: String = bodies.try_iter().collect();
        assert_eq!(all.into_bytes(), lines(0..30), "{response}");
    }
}

#[test]
fn a_secret_is_not_shown() {
    let (address, _bodies) = serve(|body| {
        let (status, text) = match body {
            "good\n" => return Some(response("204 No Content")),
            "bad\n" => ("400 Bad Request", "not with Bearer sesame"),
            _ => ("401 Unauthorized", "no such token: sesame"),
        };
        Some(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{text}", text.len()))
    });
    let mut setup = poster(&address, "");
    let sink = format!("[[sink]]\nspec = \"http://{address}/?format=raw&authorization_file=token\"\n");
    fs::write(setup.path().join("bbq.toml"), sink).expect("a configuration");
    setup.set_sinks(&[]);
    fs::write(setup.path().join("token"), "Bearer sesame\n").expect("a token");
    let server = setup.start();
    server.send(0, b"good\n");
    server.wait_delivered(1);
    server.send(0, b"bad\n");
    server.wait_status("rejected", |status| status["ledger"]["dropped"]["refused"] == 1);
    server.send(0, b"third\n");
    wait_problem(&server, "no such token: <secret>");
    let sinks = "[[sink]]\nspec = \"https://user:sesame@host/\"\nauthorization = \"Bearer sesame\"\n";
    fs::write(setup.path().join("bbq.toml"), sinks).expect("a configuration");
    server.signal(libc::SIGHUP);
    let status = server.wait_status("the refusal", |status| status["refused_change"].is_string());
    assert!(!status.to_string().contains("sesame"), "{status:#}");
    assert!(!setup.log().contains("sesame"), "{}", setup.log());
    server.wait_log("the destination rejects messages for good; they are kept");
    let kept = wait_dead_letters(&setup);
    let why = kept[0]["rejected"].as_str().expect("a reason");
    assert!(why.contains("not with <secret>") && !why.contains("sesame"), "{why}");
}
