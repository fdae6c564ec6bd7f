//! If this fails, the history on the page is not of the listener or sink that was chosen, or shows what is not there.

use serde_json::Value;

use super::browser::Browser;
use super::faulty;
use super::page::{HEIGHT, PHONE, WIDTH, assert_quiet_console, url};
use super::viewers::ask;
use crate::support::Setup;

/// The columns that are named beside the plot, with what they say of the last second.
const NAMED: &str =
    "return [...document.querySelectorAll('#readout > span')].filter((span) => span.checkVisibility())
    .map((span) => span.innerText.trim()).join(', ')";
/// The plot in words.
const PLOT: &str = "return document.getElementById('plot').getAttribute('aria-label')";
const QUEUE_AXIS: &str = "return [...document.querySelectorAll('#plot .tick')]
    .some((tick) => tick.textContent === 'queued' && tick.getAttribute('visibility') !== 'hidden')";

fn choose(browser: &Browser, label: &str) {
    browser.run(&format!(
        "const select = document.getElementById('subject');
        select.value = [...select.options].find((option) => option.label === '{label}').value;
        select.dispatchEvent(new Event('change'))"
    ));
}

fn says(words: &[&str], not: &[&str]) -> impl Fn(&Value) -> bool {
    move |said| {
        said.as_str().is_some_and(|said| {
            words.iter().all(|word| said.contains(word)) && !not.iter().any(|word| said.contains(word))
        })
    }
}

#[test]
fn a_listener_and_a_sink_have_one_of_their_own() {
    let setup = faulty::setup();
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    server.send(0, "a burst\n".repeat(20_000).as_bytes());
    let drawn = |column: &str| {
        format!(
            "return document.querySelector('#plot path.area[data-series=\"{column}\"]').getAttribute('d')"
        )
    };
    let is_drawn = |path: &Value| path.as_str().is_some_and(|path| path.starts_with('M'));
    browser.wait("the burst", &drawn("received"), is_drawn);
    assert_eq!(browser.run(QUEUE_AXIS), true);

    choose(&browser, "listener app");
    browser.wait("the columns", NAMED, says(&["received", "dropped"], &["delivered", "queued"]));
    browser.wait("the burst", &drawn("received"), is_drawn);
    assert_eq!(browser.run(QUEUE_AXIS), false);
    choose(&browser, "listener routers");
    browser.wait("its name", PLOT, says(&["Rates of listener routers", "the most received was 0/s"], &[]));
    assert_eq!(browser.run(&drawn("received")), "");

    choose(&browser, "sink dead");
    browser.wait("what is queued", NAMED, says(&["queued 20.0", "delivered 0/s", "dropped"], &["received"]));
    browser.wait("the queue", &drawn("queued"), is_drawn);
    choose(&browser, "the whole server");
    browser.wait("all columns", NAMED, says(&["received", "delivered", "dropped", "queued"], &[]));
    browser.wait("the burst", &drawn("received"), is_drawn);
    assert_quiet_console(&browser);
}

#[test]
fn a_name_that_is_gone_and_a_query_that_is_none_are_refused() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app"]);
    let _server = setup.start();
    for (query, line) in [
        ("?listener=app&after=0", "200 OK"),
        ("?listener=nobody", "404 Not Found"),
        ("?sink=app", "404 Not Found"),
        ("?after=x", "400 Bad Request"),
        ("?from=0", "400 Bad Request"),
    ] {
        let answer = ask(&setup, &format!("/history{query}"), "").1;
        assert_eq!(answer, format!("HTTP/1.1 {line}"), "{query}");
    }
}

#[test]
fn it_can_be_chosen_on_a_phone() {
    const LONG: &str = "a-listener-with-a-name-that-is-much-longer-than-a-phone-is-wide";
    let setup = Setup::new(&[&format!("lines+tcp://127.0.0.1:{{0}}?name={LONG}")]);
    let _server = setup.start();
    let browser = Browser::open(&url(&setup), PHONE.0, PHONE.1);
    browser.wait_shown();
    choose(&browser, &format!("listener {LONG}"));
    browser.wait("the columns", NAMED, says(&["received"], &["queued"]));
    let sideways = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert_eq!(browser.run(sideways), 0);
}
