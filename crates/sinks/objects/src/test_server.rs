//! A server of objects for tests: it keeps what is put, unless a test says otherwise.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use bbq_sink::{Proxy, Resolver};
use bbq_tls::ClientTls;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};

use super::connection::once;
use super::connector::Connector;
use super::footer::FOOTER_BYTES;
use super::store::{Bucket, Cloud, Remote, Store};

static CLOUD: Cloud = Cloud {
    condition: "If-None-Match: *",
    has_suffix_ranges: true,
    no_bucket: "no bucket",
    no_access: "no access",
};

/// See the module. It lives as long as the process.
#[derive(Clone)]
pub(super) struct TestServer {
    pub(super) port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// `PUT` and the length of the body, or `GET`.
    requests: Vec<String>,
    /// What is responded to the next requests, which are not carried out.
    responses: Vec<&'static str>,
    /// After so many requests, the connection is closed instead of a response.
    lost_after: Option<usize>,
    connections: usize,
}

impl TestServer {
    pub(super) fn start() -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = TestServer { port, state: Arc::default() };
        let of_thread = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, stream) = (of_thread.clone(), stream.unwrap());
                server.state.lock().unwrap().connections += 1;
                std::thread::spawn(move || while server.serve(&stream).is_some() {});
            }
        });
        server
    }

    /// The bucket, reached by a connector.
    pub(super) fn store(&self, connector: Connector) -> Store {
        let uploads = connector.uploads();
        let bucket = AmazonS3Builder::new()
            .with_bucket_name("logs")
            .with_endpoint(format!("http://127.0.0.1:{}", self.port))
            .with_access_key_id("me")
            .with_secret_access_key("sesame")
            .with_allow_http(true)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(once())
            .with_http_connector(connector);
        let remote = Remote::S3(bucket.build().unwrap());
        Store::Bucket(Bucket { remote, prefix: String::new(), cloud: &CLOUD, uploads })
    }

    /// Refuses the next request.
    pub(super) fn refuse(&self, status: &'static str) {
        self.state.lock().unwrap().responses.push(status);
    }

    /// Carries out the request that has this number, beginning with 1, and loses its response.
    pub(super) fn lose_response(&self, number: usize) {
        self.state.lock().unwrap().lost_after = Some(number);
    }

    /// The requests since the last call.
    pub(super) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    pub(super) fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).ok().filter(|bytes| *bytes > 0)?;
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next()?.to_owned());
        let mut state = self.state.lock().unwrap();
        let text = if method == "put" { format!("PUT {}", body.len()) } else { method.to_uppercase() };
        state.requests.push(text);
        if let Some(status) = state.responses.pop() {
            return respond(stream, status, &[]);
        }
        let object = state.objects.get(&path).cloned();
        let done = match (method, object) {
            ("put", Some(_)) => ("412 Precondition Failed", Vec::new()),
            ("put", None) => {
                state.objects.insert(path, body);
                ("200 OK", Vec::new())
            }
            (_, None) => ("404 Not Found", Vec::new()),
            (_, Some(object)) => ("206 Partial Content", object),
        };
        state.lost_after = state.lost_after.and_then(|number| number.checked_sub(1));
        if state.lost_after == Some(0) {
            state.lost_after = None;
            return None;
        }
        respond(stream, done.0, &done.1)
    }
}

/// Only the ends of objects are asked for.
fn respond(mut stream: &TcpStream, status: &str, object: &[u8]) -> Option<()> {
    let (whole, last) = (object.len(), object.len().saturating_sub(1));
    let from = whole.saturating_sub(FOOTER_BYTES);
    let head = format!(
        "HTTP/1.1 {status}\r\nETag: \"1\"\r\nLast-Modified: Sat, 31 Jan 2026 23:59:59 GMT\r\n\
         Content-Range: bytes {from}-{last}/{whole}\r\nContent-Length: {}\r\n\r\n",
        whole - from
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&object[from..]).ok()
}

/// How a test reaches a server on this machine.
pub(super) fn connector() -> Connector {
    Connector::new(Resolver::start().unwrap(), ClientTls::nobody().unwrap(), &Proxy::Off)
}
