//! What bbq uses of Google Cloud Storage and of Azure Blob Storage, over a directory: writes that create an object or fail, and reads of
//! its end. It refuses requests that the key does not sign.
//!
//! It is no emulator: docs/ROADMAP.md says with which ones bbq was tried by hand.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use data_encoding::{BASE64, BASE64URL_NOPAD};
use percent_encoding::percent_decode_str;
use ring::hmac;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{free_ports, listen_at};

/// What the tests' servers write to.
pub(crate) const BUCKET: &str = "logs";
const ACCOUNT: &str = "me";
/// Keys of the account at Azure, as it writes them.
const AZURE_KEY: &str = "c2VzYW1lLXNlc2FtZQ==";
const AZURE_KEY_OF_OTHERS: &str = "bm90LXNlc2FtZQ==";
/// The name of the key of the service account at Google, which every token has.
const GOOGLE_KEY_ID: &str = "of-bbq";
/// Generated for these tests; it opens nothing.
const GOOGLE_KEY: &str = include_str!("service_account.pem");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Google,
    Azure,
}

/// Where a server is, running or not.
pub(crate) struct Cloud {
    pub(crate) port: u16,
    protocol: Protocol,
    directory: TempDir,
    /// It writes an object although there is one.
    is_careless: bool,
}

/// A running server. Ends when dropped.
pub(crate) struct CloudServer {
    shared: Arc<Shared>,
    port: u16,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    protocol: Protocol,
    root: PathBuf,
    is_careless: bool,
    has_ended: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
    /// Held while an object is created.
    creates: Mutex<()>,
}

impl Cloud {
    pub(crate) fn new(protocol: Protocol) -> Cloud {
        let directory = tempfile::tempdir().expect("a directory");
        Cloud { port: free_ports(1)[0], protocol, directory, is_careless: false }
    }

    pub(crate) fn careless(protocol: Protocol) -> Cloud {
        Cloud { is_careless: true, ..Cloud::new(protocol) }
    }

    /// The SPEC of a sink that reaches the server by a port, with a file of credentials in the directory of bbq.
    pub(crate) fn spec(&self, port: u16, query: &str) -> String {
        let server = format!("http://127.0.0.1:{port}");
        match self.protocol {
            Protocol::Google => {
                format!("gs://{BUCKET}/host?endpoint={server}&credentials={{dir}}/key&{query}")
            }
            Protocol::Azure => {
                format!(
                    "az://{ACCOUNT}/{BUCKET}/host?endpoint={server}/{ACCOUNT}&access_key_file={{dir}}/key&{query}"
                )
            }
        }
    }

    /// Writes the file of credentials: those that the server knows, or others.
    pub(crate) fn write_credentials(&self, directory: &Path, is_known: bool) {
        let google = |id: &str| {
            let key = json!({
                "type": "service_account",
                "private_key": GOOGLE_KEY,
                "private_key_id": id,
                "client_email": "bbq@project.example",
            });
            key.to_string()
        };
        let text = match (self.protocol, is_known) {
            (Protocol::Google, true) => google(GOOGLE_KEY_ID),
            (Protocol::Google, false) => google("of-others"),
            (Protocol::Azure, true) => AZURE_KEY.to_owned(),
            (Protocol::Azure, false) => AZURE_KEY_OF_OTHERS.to_owned(),
        };
        fs::write(directory.join("key"), text).expect("a file");
    }

    /// What no log may have.
    pub(crate) fn secret(&self) -> &'static str {
        match self.protocol {
            Protocol::Google => GOOGLE_KEY.lines().nth(1).expect("a key"),
            Protocol::Azure => AZURE_KEY,
        }
    }

    /// The bucket, in which each object is a file.
    pub(crate) fn bucket(&self) -> PathBuf {
        self.directory.path().join(BUCKET)
    }

    pub(crate) fn make_bucket(&self) {
        fs::create_dir(self.bucket()).expect("a directory");
    }

    pub(crate) fn start(&self) -> CloudServer {
        let listener = listen_at(self.port);
        let shared = Arc::new(Shared {
            protocol: self.protocol,
            root: self.directory.path().to_owned(),
            is_careless: self.is_careless,
            has_ended: AtomicBool::new(false),
            open: Mutex::default(),
            creates: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || of_thread.accept(&listener));
        CloudServer { shared, port: self.port, thread: Some(thread) }
    }
}

