//! If one of these fails, a rotation loses lines or delivers them twice.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::symlink;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bbq_read::{LossReason, Pace};

use crate::basics::Place;
use crate::store::PACE;

/// Waits for the truncation of a file that was copied, however long the test takes to do it.
const PATIENT: Pace = Pace { copy_wait: Duration::from_secs(3600), ..PACE };

/// Copies a file and truncates it, as logrotate's copytruncate does.
fn copytruncate(place: &Place, from: &str, to: &str) {
    fs::copy(place.path(from), place.path(to)).expect("a copy");
    OpenOptions::new().write(true).truncate(true).open(place.path(from)).expect("a file");
}

#[test]
fn a_truncated_file_is_read_from_its_beginning() {
    let place = Place::new();
    place.append("a.log", "1\n2\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2"]);
    copytruncate(&place, "a.log", "a.log.1");
    place.append("a.log", "3\n");
    place.server.wait_for(&["1", "2", "3"]);
    assert_eq!(reader.view.truncations.load(Ordering::Relaxed), 1);
    assert_eq!(place.server.state().order.len(), 2);
    reader.stop();
}

#[test]
fn a_file_that_was_truncated_and_has_grown_beyond_the_position_is_read_from_its_beginning() {
    let place = Place::new();
    place.append("a.log", "1\n2\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2"]);
    reader.stop();
    copytruncate(&place, "a.log", "b");
    place.append("a.log", "3\n4 is longer\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2", "3", "4 is longer"]);
    reader.stop();
}

#[test]
fn a_file_that_is_written_anew_with_the_same_size_is_another_one() {
    let place = Place::new();
    place.append("a.log", "1\n2\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2"]);
    fs::write(place.path("a.log"), "3\n4\n").expect("a file");
    place.server.wait_for(&["1", "2", "3", "4"]);
    reader.stop();
}

#[test]
fn a_copy_that_matches_is_not_read_again() {
    let place = Place::new();
    place.append("a.log", "1\n2\n");
    let reader = place.start_with("a*", PATIENT);
    place.server.wait_for(&["1", "2"]);
    copytruncate(&place, "a.log", "a.log.1");
    place.append("a.log", "3\n");
    place.server.wait_for(&["1", "2", "3"]);
    // The copy was there before the third line; with the next line, all has been looked at.
    place.append("a.log.1", "4\n");
    place.server.wait_for(&["1", "2", "3", "4"]);
    reader.stop();
    let reader = place.start_with("a*", PATIENT);
    place.append("a.log", "5\n");
    place.server.wait_for(&["1", "2", "3", "4", "5"]);
    reader.stop();
}

#[test]
fn a_copy_that_lacks_the_last_lines_is_not_read_again() {
    let place = Place::new();
    // Longer than the bytes that tell files apart, which are in the copy, too.
    let long = "1".repeat(2000);
    let long = long.as_str();
    place.append("a.log", &format!("{long}\n2\n"));
    let reader = place.start_with("a*", PATIENT);
    place.server.wait_for(&[long, "2"]);
    fs::copy(place.path("a.log"), place.path("a.log.1")).expect("a copy");
    place.server.wait("the copy is found", |_| reader.view.files.load(Ordering::Relaxed) == 2);
    place.append("a.log", "3\n");
    place.server.wait_for(&[long, "2", "3"]);
    OpenOptions::new().write(true).truncate(true).open(place.path("a.log")).expect("a file");
    place.append("a.log", "4\n");
    place.server.wait_for(&[long, "2", "3", "4"]);
    // The turn of the copy was before that line.
    place.append("a.log.1", "5\n");
    place.server.wait_for(&[long, "2", "3", "4", "5"]);
    reader.stop();
    let reader = place.start("a*");
    place.append("a.log", "6\n");
    place.server.wait_for(&[long, "2", "3", "4", "5", "6"]);
    reader.stop();
}

#[test]
fn the_rest_of_a_truncated_file_is_read_in_its_copy() {
    let place = Place::new();
    place.append("a.log", "1\n2\n");
    let reader = place.start_with("a*", PATIENT);
    place.server.wait_for(&["1", "2"]);
    reader.stop();
    place.append("a.log", "3\n4\n");
    copytruncate(&place, "a.log", "a.log.1");
    place.append("a.log", "5\n");
    let reader = place.start_with("a*", PATIENT);
    place.server.wait_for(&["1", "2", "3", "4", "5"]);
    reader.stop();
}

