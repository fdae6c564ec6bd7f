//! If this fails, a sink that must go through a proxy does not reach its server, shows the password of the proxy, or does not say what the
//! proxy has against it.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};

use crate::grpc_server::{self, Reply};
use crate::http::{lines, wait_problem};
use crate::http_server::{response, serve, serve_with_heads};
use crate::support::{PATIENCE, Setup};

/// A test makes fewer.
const REQUESTS_MAX: usize = 1024;

/// A proxy that makes tunnels to one server, whatever server it is asked for, or answers with a status. Returns its address, and the first
/// lines of what it is asked.
fn tunnels(to: Option<&str>, refusal: &'static str) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its own").to_string();
    let (told, asked) = mpsc::sync_channel(REQUESTS_MAX);
    let to = to.map(str::to_owned);
    std::thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let (told, to) = (told.clone(), to.clone());
            std::thread::spawn(move || tunnel(client, to.as_deref(), refusal, &told));
        }
    });
    (address, asked)
}

fn tunnel(client: TcpStream, to: Option<&str>, refusal: &str, told: &mpsc::SyncSender<String>) -> Option<()> {
    let mut reader = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).ok().filter(|bytes| *bytes > 0)?;
    }
    told.send(head.lines().next().unwrap_or_default().to_owned()).ok()?;
    let mut client = reader.get_ref().try_clone().ok()?;
    let Some(to) = to else {
        return client.write_all(response(refusal).as_bytes()).ok();
    };
    let server = TcpStream::connect(to).expect("the server");
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    let (mut from_server, mut to_client) = (server.try_clone().ok()?, client);
    std::thread::spawn(move || {
        // Its end is the end of the connection.
        let _ended = std::io::copy(&mut from_server, &mut to_client);
        let _closed = to_client.shutdown(Shutdown::Both);
    });
    let mut to_server = server;
    std::io::copy(&mut reader, &mut to_server).ok().map(|_| ())
}

#[test]
fn requests_without_tls_go_to_the_proxy_of_the_environment() {
    let (told, heads) = mpsc::sync_channel(REQUESTS_MAX);
    let (proxy, bodies) = serve_with_heads(move |head, _| {
        told.send(head.to_owned()).expect("the test waits");
        Some(response("204 No Content"))
    });
    let variable = format!("http_proxy=http://ops:sesame@{proxy}");
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).prefix(&["env", &variable]);
    // No resolver knows the name: the proxy is asked for it.
    setup.set_sinks(&["http://logs.invalid/in?format=raw"]);
    let server = setup.start();
    server.send(0, &lines(0..10));
    server.wait_delivered(10);
    let head = heads.recv_timeout(PATIENCE).expect("a request");
    assert!(head.starts_with("post http://logs.invalid/in http/1.1\r\n"), "{head}");
    // ops:sesame
    assert!(head.contains("proxy-authorization: basic b3bzonnlc2ftzq=="), "{head}");
    assert_eq!(bodies.try_iter().collect::<String>().as_bytes(), lines(0..10));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
    assert!(!setup.log().contains("sesame"), "{}", setup.log());
}

#[test]
fn other_requests_get_a_tunnel() {
    let (receiver, requests) = grpc_server::serve(|_| Reply::Taken(Vec::new()));
    let (proxy, asked) = tunnels(Some(&receiver), "");
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&[&format!("otlp+grpc://collector.invalid:4317?proxy=http://{proxy}")]);
    let server = setup.start();
    server.send(0, b"through the tunnel\n");
    server.wait_delivered(1);
    assert_eq!(asked.recv_timeout(PATIENCE).expect("a request"), "CONNECT collector.invalid:4317 HTTP/1.1");
    drop(requests);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn what_is_wrong_with_a_proxy_is_told() {
    let (proxy, _asked) = tunnels(None, "407 Proxy Authentication Required");
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&[&format!("https://logs.invalid/?proxy=http://{proxy}")]);
    let server = setup.start();
    server.send(0, b"a line\n");
    wait_problem(
        &server,
        &format!("by the proxy http://{proxy}/: tunnel error: proxy authorization required"),
    );
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

/// A server on the machine itself has no proxy but one that the SPEC names.
#[test]
fn near_servers_are_reached_without_a_proxy() {
    let (address, bodies) = serve(|_| Some(response("204 No Content")));
    // Nobody listens there.
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).prefix(&["env", "http_proxy=http://127.0.0.1:1"]);
    for option in ["", "&proxy=off"] {
        let mut setup =
            Setup::new(&["lines+tcp://127.0.0.1:{0}"]).prefix(&["env", "http_proxy=http://127.0.0.1:1"]);
        setup.set_sinks(&[&format!("http://{address}/?format=raw{option}")]);
        let server = setup.start();
        server.send(0, &lines(0..10));
        server.wait_delivered(10);
        assert_eq!(bodies.try_iter().collect::<String>().as_bytes(), lines(0..10));
        assert_eq!(server.stop(), Some(0), "{}", setup.log());
    }
    let mut command = setup.command();
    command.args(["--sink", "http://logs.invalid/?proxy=http://ops:sesame@proxy.invalid:3128"]);
    let (code, why) = crate::support::refused_start(&mut command);
    assert!(code == Some(2) && !why.contains("sesame"), "{why}");
    assert!(why.contains("set https_proxy=http://USER:PASSWORD@HOST:PORT in the environment"), "{why}");
}