impl Drop for CloudServer {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        // It is woken by this.
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// A request; the names of headers are in small letters.
struct Request {
    method: String,
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            Some(line.trim_end().to_owned())
        };
        let first = line()?;
        let mut words = first.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let line = line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':')?;
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").map_or(Ok(0), |length| length.parse()).ok()?;
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(Request { method, path, headers, body })
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// Whether the token names the key that the server knows. Whether it is signed is the library's, and not looked at.
    fn is_of_google_key(&self) -> bool {
        let head =
            self.header("authorization").strip_prefix("Bearer ").and_then(|token| token.split('.').next());
        let head = head.and_then(|head| BASE64URL_NOPAD.decode(head.as_bytes()).ok());
        let head: Option<Value> = head.and_then(|head| serde_json::from_slice(&head).ok());
        head.is_some_and(|head| head["kid"] == GOOGLE_KEY_ID)
    }

    /// Whether the key of the account has signed what the documentation of Azure's "Shared Key" says.
    fn is_of_azure_key(&self) -> bool {
        let mut text = format!("{}\n", self.method);
        for name in [
            "content-encoding",
            "content-language",
            "content-length",
            "content-md5",
            "content-type",
            "date",
            "if-modified-since",
            "if-match",
            "if-none-match",
            "if-unmodified-since",
            "range",
        ] {
            let value = Some(self.header(name)).filter(|value| (name, *value) != ("content-length", "0"));
            text += &format!("{}\n", value.unwrap_or_default());
        }
        for (name, value) in self.headers.iter().filter(|(name, _)| name.starts_with("x-ms-")) {
            text += &format!("{name}:{value}\n");
        }
        text += &format!("/{ACCOUNT}{}", self.path);
        let key = BASE64.decode(AZURE_KEY.as_bytes()).expect("base64");
        let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
        self.header("authorization") == format!("SharedKey {ACCOUNT}:{}", BASE64.encode(signature.as_ref()))
    }
}

impl Shared {
    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        let mut threads = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            if self.has_ended.load(Ordering::SeqCst) {
                break;
            }
            self.open.lock().expect("no panic").push(stream.try_clone().expect("a descriptor"));
            let shared = Arc::clone(self);
            threads.push(std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                while let Some(request) = Request::read(&mut reader) {
                    let response = shared.respond(&request);
                    if reader.get_mut().write_all(&response).is_err() {
                        return;
                    }
                }
            }));
        }
        for stream in self.open.lock().expect("no panic").drain(..) {
            let _closed = stream.shutdown(Shutdown::Both);
        }
        for thread in threads {
            let _ended = thread.join();
        }
    }

    fn respond(&self, request: &Request) -> Vec<u8> {
        let (is_known, path, is_creating) = match self.protocol {
            Protocol::Google => (
                request.is_of_google_key(),
                request.path.strip_prefix('/'),
                request.header("x-goog-if-generation-match") == "0",
            ),
            Protocol::Azure => (
                request.is_of_azure_key(),
                request.path.strip_prefix(&format!("/{ACCOUNT}/")),
                request.header("if-none-match") == "*",
            ),
        };
        if !is_known {
            let status = if self.protocol == Protocol::Google { "401 Unauthorized" } else { "403 Forbidden" };
            return response(status, "", b"");
        }
        let decoded = path.map(|path| percent_decode_str(path).decode_utf8_lossy());
        let Some(path) = decoded.map(|path| self.root.join(&*path)) else {
            return response("404 Not Found", "", b"");
        };
        if !self.root.join(BUCKET).exists() {
            return response("404 Not Found", "", b"");
        }
        match request.method.as_str() {
            "PUT" => self.create(&path, &request.body, is_creating && !self.is_careless),
            "GET" | "HEAD" => read(&path, request),
            _ => response("405 Method Not Allowed", "", b""),
        }
    }

    fn create(&self, path: &Path, body: &[u8], only_if_new: bool) -> Vec<u8> {
        let _alone = self.creates.lock().expect("no panic");
        if only_if_new && path.exists() {
            let status = match self.protocol {
                Protocol::Google => "412 Precondition Failed",
                Protocol::Azure => "409 The specified blob already exists.",
            };
            return response(status, "", b"");
        }
        let staged = path.with_extension("tmp");
        fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
        fs::write(&staged, body).expect("a file");
        fs::rename(&staged, path).expect("a file");
        response("201 Created", "", b"")
    }
}

fn read(path: &Path, request: &Request) -> Vec<u8> {
    let Ok(object) = fs::read(path) else { return response("404 Not Found", "", b"") };
    if request.method == "HEAD" {
        let length = format!("Content-Length: {}\r\n", object.len());
        return response("200 OK", &length, b"");
    }
    let (from, until) =
        request.header("range").strip_prefix("bytes=").and_then(|r| r.split_once('-')).expect("a range");
    let (from, until) = match (from.parse::<usize>(), until.parse::<usize>()) {
        (Ok(from), Ok(last)) => (from, last + 1),
        (Err(_), Ok(length)) => (object.len().saturating_sub(length), object.len()),
        _ => (0, object.len()),
    };
    let range = format!("Content-Range: bytes {from}-{}/{}\r\n", until - 1, object.len());
    response("206 Partial Content", &range, &object[from..until])
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = match headers.contains("Content-Length") {
        true => String::new(),
        false => format!("Content-Length: {}\r\n", body.len()),
    };
    let modified = "Last-Modified: Sat, 31 Jan 2026 23:59:59 GMT\r\nETag: \"1\"\r\n";
    let mut bytes = format!("HTTP/1.1 {status}\r\n{length}{modified}{headers}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
