//! If this fails, the page shows other numbers than `bbq status`, runs what a sender wrote, or leaves a small window.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::browser::Browser;
use crate::support::{BBQ, Server, Setup, run};

pub(super) const WIDTH: u32 = 1280;
pub(super) const HEIGHT: u32 = 800;
pub(super) const PHONE: (u32, u32) = (360, 740);

pub(super) fn url(setup: &Setup) -> String {
    format!("http://{}/", setup.admin())
}

/// Every number on the page that is one of the status, by its field.
const FIELDS: &str = "return Object.fromEntries([...document.querySelectorAll('[data-field]')]
    .filter((node) => node.tagName === 'DATA').map((node) => [node.dataset.field, node.value]))";

/// The number of a field in the status.
fn number_of(status: &Value, field: &str) -> Value {
    let words: Vec<&str> = field.split('.').collect();
    let sum = |dropped: &Value| {
        let reasons = dropped.as_object().expect("reasons").values();
        Value::from(reasons.filter_map(Value::as_u64).sum::<u64>())
    };
    let place = || words[1].parse::<usize>().expect("a place");
    match words.as_slice() {
        ["ledger", "dropped"] => sum(&status["ledger"]["dropped"]),
        ["ledger", "dropped", reason] => status["ledger"]["dropped"][reason].clone(),
        ["sinks", _, "dropped"] => sum(&status["sinks"][place()]["dropped"]),
        ["listeners", _, "dropped"] => sum(&status["listeners"][place()]["ledger"]["dropped"]),
        ["listeners", _, what @ ("received" | "filtered")] => {
            status["listeners"][place()]["ledger"][what].clone()
        }
        ["listeners", _, "sockets", socket, what] => {
            let socket: usize = socket.parse().expect("a place");
            status["listeners"][place()]["sockets"][socket][what].clone()
        }
        ["workers", _, "records"] => status["spool"]["lanes"][place()]["records"].clone(),
        [list, _, what] => status[list][place()][what].clone(),
        [object, what] => status[object][what].clone(),
        _ => panic!("what is {field}?"),
    }
}

fn assert_same_numbers(server: &Server<'_>, browser: &Browser) {
    browser.wait_shown();
    let (shown, status) = (browser.run(FIELDS), server.status());
    let shown = shown.as_object().expect("fields");
    assert!(shown.len() > 25, "{shown:?}");
    for (field, value) in shown {
        let number = number_of(&status, field);
        let number = if number.is_null() { String::new() } else { number.to_string() };
        assert_eq!(value.as_str(), Some(&*number), "{field}\n{status:#}");
    }
}

pub(super) fn assert_quiet_console(browser: &Browser) {
    let said = browser.console();
    assert!(said.is_empty(), "{said:#?}");
}

#[test]
fn the_numbers_are_those_of_the_status_and_a_burst_is_seen() {
    let setup =
        Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app", "syslog+udp://127.0.0.1:{1}?name=routers"])
            .with(&["--workers", "2"]);
    let server = setup.start();
    server.send(0, b"one\ntwo\n");
    server.wait_delivered(2);
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    assert_same_numbers(&server, &browser);
    const BURST: usize = 20_000;
    server.send(0, "a burst\n".repeat(BURST).as_bytes());
    let received = "return document.querySelector('[data-field=\"ledger.received\"]').value";
    browser.wait("the burst", received, |value| value.as_str() == Some(&(BURST + 2).to_string()));
    server.wait_delivered(BURST as u64 + 2);
    assert_same_numbers(&server, &browser);
    let balance = browser.run("return document.getElementById('balance').textContent");
    assert!(balance.as_str().is_some_and(|text| text.contains("balances")), "{balance}");
    let history = browser
        .run("return document.querySelector('.plot path[data-series=\"received\"]').getAttribute('d')");
    assert!(history.as_str().is_some_and(|path| path.starts_with('M')), "{history}");
    // Everything that is configured, and no more than is set.
    let keys = browser.run(
        "return [...document.querySelectorAll('#configuration-table tbody tr')].map((row) => row.innerText)",
    );
    let keys: Vec<&str> = keys.as_array().expect("rows").iter().filter_map(Value::as_str).collect();
    // The picture has what is configured by name. Workers are shown when somebody asks for them.
    let boxes = "return [...document.querySelectorAll('#flow-picture .stage')].filter((stage) => stage.checkVisibility())
        .map((stage) => stage.id).join()";
    assert_eq!(browser.run(boxes), "stage-listeners,stage-spool,stage-sinks");
    browser.run("document.getElementById('show-workers').click()");
    assert_eq!(browser.run(boxes), "stage-listeners,stage-workers,stage-spool,stage-sinks");
    let tiles = browser.run("return document.getElementById('tiles').innerText");
    let has = |word: &str| tiles.as_str().is_some_and(|tiles| tiles.contains(word));
    assert!(["Messages in", "/s to disk", "Wait for the disk"].iter().all(|word| has(word)), "{tiles}");
    assert!(keys.iter().any(|key| key.contains("workers") && key.contains('2')), "{keys:?}");
    assert!(
        keys.iter().any(|key| key.contains("hello_timeout_seconds") && key.contains("default")),
        "{keys:?}"
    );
    assert_quiet_console(&browser);
}

