//! If one of these fails, an option does not do what its text says.

use std::fs;
use std::os::unix::fs::symlink;

use bbq_read::ReadSpec;

use crate::basics::Place;

#[test]
fn start_end_is_for_the_files_of_the_first_start_only() {
    let place = Place::new();
    place.append("a.log", "old\nhalf");
    let reader = place.start("*.log?start=end");
    place.server.wait("the catalog has it", |_| {
        !bbq_read::catalogued(&place.catalogs(), &bbq_storage::DiskStorage).unwrap().is_empty()
    });
    place.append("b.log", "new\n");
    place.server.wait_for(&["new"]);
    reader.stop();
    place.append("c.log", "later\n");
    place.append("a.log", " of it\nmore\n");
    let reader = place.start("*.log?start=end");
    place.server.wait_for(&["new", "later", "half of it", "more"]);
    reader.stop();
}

#[test]
fn excluded_files_are_not_read() {
    let place = Place::new();
    for name in ["a.log", "debug.log", "sub/b.log", "sub/debug.log"] {
        place.append(name, &format!("{name}\n"));
    }
    let reader = place.start("**/*.log?exclude=debug*");
    place.server.wait_for(&["a.log", "sub/b.log"]);
    reader.stop();
    let other = Place::new();
    for name in ["a.log", "sub/b.log"] {
        other.append(name, &format!("{name}\n"));
    }
    let pattern = format!("**/*.log?exclude={}", other.path("sub/*").display());
    let reader = other.start(&pattern);
    other.server.wait_for(&["a.log"]);
    reader.stop();
}

#[test]
fn a_file_that_the_pattern_names_no_longer_is_not_read() {
    let place = Place::new();
    place.append("a.log", "1\n");
    place.append("debug.log", "2\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2"]);
    reader.stop();
    place.append("debug.log", "3\n");
    let reader = place.start("*.log?exclude=debug*");
    place.append("a.log", "4\n");
    place.server.wait_for(&["1", "2", "4"]);
    reader.stop();
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2", "3", "4"]);
    reader.stop();
}

#[test]
fn an_idle_file_is_closed_and_read_when_it_grows() {
    let place = Place::new();
    for number in 0..50 {
        place.append(&format!("{number}.log"), &format!("{number}\n"));
    }
    let reader = place.start("*.log?idle_close_seconds=1");
    let mut expected: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    place.server.wait_for(&expected.iter().map(String::as_str).collect::<Vec<_>>());
    place
        .server
        .wait("they are closed", |_| reader.view.open.load(std::sync::atomic::Ordering::Relaxed) == 0);
    for number in 0..50 {
        place.append(&format!("{number}.log"), "again\n");
        expected.push("again".to_owned());
    }
    place.server.wait_for(&expected.iter().map(String::as_str).collect::<Vec<_>>());
    reader.stop();
}

#[test]
fn an_incomplete_line_is_taken_after_its_time() {
    let place = Place::new();
    place.append("a.log", "1\nhalf");
    let reader = place.start("*.log?incomplete_seconds=1");
    place.server.wait_for(&["1", "half"]);
    reader.stop();
}

#[test]
fn stack_traces_are_one_message() {
    let place = Place::new();
    place.append("a.log", "INFO 1\nERROR 2\n\tat a\n");
    let reader = place.start("*.log?multiline=java");
    place.server.wait_for(&["INFO 1", "ERROR 2\n\tat a"]);
    place.append("a.log", "ERROR 3\n\tat b\nINFO 4\n");
    place.server.wait_for(&["INFO 1", "ERROR 2\n\tat a", "ERROR 3\n\tat b", "INFO 4"]);
    reader.stop();
}

#[test]
fn logs_of_containers_are_text_with_fields() {
    let place = Place::new();
    let id = "0123456789abcdef".repeat(4);
    place.append(
        "pods/shop_web-0_12-34/nginx/0.log",
        "2026-01-01T00:00:00Z stdout P a\n2026-01-01T00:00:01Z stderr F e\n2026-01-01T00:00:02Z stdout F b\n",
    );
    fs::create_dir(place.path("containers")).expect("a directory");
    let link = place.path(&format!("containers/web-0_shop_nginx-{id}.log"));
    symlink(place.path("pods/shop_web-0_12-34/nginx/0.log"), link).expect("a link");
    place.append(
        &format!("containers/{id}/{id}-json.log"),
        "{\"log\":\"docker\\n\",\"stream\":\"stdout\",\"time\":\"2026-01-01T00:00:00Z\"}\n",
    );
    let spec = format!("containers:{}", place.path("containers").display());
    let reader = crate::store::Running::start(&spec, &place.catalogs(), &place.server);
    place.server.wait_for(&["e", "ab", "docker"]);
    let fields = place.server.state().fields.clone();
    for expected in [
        ("k8s.pod.name", "web-0"),
        ("k8s.namespace.name", "shop"),
        ("k8s.container.name", "nginx"),
        ("k8s.pod.uid", "12-34"),
        ("container.id", &id),
    ] {
        assert!(
            fields.iter().any(|(name, value)| (name.as_str(), value.as_str()) == expected),
            "{expected:?} in {fields:?}"
        );
    }
    reader.stop();
}

#[test]
fn a_wrong_spec_says_what_is_right() {
    for (text, part) in [
        ("file:", "the files are missing"),
        ("/var/log/*.log", "write file:GLOB"),
        ("files:/var/log/*", "did you mean \"file\""),
        ("file:/var/log/**", "names directories"),
        ("file:/var/log/[", "is not a pattern"),
        ("file:/a?start=middle", "not one of beginning, end"),
        ("file:/a?line_bytes_max=0", "out of range"),
        ("file:/a?strat=end", "did you mean \"start\""),
        ("file:/a?multiline=start:(", "regular expression"),
        ("file:/a?format=json", "not one of plain, cri, docker, auto"),
    ] {
        let error = ReadSpec::parse(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    let relative = ReadSpec::parse("file:logs/*.log").expect("a relative pattern");
    assert!(relative.glob.starts_with('/') && relative.glob.ends_with("/logs/*.log"), "{}", relative.glob);
}
