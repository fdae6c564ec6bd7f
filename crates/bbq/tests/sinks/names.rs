//! If this fails, the status and the messages do not show a user's name, a sink with a name begins again when its path changes, or
//! `null:` does not count its messages.

use std::fs;

use crate::support::{Setup, assert_balanced};

#[test]
fn a_named_sink_goes_on_behind_its_last_message_at_another_path() {
    let mut setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=front door"]).config("# defaults\n");
    setup.set_sinks(&[]);
    let config = |path: &str| {
        let file = format!("[[sink]]\nspec = \"file:{path}\"\nname = \"archive\"\nformat = \"json\"\n");
        fs::write(setup.path().join("bbq.toml"), file + "[[sink]]\nspec = \"null:\"\n").unwrap();
    };
    let path = |name: &str| setup.path().join(name).display().to_string();
    config(&path("a.log"));
    let server = setup.start();
    server.send(0, b"one\ntwo\n");
    let status = server.wait_delivered_by(1, 2);
    assert_balanced(&status);
    let status = server.wait_delivered_by(0, 2);
    assert_eq!(status["listeners"][0]["name"], "front door");
    assert_eq!(status["sinks"][0]["name"], "archive");
    assert_eq!(status["sinks"][1]["name"], "null:");
    assert_eq!(server.stop(), Some(0));
    let first = fs::read_to_string(path("a.log")).unwrap();
    assert!(
        first.contains("\"listener\":\"front door\"") && first.contains("\"message\":\"two\""),
        "{first}"
    );
    config(&path("b.log"));
    let server = setup.start();
    server.send(0, b"three\n");
    server.wait_delivered_by(0, 3);
    // Messages before the cursor are not counted again.
    let status = server.wait_delivered_by(1, 3);
    assert_balanced(&status);
    assert_eq!(status["sinks"][1]["delivered"], 3, "{status:#}");
    assert_eq!(server.stop(), Some(0));
    let second = fs::read_to_string(path("b.log")).unwrap();
    assert!(second.lines().count() == 1 && second.contains("\"message\":\"three\""), "{second}");
}