/// What the page shows is run as it is.
#[test]
fn before_the_first_message_the_page_shows_how_to_send_it() {
    let setup = Setup::new(&[
        "syslog+tcp://127.0.0.1:{0}",
        "http+tcp://127.0.0.1:{1}",
        "lines+tcp://127.0.0.1:{2}",
        "bbq+tcp://127.0.0.1:{3}",
    ]);
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    let shown = browser
        .run("return [...document.querySelectorAll('#first-commands code')].map((code) => code.textContent)");
    let commands: Vec<&str> = shown.as_array().expect("commands").iter().filter_map(Value::as_str).collect();
    let [logger, curl, lines, send] = commands[..] else { panic!("{commands:?}") };
    assert!(logger.starts_with("logger ") && curl.starts_with("curl "), "{commands:?}");
    let program = Path::new(BBQ).parent().expect("a directory").display();
    let send = format!("PATH={program}:$PATH; {send}");
    for command in [logger, curl, lines, &send] {
        run(Command::new("bash").args(["-c", command]), b"");
    }
    server.wait_delivered(4);
    browser.wait("no commands", "return document.getElementById('first').hidden", |is| {
        is.as_bool() == Some(true)
    });
    let title = browser.run("return document.title");
    let data = server.status()["data"].clone();
    let has = |text: &Value| {
        text.as_str().is_some_and(|text| title.as_str().is_some_and(|title| title.contains(text)))
    };
    assert!(has(&data) && has(&server.status()["host"]), "{title}");
    assert!(data.as_str().is_some_and(|data| Path::new(data).join("lock").exists()), "{data}");
    assert_quiet_console(&browser);
}

#[test]
fn a_message_is_text_on_the_page_whatever_it_is() {
    const ATTACK: &str = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u{202e}exe.txt";
    // What turns the order of characters around is written out.
    const SHOWN: &str = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\\u{202e}exe.txt";
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=<i>app</i>"]);
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    browser.run("document.getElementById('follow').click()");
    // A message that comes before the viewer is not shown.
    let shown = "return document.getElementById('messages').innerText";
    browser.wait("the message", shown, |shown| {
        server.send(0, format!("{ATTACK}\n").as_bytes());
        shown.as_str().is_some_and(|shown| shown.contains(SHOWN))
    });
    let elements = "return document.querySelectorAll('#messages img, #messages script, main i').length";
    assert_eq!(browser.run(elements), 0);
    assert_ne!(browser.run("return document.title"), "owned");
    // Another filter shows nothing of it.
    browser.run(
        "document.forms.filter.elements.text.value = 'onerror=.*title';
        document.forms.filter.elements.regex.checked = true;
        document.forms.filter.elements.text.dispatchEvent(new Event('change', { bubbles: true }))",
    );
    browser.wait("the message that matches", shown, |shown| {
        server.send(0, format!("not this\n{ATTACK}\n").as_bytes());
        shown.as_str().is_some_and(|shown| shown.contains(SHOWN) && !shown.contains("not this"))
    });
    // A pattern that the server refuses is told, and the next one is tried without a click.
    let pattern = |pattern: &str| {
        browser.run(&format!(
            "document.forms.filter.elements.text.value = '{pattern}';
            document.forms.filter.elements.text.dispatchEvent(new Event('change', {{ bubbles: true }}))"
        ))
    };
    let state = "return document.getElementById('tail-state').textContent";
    let says =
        |words: &'static str| move |said: &Value| said.as_str().is_some_and(|said| said.contains(words));
    pattern("(");
    browser.wait("why", state, says("not a regular expression"));
    pattern("owned");
    browser.wait("that it follows", state, says("Following."));
    // A refused request is an error of the network for the console.
    assert!(browser.console().iter().all(|line| line.to_string().contains("400")));
}