#[test]
fn the_hole_that_a_program_leaves_behind_a_truncation_is_no_line() {
    let place = Place::new();
    place.append("a.log", "1\n2\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2"]);
    copytruncate(&place, "a.log", "a.log.1");
    let file = OpenOptions::new().write(true).open(place.path("a.log")).expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, b"3\n", 1 << 20).expect("room");
    place.server.wait_for(&["1", "2", "3"]);
    reader.stop();
    place.append("a.log", "4\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2", "3", "4"]);
    reader.stop();
}

#[test]
fn a_file_that_is_deleted_while_no_reader_runs_is_forgotten() {
    let place = Place::new();
    place.append("a.log", "1\n");
    place.append("b.log", "2\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2"]);
    reader.stop();
    place.remove("a.log");
    let reader = place.start("*.log");
    place.server.wait("one is forgotten", |state| state.forgotten.len() == 1);
    reader.stop();
    assert_eq!(bbq_read::catalogued(&place.catalogs(), &bbq_storage::DiskStorage).unwrap().len(), 1);
}

#[test]
fn two_files_with_the_same_lines_are_both_read() {
    let place = Place::new();
    place.append("a.log", "1\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1"]);
    place.append("b.log", "1\n");
    place.server.wait_for(&["1", "1"]);
    reader.stop();
}

#[test]
fn a_file_that_is_renamed_within_the_pattern_is_the_same_file() {
    let place = Place::new();
    place.append("a.log", "1\n");
    let reader = place.start("a*");
    place.server.wait_for(&["1"]);
    place.rename("a.log", "a.log.1");
    place.append("a.log", "2\n");
    place.append("a.log.1", "3\n");
    place.server.wait_for(&["1", "2", "3"]);
    assert_eq!(place.server.state().order.len(), 2);
    reader.stop();
}

#[test]
fn a_file_that_was_left_is_not_read_again_when_its_name_matches_again() {
    let place = Place::new();
    place.append("a.log", "1\n");
    place.append("b.log", "2\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2"]);
    place.rename("a.log", "old");
    place.server.wait("it is left", |_| reader.view.files.load(Ordering::Relaxed) == 1);
    place.rename("old", "c.log");
    place.append("c.log", "3\n");
    place.server.wait_for(&["1", "2", "3"]);
    reader.stop();
}

#[test]
fn a_compressed_file_is_not_read() {
    let place = Place::new();
    place.append("a.log", "1\n");
    let reader = place.start("a*");
    place.server.wait_for(&["1"]);
    fs::write(place.path("a.log.1.gz"), [0x1f, 0x8b, 8, 0, b'\n']).expect("a file");
    place.remove("a.log");
    place.append("a.log", "2\n");
    place.server.wait_for(&["1", "2"]);
    place.server.wait("the compressed file is seen", |_| reader.view.compressed.load(Ordering::Relaxed) == 1);
    reader.stop();
}

#[test]
fn a_deleted_file_is_read_to_its_end_and_forgotten() {
    let place = Place::new();
    place.append("a.log", "1\n");
    let reader = place.start("*.log");
    place.server.wait_for(&["1"]);
    place.append("a.log", "2\nlast");
    place.remove("a.log");
    place.server.wait_for(&["1", "2", "last"]);
    place.server.wait("it is forgotten", |state| state.forgotten == state.order);
    reader.stop();
    assert!(bbq_read::catalogued(&place.catalogs(), &bbq_storage::DiskStorage).unwrap().is_empty());
}

#[test]
fn a_file_that_is_created_again_is_another_file() {
    let place = Place::new();
    let mut expected = Vec::new();
    place.append("a.log", "0\n");
    expected.push("0".to_owned());
    let reader = place.start("*.log");
    for number in 1..20 {
        let lines: Vec<&str> = expected.iter().map(String::as_str).collect();
        place.server.wait_for(&lines);
        place.remove("a.log");
        place.append("a.log", &format!("{number}\n"));
        expected.push(number.to_string());
    }
    let lines: Vec<&str> = expected.iter().map(String::as_str).collect();
    place.server.wait_for(&lines);
    reader.stop();
}

