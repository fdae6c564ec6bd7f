//! If one of these fails, files that cannot be seen for a while are taken for deleted, and are read twice.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bbq_read::{ReadSpec, Reader};
use bbq_storage::DiskStorage;

use crate::basics::Place;
use crate::store::PACE;

/// A reader whose passes and clock are those of the test.
struct Stepped {
    reader: Reader,
    now: Instant,
}

impl Stepped {
    fn open(place: &Place, pattern: &str) -> Stepped {
        let and = if pattern.contains('?') { '&' } else { '?' };
        let spec = ReadSpec::parse(&format!("file:{}{and}name=reader", place.path(pattern).display()));
        let spec = spec.expect("a SPEC");
        let reader = Reader::open_with(&spec, &place.catalogs(), Arc::new(DiskStorage), PACE);
        Stepped { reader: reader.expect("a reader"), now: Instant::now() }
    }

    /// Longer than any interval of a reader.
    fn pass_long(&mut self, place: &Place) {
        for _ in 0..10 {
            self.pass(place);
            self.now += Duration::from_secs(3600 * 100);
        }
    }

    fn pass(&mut self, place: &Place) {
        self.reader.pass(&mut place.server.clone(), self.now);
    }

    fn pass_often(&mut self, place: &Place) {
        for _ in 0..20 {
            self.pass(place);
            self.now += Duration::from_millis(20);
        }
    }
}

/// Puts something in place of a directory that cannot be looked at, by root neither.
fn hide(place: &Place, name: &str) -> PathBuf {
    let away = place.path("").with_file_name("away");
    fs::rename(place.path(name), &away).expect("a directory");
    symlink("x".repeat(300), place.path(name)).expect("a link");
    away
}

fn show(place: &Place, name: &str, away: &PathBuf) {
    place.remove(name);
    fs::rename(away, place.path(name)).expect("a directory");
}

#[test]
fn a_directory_that_cannot_be_looked_at_for_a_while_keeps_its_files() {
    let place = Place::new();
    place.append("app/a.log", "1\n");
    place.append("app/b.log", "2\n");
    place.append("other/c.log", "3\n");
    for pattern in ["*/*.log", "app/*.log", "app/a.log"] {
        let mut stepped = Stepped::open(&place, pattern);
        stepped.pass_often(&place);
        let lines = place.server.lines();
        let away = hide(&place, "app");
        stepped.pass_long(&place);
        let problem = stepped.reader.view().problem().unwrap_or_default();
        assert!(problem.contains("cannot look at"), "{pattern}: {problem}");
        // Also after a start without it.
        drop(stepped);
        let mut stepped = Stepped::open(&place, pattern);
        stepped.pass_long(&place);
        show(&place, "app", &away);
        stepped.pass_long(&place);
        assert_eq!(stepped.reader.view().problem(), None);
        assert_eq!(place.server.lines(), lines, "{pattern}");
        assert!(place.server.state().forgotten.is_empty(), "{pattern}");
    }
    assert_eq!(place.server.lines().len(), 3);
}

#[test]
fn a_deleted_file_is_forgotten_although_another_directory_cannot_be_looked_at() {
    let place = Place::new();
    place.append("app/a.log", "1\n");
    place.append("other/c.log", "3\n");
    let mut stepped = Stepped::open(&place, "*/*.log");
    stepped.pass_often(&place);
    hide(&place, "app");
    place.remove("other/c.log");
    stepped.pass_long(&place);
    assert_eq!(place.server.state().forgotten.len(), 1);
}

#[test]
fn start_end_is_also_for_files_that_the_first_start_cannot_look_at() {
    let place = Place::new();
    place.append("app/a.log", "old\n");
    let away = hide(&place, "app");
    let pattern = "app/*.log?start=end";
    Stepped::open(&place, pattern).pass_often(&place);
    let mut stepped = Stepped::open(&place, pattern);
    stepped.pass_often(&place);
    show(&place, "app", &away);
    stepped.pass_long(&place);
    place.append("app/a.log", "new\n");
    place.append("app/b.log", "other\n");
    stepped.pass_long(&place);
    assert_eq!(place.server.lines(), ["new", "other"]);
}

#[test]
fn a_closed_file_whose_directory_is_renamed_is_read_on() {
    let place = Place::new();
    place.append("app/a.log", "1\n");
    let mut stepped = Stepped::open(&place, "*/*.log");
    stepped.pass_long(&place);
    assert_eq!(stepped.reader.view().open.load(Ordering::Relaxed), 0);
    place.rename("app", "app2");
    place.append("app2/a.log", "2\n");
    stepped.pass_long(&place);
    assert_eq!(place.server.lines(), ["1", "2"]);
    // Under a name that does not match, and back.
    place.rename("app2", ".app");
    place.append(".app/a.log", "3\n");
    stepped.pass_long(&place);
    place.rename(".app", "app");
    place.append("app/a.log", "4\n");
    stepped.pass_long(&place);
    assert_eq!(place.server.lines(), ["1", "2", "3", "4"]);
    assert!(place.server.state().forgotten.is_empty());
}

#[test]
fn a_renamed_file_is_not_read_if_neither_its_old_nor_its_new_name_is_wanted() {
    let place = Place::new();
    for name in ["a.log", "b.log"] {
        place.append(name, "1\n");
    }
    Stepped::open(&place, "*.log").pass_often(&place);
    for name in ["a.log", "b.log"] {
        place.append(name, &format!("{name}\n"));
        place.rename(name, &format!("{name}.old"));
    }
    Stepped::open(&place, "a.log").pass_long(&place);
    let mut lines = place.server.lines();
    lines.sort();
    assert_eq!(lines, ["1", "1", "a.log"]);
}