/// The lines are those of an entry of the journal and of a message of syslog, as the server's JSON has them.
#[test]
fn an_entry_of_the_journal_is_shown_with_its_program() {
    const ANSWER: &str = r#"const ask = window.fetch;
        const line = (fields) => JSON.stringify({ time: "2026-01-31T12:00:00.123456789Z", listener: "j", stream: "0", sequence: 1, ...fields }) + "\n";
        window.fetch = async (path, options) => path.startsWith("tail?")
            ? new Response(line({ appname: "sshd", procid: "7", message: "hello" }) + line({ appname: "cron", message: "tick" })
                + line({ appname: "su", procid: "7", message: "<34>su[7]: bye", msg: "bye" }))
            : ask(path, options);"#;
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let _server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    browser.run(ANSWER);
    browser.run("document.getElementById('follow').click()");
    let shown =
        "return [...document.querySelectorAll('#messages .body')].map((body) => body.textContent).join('|')";
    let expected = "sshd[7]: hello|cron: tick|<34>su[7]: bye";
    browser.wait("the entries", shown, |shown| shown.as_str() == Some(expected));
    assert_quiet_console(&browser);
}

#[test]
fn the_configuration_is_that_of_the_last_reload_and_says_where_a_value_is_from() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]).config("drain_timeout_seconds = 7\n");
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    let rows = "return [...document.querySelectorAll('#configuration-table tbody tr')].map((row) => row.innerText).join('\\n')";
    let has = |words: [&'static str; 3]| {
        move |rows: &Value| {
            let mut rows = rows.as_str().unwrap_or_default().lines();
            rows.any(|row| words.iter().all(|word| row.contains(word)))
        }
    };
    browser.wait("the file", rows, has(["drain_timeout_seconds", "7", "bbq.toml:1:25"]));
    browser.wait("the option", rows, has(["listen", "lines+tcp://127.0.0.1:", "option --listen"]));
    browser.wait("a default", rows, has(["evict_idle_seconds", "", "default"]));
    fs::write(setup.path().join("bbq.toml"), "\ndrain_timeout_seconds = 9\n").expect("a file");
    server.signal(libc::SIGHUP);
    browser.wait("the reload", rows, has(["drain_timeout_seconds", "9", "bbq.toml:2:25"]));
    // The same value elsewhere changes nothing but the place.
    fs::write(setup.path().join("bbq.toml"), "# why\n\ndrain_timeout_seconds = 9\n").expect("a file");
    server.signal(libc::SIGHUP);
    browser.wait("the place", rows, has(["drain_timeout_seconds", "9", "bbq.toml:3:25"]));
    assert_quiet_console(&browser);
}

#[test]
fn it_fits_a_phone_and_both_colour_schemes() {
    let long = "lines+tcp://127.0.0.1:{0}?name=a-very-long-name-of-a-listener-that-does-not-fit-into-any-box-of-the-page";
    let setup =
        Setup::new(&[long, "http+tcp://127.0.0.1:{1}", "bbq+tcp://127.0.0.1:{2}"]).with(&["--workers", "3"]);
    let server = setup.start();
    server.send(0, b"a message\n");
    let browser = Browser::open(&url(&setup), PHONE.0, PHONE.1);
    browser.wait_shown();
    assert_eq!(browser.run("return document.documentElement.scrollWidth"), PHONE.0);
    // No table is wider than its part of the page, and no cell is cut.
    let cut = "return [...document.querySelectorAll('.wide, .wide th, .wide td, .tiles dd')]
        .filter((node) => node.checkVisibility() && node.scrollWidth > node.clientWidth + 1).map((node) => node.textContent)";
    assert_eq!(browser.run(cut), serde_json::json!([]));
    browser.resize(WIDTH, HEIGHT);
    browser.wait_shown();
    assert_eq!(browser.run("return document.documentElement.scrollWidth"), WIDTH);
    let colour = |is_dark| {
        browser.set_dark(is_dark);
        browser.run("return getComputedStyle(document.querySelector('main > section')).backgroundColor")
    };
    assert_ne!(colour(true), colour(false));
    assert_quiet_console(&browser);
}

