//! If this fails, somebody who looks at the page cannot pause a sink, or a page without a token can.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::browser::Browser;
use super::page::{HEIGHT, WIDTH, assert_quiet_console, url};
use crate::support::{BBQ, Server, Setup, run};

/// Opens the orders of the sink, and returns those that are shown.
const OPEN: &str = "document.querySelector('#sink-table tbody button').click();
    return [...document.querySelectorAll('#order-list li')].filter((line) => line.checkVisibility())
        .map((line) => (line.querySelector('button:not([aria-label])') ?? line.querySelector('code')).textContent)";
const RESULT: &str = "return document.getElementById('order-result').textContent";
const STATE: &str = "return document.getElementById('order-state').textContent";

fn press(browser: &Browser, label: &str) {
    browser.run(&format!(
        "[...document.querySelectorAll('#order-list button')].find((button) => button.textContent === '{label}').click()"
    ));
}

fn says(what: &str) -> impl Fn(&Value) -> bool {
    move |text| text.as_str().is_some_and(|text| text.contains(what))
}

#[test]
fn with_a_token_the_page_tells_a_sink_what_to_do() {
    const TOKEN: &str = "token-of-an-operator";
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&["file:{dir}/out.log?name=archive of all"]);
    let tokens = setup.path().join("tokens");
    fs::write(&tokens, format!("somebody {TOKEN}\n")).expect("a file");
    let setup = setup.config(&format!("admin_token_file = \"{}\"\n", tokens.display()));
    let log = fs::File::create(setup.path().join("log")).expect("a log");
    let child = setup.command().stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
    let server = Server { setup: &setup, child };
    setup.wait_log("ready");
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    let dialog = "return document.getElementById('token-dialog').open";
    browser.wait("the question", dialog, |open| *open == true);
    browser.run(&format!(
        "const form = document.getElementById('token-form'); form.elements.token.value = '{TOKEN}'; form.requestSubmit()"
    ));
    browser.wait_shown();
    let orders = browser.run(OPEN);
    assert_eq!(orders, serde_json::json!(["Pause", "Resend dead letters", "Skip one message"]));
    press(&browser, "Pause");
    browser.wait("the pause", RESULT, says("paused archive of all"));
    browser.wait("the state", STATE, says("It is paused."));
    let line = "a line that waits\n";
    server.send(0, line.as_bytes());
    let queued = "return document.querySelector('[data-field=\"sinks.0.queued\"]').value";
    browser.wait("what waits", queued, |queued| queued == "1");
    // A message is not skipped by one touch.
    press(&browser, "Skip one message");
    press(&browser, "Yes: skip one message");
    browser.wait("the skip", RESULT, says("skipped 1 message, kept in "));
    press(&browser, "Resume");
    browser.wait("the end of the pause", RESULT, says("resumed archive of all"));
    browser.wait("the state", STATE, says("It delivers."));
    press(&browser, "Resend dead letters");
    browser.wait("an answer", RESULT, says("only sinks http: and otlp"));
    server.send(0, b"the next\n");
    let out = setup.path().join("out.log");
    browser.wait("the file", "return 0", |_| fs::read_to_string(&out).is_ok_and(|text| text == "the next\n"));
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}

#[test]
fn without_tokens_the_page_shows_the_commands_and_the_server_takes_none_from_it() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    setup.set_sinks(&["file:{dir}/out.log?name=it's all"]);
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    let shown = browser.run(OPEN);
    let commands: Vec<&str> = shown.as_array().expect("commands").iter().filter_map(Value::as_str).collect();
    let [pause, resend, skip] = commands[..] else { panic!("{commands:?}") };
    assert!(resend.starts_with("bbq sink resend ") && skip.starts_with("bbq sink skip "), "{commands:?}");
    let program = Path::new(BBQ).parent().expect("a directory").display();
    run(Command::new("bash").args(["-c", &format!("PATH={program}:$PATH; {pause}")]), b"");
    browser.wait("the pause", STATE, says("It is paused."));
    assert_eq!(server.status()["sinks"][0]["paused"], true);
    assert_quiet_console(&browser);
    let order =
        "return fetch('sinks/resume?name=it%27s+all', { method: 'POST' }).then((answer) => answer.status)";
    assert_eq!(browser.run(order), 403);
    assert_eq!(server.status()["sinks"][0]["paused"], true);
    assert_eq!(server.stop(), Some(0), "{}", setup.log());
}
