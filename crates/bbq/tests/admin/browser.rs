//! Headless Chromium, driven through chromedriver by the WebDriver protocol (W3C): JSON over HTTP.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::support::program::Program;
use crate::support::{PATIENCE, free_ports, pause};

/// A window with one page. Both programs end when it is dropped.
pub(crate) struct Browser {
    address: SocketAddr,
    session: String,
    _profile: tempfile::TempDir,
    _driver: Program,
}

impl Browser {
    /// Opens a URL in a window of that size.
    pub(crate) fn open(url: &str, width: u32, height: u32) -> Browser {
        let profile = tempfile::tempdir().expect("a directory");
        let address = SocketAddr::from(([127, 0, 0, 1], free_ports(1)[0]));
        let driver = Command::new("chromedriver")
            .arg(format!("--port={}", address.port()))
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "chromedriver cannot be started ({error}); `cargo xtask test` installs it: apt-get install \
                     chromium chromium-driver"
                )
            });
        let driver = Program::of(driver);
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < PATIENCE, "chromedriver does not listen");
            pause();
        }
        let user_data = format!("--user-data-dir={}", profile.path().join("profile").display());
        let arguments = [
            "--headless=new",
            // Chromium's sandbox does not work as root; the page is ours.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--no-first-run",
            "--hide-scrollbars",
            &user_data,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": arguments },
        } } });
        let opened = ask(address, "POST", "/session", Some(&wanted));
        let session = opened["sessionId"].as_str().expect("a session").to_owned();
        let browser = Browser { address, session, _profile: profile, _driver: driver };
        browser.resize(width, height);
        browser.command("POST", "/url", Some(&json!({ "url": url })));
        browser
    }

    /// The page's own size, which a window of a headless browser is not.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    pub(crate) fn set_dark(&self, is_dark: bool) {
        let value = if is_dark { "dark" } else { "light" };
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.devtools("Emulation.setEmulatedMedia", &feature);
    }

    /// Runs the body of a function in the page, and returns its value.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.command("POST", "/execute/sync", Some(&json!({ "script": script, "args": [] })))
    }

    /// Waits until the value of a script is as wanted.
    pub(crate) fn wait(&self, what: &str, script: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let value = self.run(script);
            if wanted(&value) {
                return value;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} did not come: {value}\n{:#?}", self.console());
            pause();
        }
    }

    /// Waits until the page has shown a status that it asked for after this call.
    pub(crate) fn wait_shown(&self) {
        let now = self.run("return performance.now()").as_f64().expect("a time");
        let shown = "return Number(document.documentElement.dataset.shown ?? 0)";
        // The request before may be under way.
        for _ in 0..2 {
            let last = self.run(shown).as_f64().expect("a time").max(now);
            self.wait("a status on the page", shown, |shown| shown.as_f64() > Some(last));
        }
    }

    /// Presses a key, by its character in WebDriver (section 17.4.2): real input, which moves the focus.
    pub(crate) fn press(&self, key: char) {
        let presses = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let actions = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": presses }] });
        self.command("POST", "/actions", Some(&actions));
    }

    /// Everything the console has had since the last call: errors, and violations of the policy.
    pub(crate) fn console(&self) -> Vec<String> {
        let lines = self.command("POST", "/se/log", Some(&json!({ "type": "browser" })));
        let text = |line: &Value| format!("{}: {}", line["level"], line["message"]);
        lines.as_array().expect("a list").iter().map(text).collect()
    }

    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let picture = self.command("GET", "/screenshot", None);
        BASE64.decode(picture.as_str().expect("base64").as_bytes()).expect("base64")
    }

    /// What a screen reader is given: the nodes of the accessibility tree.
    pub(crate) fn accessible(&self) -> Vec<Value> {
        let tree = self.devtools("Accessibility.getFullAXTree", &json!({}));
        tree["nodes"].as_array().expect("nodes").clone()
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.command("POST", "/goog/cdp/execute", Some(&json!({ "cmd": command, "params": parameters })))
    }

    fn command(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        ask(self.address, method, &format!("/session/{}{path}", self.session), body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends Chromium, which would outlive chromedriver. A test that fails must not fail twice.
        let end = || {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let (session, address) = (&self.session, self.address);
            let head =
                format!("DELETE /session/{session} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes())?;
            stream.read(&mut [0; 1024])
        };
        let _ended = end();
    }
}

fn ask(address: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> Value {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(address).expect("chromedriver listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).expect("it reads");
    // chromedriver leaves the connection open.
    let mut answer = Vec::new();
    let (head, length) = loop {
        let mut part = [0; 16 * 1024];
        let count = stream.read(&mut part).expect("it answers");
        assert!(count > 0, "{method} {path}: no answer");
        answer.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, length) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| length.trim().parse::<usize>().expect("a length"))
        });
        break (head.to_owned(), length.expect("a length"));
    };
    let whole = head.len() + 4 + length;
    let have = answer.len();
    answer.resize(whole, 0);
    stream.read_exact(&mut answer[have..]).expect("the rest");
    let body = std::str::from_utf8(&answer[head.len() + 4..]).expect("text");
    let value: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{method} {path}: {value:#}");
    value["value"].clone()
}