/// What a message would do that came to be markup.
#[test]
fn the_browser_runs_and_loads_nothing_else() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}", "http+tcp://127.0.0.1:{1}"]);
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    assert_quiet_console(&browser);
    // It says what was refused. What is not awaited here is refused by the time that the script ends.
    let elsewhere = format!("http://{}/", setup.address(1));
    let attempts = [
        ("markup", "document.body.innerHTML = '<b>bold</b>'".to_owned()),
        ("a request to elsewhere", format!("await fetch('{elsewhere}', {{ method: 'POST', body: 'stolen' }})")),
        (
            "a script in the page",
            "const script = document.createElement('script');
            script.append('document.title = \"owned\"'); document.head.append(script);
            if (document.title !== 'owned') throw Error('not run')"
                .to_owned(),
        ),
        (
            "a picture from elsewhere",
            format!("const picture = new Image(); picture.src = '{elsewhere}'; await picture.decode()"),
        ),
        (
            "a frame",
            "const frame = document.createElement('iframe'); frame.src = 'http://localhost/';
            const refused = new Promise((told) => addEventListener('securitypolicyviolation', told, { once: true }));
            document.body.append(frame); await refused; throw Error('not loaded')"
                .to_owned(),
        ),
    ];
    for (what, script) in attempts {
        let refused =
            browser.run(&format!("try {{ {script}; return null }} catch (error) {{ return String(error) }}"));
        assert!(refused.is_string(), "{what} was not refused");
    }
    assert_ne!(browser.run("return document.title"), "owned");
    assert!(browser.console().iter().any(|line| line.contains("Content Security Policy")));
    assert_eq!(server.status()["ledger"]["received"], 0);
}

#[test]
fn without_a_token_it_shows_nothing() {
    const TOKEN: &str = "token-of-somebody-who-may-look";
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=secret-listener"]);
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
    assert!(
        !browser.run("return document.body.innerText").as_str().expect("text").contains("secret-listener")
    );
    let give = |token: &str| {
        browser.run(&format!(
            "const form = document.getElementById('token-form'); form.elements.token.value = '{token}'; form.requestSubmit()"
        ));
    };
    give("a-wrong-token-0123");
    let problem = "return document.getElementById('token-problem').textContent";
    browser.wait("the refusal", problem, |text| {
        text.as_str().is_some_and(|text| text.contains("does not accept"))
    });
    give(TOKEN);
    browser.wait("the server", "return document.body.innerText", |text| {
        text.as_str().is_some_and(|text| text.contains("secret-listener"))
    });
    assert_eq!(browser.run(dialog), false);
    assert!(!browser.run("return location.href").as_str().expect("a URL").contains(TOKEN));
    assert!(!setup.log().contains(TOKEN));
    // Those of the refused requests alone.
    let said: Vec<String> = browser.console().into_iter().filter(|line| !line.contains("401")).collect();
    assert!(said.is_empty(), "{said:#?}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_server_that_goes_is_told_and_its_successor_is_shown() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    let state = "return document.getElementById('state').textContent";
    server.kill();
    browser.wait("the absence", state, |text| text.as_str().is_some_and(|text| text.contains("no answer")));
    let server = setup.start();
    let pid = format!("pid {}", server.pid());
    browser.wait("the next server", "return document.getElementById('who').textContent", |text| {
        text.as_str().is_some_and(|text| text.contains(&pid))
    });
    browser.wait("its state", state, |text| {
        text.as_str().is_some_and(|text| text.contains("works as configured"))
    });
}
