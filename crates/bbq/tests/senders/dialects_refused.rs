//! If this fails, a sender of Loki, Elasticsearch, Splunk or Graylog drops its messages when bbq has no room, as it is not told in its own way to
//! try again; or somebody without a token can send.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;

use crate::dialects::{ask, loki_request, post};
use crate::support::{Setup, assert_balanced};

const TOKEN: &str = "a-token-of-somebody";

#[test]
fn a_full_spool_is_told_in_the_way_of_each_protocol() {
    let mut setup = Setup::new(&["http+tcp://127.0.0.1:{0}"])
        .with(&["--workers", "1"])
        .config("batch_timeout_seconds = 1\n[spool]\nsegment_bytes = \"1MiB\"\nbytes_max = \"4MiB\"\n");
    setup.set_sinks(&["stdout:"]);
    let mut server = setup.start_writing_to(Stdio::piped());
    let mut pipe = server.child.stdout.take().expect("piped");
    let body = vec![b'x'; 100_000];
    let mut statuses = (0..1000).map(|_| post(&setup, "/", &[], &body).status);
    assert!(statuses.any(|status| status == 503), "a spool of 4 MiB takes no 100 MB");
    let loki = loki_request("{}", &[(1, "a line", &[])]);
    for (path, body, status, word) in [
        ("/loki/api/v1/push", &loki[..], 429, "no room"),
        ("/logs/_bulk", b"{\"create\":{}}\n{}\n", 429, "es_rejected_execution_exception"),
        ("/services/collector", b"{\"event\":\"a\"}", 503, "Server is busy"),
        ("/services/collector/raw", b"a line", 503, "Server is busy"),
        ("/gelf", b"{\"short_message\":\"a\"}", 503, "no room"),
    ] {
        let url = format!("http://{}{path}", setup.address(0));
        let answer = post(&setup, path, &[], body);
        assert_eq!(answer.status, status, "{url}: {}", answer.body);
        assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
        let is_json = answer.head.contains("content-type: application/json");
        assert_eq!(is_json, word != "no room", "{}", answer.head);
        assert!(!is_json || answer.body.to_string().contains(word), "{}", answer.body);
    }
    assert_eq!(ask(&setup, "GET", "/ready", &[], b"").status, 503);
    let health = ask(&setup, "GET", "/services/collector/health", &[], b"");
    assert_eq!((health.status, &health.body["code"]), (503, &json!(18)));
    let reader = std::thread::spawn(move || {
        let mut output = Vec::new();
        pipe.read_to_end(&mut output).map(|_| output.len())
    });
    server.wait_status("room", |status| status["ledger"]["queued"] == 0);
    assert_eq!(post(&setup, "/loki/api/v1/push", &[], &loki).status, 204);
    assert_eq!(ask(&setup, "GET", "/ready", &[], b"").status, 200);
    assert_balanced(&server.status());
    assert_eq!(server.stop(), Some(0));
    reader.join().expect("it only reads").expect("it is a pipe");
}

/// In base64, a name and the token.
fn basic() -> String {
    format!("Authorization: Basic {}", data_encoding::BASE64.encode(format!("somebody:{TOKEN}").as_bytes()))
}

#[test]
fn each_sender_shows_the_token_in_its_own_way() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}?tokens={dir}/tokens"]);
    let file = setup.path().join("tokens");
    fs::write(&file, format!("somebody {TOKEN}\n")).expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("permissions");
    let server = setup.start();
    let loki = loki_request("{}", &[(1, "a line", &[])]);
    let splunk = format!("Authorization: Splunk {TOKEN}");
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let key = format!("Authorization: ApiKey {TOKEN}");
    let encoded = data_encoding::BASE64.encode(format!("id:{TOKEN}").as_bytes());
    let encoded_key = format!("Authorization: ApiKey {encoded}");
    let basic = basic();
    let bulk = b"{\"create\":{}}\n{}\n";
    let mut stored = 0;
    for (path, body, headers) in [
        ("/loki/api/v1/push", &loki[..], &basic),
        ("/logs/_bulk", bulk, &basic),
        ("/logs/_bulk", bulk, &key),
        ("/logs/_bulk", bulk, &encoded_key),
        ("/services/collector", b"{\"event\":\"a\"}", &splunk),
        ("/services/collector/raw", b"a line", &basic),
        ("/gelf", b"{\"short_message\":\"a\"}", &bearer),
        ("/", b"a message", &basic),
    ] {
        let answer = post(&setup, path, &[headers], body);
        assert!(matches!(answer.status, 200 | 202 | 204), "{path}: {}", answer.head);
        stored += 1;
        let wrong = headers.replace(TOKEN, "a-token-of-nobody");
        let statuses = if path.starts_with("/services") { [403, 401, 401] } else { [401; 3] };
        for (header, status) in
            [wrong.as_str(), "Authorization: Digest x", "X-Nothing: 1"].into_iter().zip(statuses)
        {
            if header != headers.as_str() {
                assert_eq!(post(&setup, path, &[header], body).status, status, "{path} with {header}");
            }
        }
    }
    for (authorization, code) in
        [("X-Nothing: 1", 2), ("Authorization: Digest x", 3), ("Authorization: Splunk a-token-of-nobody", 4)]
    {
        let answer = post(&setup, "/services/collector", &[authorization], b"{\"event\":\"a\"}");
        assert_eq!(answer.body["code"], code, "{}", answer.body);
    }
    // Who only looks whether a server is there needs none, and who asks more does.
    assert_eq!(ask(&setup, "GET", "/ready", &[], b"").status, 200);
    assert_eq!(ask(&setup, "GET", "/services/collector/health", &[], b"").status, 200);
    for path in ["/", "/_license", "/_search", "/loki/api/v1/status/buildinfo"] {
        assert_eq!(ask(&setup, "GET", path, &[], b"").status, 401, "{path}");
    }
    assert_eq!(ask(&setup, "GET", "/", &[&basic], b"").status, 200);
    server.wait_delivered(stored);
    assert_eq!(server.stop(), Some(0));
}

/// A browser lets any page post to a server of its reader's machine.
#[test]
fn a_page_of_another_site_cannot_send() {
    let setup = Setup::new(&["http+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    for path in ["/loki/api/v1/push", "/logs/_bulk", "/services/collector", "/gelf"] {
        let answer = post(&setup, path, &["Sec-Fetch-Site: cross-site"], b"{}");
        assert_eq!(answer.status, 403, "{path}");
    }
    assert_eq!(server.stop(), Some(0));
    assert!(setup.written().is_empty());
}
