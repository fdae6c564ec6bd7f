//! If this fails, somebody with a keyboard or a screen reader does not come to a part of the page, or does not see or hear where they are.

use serde_json::{Value, json};

use super::browser::Browser;
use super::page::{HEIGHT, WIDTH, assert_quiet_console, url};
use crate::support::Setup;

const TAB: char = '\u{E004}';
const SPACE: char = ' ';
const ENTER: char = '\u{E007}';
const END: char = '\u{E010}';
const LEFT: char = '\u{E012}';
const RIGHT: char = '\u{E014}';
const ESCAPE: char = '\u{E00C}';

/// Gives every element that takes the focus a number, in the order of the page; of radio buttons the one that is chosen.
const NUMBER: &str =
    "const all = [...document.querySelectorAll('a[href], input, select, button, summary, [tabindex=\"0\"]')]
    .filter((node) => node.checkVisibility() && (node.type !== 'radio' || node.checked));
    all.forEach((node, place) => node.dataset.place = place);
    return all.length";
/// Where the focus is, and whether that is seen.
const FOCUS: &str = "const node = document.activeElement;
    const marked = node.type === 'radio' ? node.nextElementSibling : node;
    const style = getComputedStyle(marked), box = marked.getBoundingClientRect();
    const isSeen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2
        && box.bottom > 0 && box.top < innerHeight && box.width > 0;
    return [Number(node.dataset.place ?? -1), isSeen, node.outerHTML.slice(0, 100)]";

#[test]
fn tab_comes_to_every_part_and_shows_where_it_is() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app"]);
    let _server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    let parts = browser.run(NUMBER).as_u64().unwrap_or_default();
    // Links, the range, a plot, tables, the filter, the messages.
    assert!(parts > 20, "{parts}");
    for place in 0..parts {
        browser.press(TAB);
        let focus = browser.run(FOCUS);
        assert_eq!(focus[0], place, "{focus}");
        assert_eq!(focus[1], true, "nobody sees where the focus is: {focus}");
    }
    assert_quiet_console(&browser);
}

#[test]
fn keys_move_through_the_history_and_begin_to_follow() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app"]);
    let server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    let readout = "return document.getElementById('readout').innerText";
    let samples =
        "return fetch('history').then((answer) => answer.json()).then((history) => history.received.length)";
    browser.wait("some history", samples, |taken| taken.as_u64() >= Some(2));
    browser.wait_shown();
    let cursor = "return document.querySelector('#plot .cursor')?.getAttribute('visibility')";
    browser.run("document.getElementById('plot').focus()");
    browser.press(LEFT);
    assert_eq!(browser.run(cursor), "visible");
    let past = browser.run(readout);
    assert!(past.as_str().is_some_and(|text| text.contains("ago")), "{past}");
    browser.press(END);
    assert_eq!(browser.run(cursor), "visible");
    browser.press(ESCAPE);
    assert_eq!(browser.run(cursor), "hidden");
    // The arrows choose another range.
    browser.run("document.querySelector('#range input').focus()");
    browser.press(RIGHT);
    assert_eq!(browser.run("return document.querySelector('#range input:checked').value"), "900");
    // A box of the picture chooses its history.
    browser.run("document.querySelector('#stage-listeners [role=button]').focus()");
    browser.press(ENTER);
    assert_eq!(browser.run("return document.getElementById('subject').value"), "listener=app");
    browser.run("document.getElementById('follow').focus()");
    browser.press(SPACE);
    let shown = "return document.getElementById('messages').innerText";
    // A message that comes before the viewer is not shown.
    browser.wait("the message", shown, |shown| {
        server.send(0, b"for somebody with a keyboard\n");
        shown.as_str().is_some_and(|shown| shown.contains("with a keyboard"))
    });
    assert_quiet_console(&browser);
}

/// The names that Chromium gives to a screen reader.
#[test]
fn every_part_has_a_name() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app"]);
    let _server = setup.start();
    let browser = Browser::open(&url(&setup), WIDTH, HEIGHT);
    browser.wait_shown();
    let unnamed: Vec<Value> = browser
        .accessible()
        .into_iter()
        .filter(|node| {
            let role = node["role"]["value"].as_str().unwrap_or_default();
            let takes_focus = node["properties"].as_array().is_some_and(|properties| {
                properties
                    .iter()
                    .any(|property| property["name"] == "focusable" && property["value"]["value"] == true)
            });
            let needs_name =
                takes_focus || matches!(role, "table" | "img" | "region" | "navigation" | "radiogroup");
            needs_name
                && node["ignored"] != true
                && node["name"]["value"].as_str().unwrap_or_default().trim().is_empty()
        })
        .collect();
    assert_eq!(json!(unnamed), json!([]));
}