#[test]
fn links_lead_to_files_that_are_read_once() {
    let place = Place::new();
    place.append("real/a.txt", "1\n");
    fs::create_dir(place.path("links")).expect("a directory");
    symlink(place.path("real/a.txt"), place.path("links/a.log")).expect("a link");
    symlink(place.path("real/a.txt"), place.path("links/b.log")).expect("a link");
    fs::hard_link(place.path("real/a.txt"), place.path("links/c.log")).expect("a link");
    let reader = place.start("links/*.log");
    place.server.wait_for(&["1"]);
    place.append("real/a.txt", "2\n");
    place.server.wait_for(&["1", "2"]);
    reader.stop();
}

#[test]
fn a_directory_that_comes_later_is_read() {
    let place = Place::new();
    place.append("other", "x\n");
    let reader = place.start("later/*/x.log");
    place.append("later/1/x.log", "1\n");
    place.server.wait_for(&["1"]);
    place.append("later/2/x.log", "2\n");
    place.server.wait_for(&["1", "2"]);
    reader.stop();
}

#[test]
fn the_kubelets_rotation_behind_a_link_loses_nothing() {
    let place = Place::new();
    place.append("pods/0.log", "1\n");
    fs::create_dir(place.path("containers")).expect("a directory");
    symlink(place.path("pods/0.log"), place.path("containers/a.log")).expect("a link");
    let reader = place.start("containers/*.log");
    place.server.wait_for(&["1"]);
    place.append("pods/0.log", "2\n");
    place.rename("pods/0.log", "pods/0.log.20260101-000000");
    place.append("pods/0.log", "3\n");
    // The link has not changed, so only a scan finds the new file behind it.
    place.append("containers/other.log", "x\n");
    place.server.wait_for(&["1", "2", "3", "x"]);
    reader.stop();
}

#[test]
fn what_is_lost_is_told() {
    let place = Place::new();
    place.append("a.log", "1\n123456\n2\n");
    let reader = place.start("*.log?line_bytes_max=5");
    place.server.wait_for(&["1", "2"]);
    let lost = || reader.view.loss(LossReason::Oversize);
    place.server.wait("the long line is counted", |_| lost().count == 1 && lost().bytes == 6);
    place.append("a.log", &"x".repeat(1 << 20));
    place.append("a.log", "\n3\n");
    place.server.wait_for(&["1", "2", "3"]);
    assert_eq!(lost().count, 2);
    reader.stop();
}

#[test]
fn a_long_line_is_counted_once_however_often_its_batch_is_handed_over() {
    let place = Place::new();
    place.server.state().refuse = 3;
    place.server.state().later = 2;
    place.append("a.log", "123456\n1\n1234567\n");
    let reader = place.start("*.log?line_bytes_max=5");
    place.server.wait_for(&["1"]);
    let lost = || reader.view.loss(LossReason::Oversize);
    place.server.wait("both are counted", |_| lost().count >= 2);
    assert_eq!((lost().count, lost().bytes), (2, 13));
    // A line that takes several turns, before a batch that is not taken.
    place.server.state().later = 2;
    place.append("a.log", &"x".repeat(1 << 20));
    place.append("a.log", "\n2\n");
    place.server.wait_for(&["1", "2"]);
    assert_eq!((lost().count, lost().bytes), (3, 13 + (1 << 20) + 1));
    reader.stop();
}

#[test]
fn a_file_whose_lane_failed_rests() {
    let place = Place::new();
    place.append("a.log", "1\n");
    place.server.state().fails = true;
    let reader = place.start("*.log");
    place.server.wait("it rests", |_| reader.view.resting.load(Ordering::Relaxed) == 1);
    place.server.state().fails = false;
    place.append("a.log", "2\n");
    place.append("b.log", "3\n");
    place.server.wait_for(&["1", "3"]);
    reader.stop();
    place.server.crash();
    let reader = place.start("*.log");
    place.server.wait_for(&["1", "2", "3"]);
    reader.stop();
}
