//! The simulated disk itself. If one fails, the simulation believes in a disk that is kinder than real ones.

use std::path::Path;

use bbq_simulation::disk::{Cut, SimDisk};
use bbq_simulation::random::Random;
use bbq_spool::{OpenMode, Storage, StorageFile};

fn path(name: &str) -> &Path {
    Path::new(name)
}

/// A disk with a file `/f` that is durable and empty.
#[expect(clippy::unwrap_used, reason = "a test's")]
fn disk(seed: u64) -> (SimDisk, Box<dyn StorageFile>) {
    let disk = SimDisk::new(Random::new(seed));
    let file = disk.open(path("/f"), OpenMode::New).unwrap();
    disk.sync_dir(path("/")).unwrap();
    (disk, file)
}

fn power_cut(disk: &SimDisk) {
    disk.cut(Cut::Power);
    disk.restart();
}

/// What every seed leaves, without repetitions.
fn outcomes<T: Ord>(run: impl Fn(u64) -> T) -> Vec<T> {
    let mut outcomes: Vec<T> = (0..200).map(run).collect();
    outcomes.sort();
    outcomes.dedup();
    outcomes
}

#[test]
fn a_power_cut_tears_what_was_not_synced_and_nothing_else() {
    let found = outcomes(|seed| {
        let (disk, file) = disk(seed);
        file.write_all_at(0, &[1; 1024]).unwrap();
        file.sync_data().unwrap();
        file.write_all_at(512, &[2; 1024]).unwrap();
        power_cut(&disk);
        let bytes = disk.contents(path("/f")).unwrap();
        (bytes.len(), bytes[0], bytes[512], bytes.get(1024).copied())
    });
    // Sectors reach the disk in any order, and the length is old or new by itself.
    assert!(found.contains(&(1024, 1, 1, None)), "{found:?}");
    assert!(found.contains(&(1536, 1, 2, Some(0))), "{found:?}");
    assert!(found.contains(&(1536, 1, 1, Some(2))), "{found:?}");
    assert!(found.contains(&(1536, 1, 2, Some(2))), "{found:?}");
    assert!(found.iter().all(|(_, durable, _, _)| *durable == 1), "{found:?}");
}

#[test]
fn a_kill_takes_nothing_that_was_written() {
    let (disk, file) = disk(1);
    file.write_all_at(0, b"written").unwrap();
    disk.cut(Cut::Kill);
    assert!(file.write_all_at(0, b"too late").is_err());
    disk.restart();
    assert_eq!(disk.contents(path("/f")).unwrap(), b"written");
    assert!(file.sync_data().is_err(), "a handle of the process that ended");
}

#[test]
fn a_failed_sync_leaves_pages_that_no_later_sync_writes() {
    let found = outcomes(|seed| {
        let (disk, file) = disk(seed);
        file.write_all_at(0, &[0; 512]).unwrap();
        file.sync_data().unwrap();
        file.write_all_at(0, &[7; 512]).unwrap();
        disk.set_faults(|faults| faults.sync = 65_536);
        file.sync_data().unwrap_err();
        disk.set_faults(|faults| faults.sync = 0);
        file.sync_data().unwrap();
        let before = disk.contents(path("/f")).unwrap()[0];
        assert_eq!(before, 7, "the page cache still shows it");
        power_cut(&disk);
        disk.contents(path("/f")).unwrap()[0]
    });
    assert_eq!(found, [0, 7]);
}

#[test]
fn after_a_failed_sync_new_pages_may_keep_nothing_until_they_are_dropped_or_cut() {
    let after = |mend: fn(&dyn StorageFile, &[u8])| {
        outcomes(|seed| {
            let (disk, file) = disk(seed);
            let bytes = [7; 4096];
            file.allocate(4096).unwrap();
            file.write_all_at(0, &bytes).unwrap();
            disk.set_faults(|faults| faults.sync = 65_536);
            file.sync_data().unwrap_err();
            disk.set_faults(|faults| faults.sync = 0);
            mend(&*file, &bytes);
            power_cut(&disk);
            disk.contents(path("/f")).unwrap().iter().all(|byte| *byte == 7)
        })
    };
    let again = |file: &dyn StorageFile, bytes: &[u8]| {
        file.write_all_at(0, bytes).unwrap();
        file.sync_data().unwrap();
    };
    assert_eq!(after(again), [false, true]);
    assert_eq!(after(|file, bytes| file.write_again(&[(0, bytes)]).unwrap()), [true]);
    let cut = |file: &dyn StorageFile, bytes: &[u8]| {
        file.set_len(0).unwrap();
        file.write_all_at(0, bytes).unwrap();
        file.sync_data().unwrap();
    };
    assert_eq!(after(cut), [true]);
}

#[test]
fn a_name_needs_a_sync_of_its_directory() {
    let found = outcomes(|seed| {
        let (disk, _) = disk(seed);
        disk.create_dir(path("/d")).unwrap();
        disk.sync_dir(path("/")).unwrap();
        let file = disk.open(path("/d/new"), OpenMode::New).unwrap();
        file.sync_all().unwrap();
        disk.remove(path("/f")).unwrap();
        power_cut(&disk);
        (disk.names(path("/d")).len(), disk.contents(path("/f")).is_ok())
    });
    assert_eq!(found, [(0, false), (0, true), (1, false), (1, true)]);
}

#[test]
fn a_renamed_file_always_has_a_name() {
    let found = outcomes(|seed| {
        let (disk, file) = disk(seed);
        file.write_all_at(0, b"x").unwrap();
        file.sync_all().unwrap();
        disk.create_dir(path("/d")).unwrap();
        disk.sync_dir(path("/")).unwrap();
        disk.rename(path("/f"), path("/d/g")).unwrap();
        power_cut(&disk);
        (disk.contents(path("/f")).is_ok(), disk.contents(path("/d/g")).is_ok())
    });
    assert!(!found.contains(&(false, false)), "{found:?}");
    assert!(found.contains(&(true, false)) && found.contains(&(false, true)), "{found:?}");
}

#[test]
fn a_full_disk_takes_no_more_and_takes_again_what_was_freed() {
    let (disk, file) = disk(1);
    disk.set_faults(|faults| faults.capacity = Some(8192));
    file.allocate(8192).unwrap();
    let other = disk.open(path("/g"), OpenMode::New).unwrap();
    let full = other.write_all_at(0, b"x").unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    file.set_len(4096).unwrap();
    other.write_all_at(0, b"x").unwrap();
    assert_eq!(disk.used(), 8192);
}
