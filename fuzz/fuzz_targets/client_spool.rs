//! Whatever is in a sender's spool directory, a sender starts or says why not, and ends. The first byte chooses a file of a
//! spool that a sender made, the second how it is changed.
#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bbq_client::{Sender, StartError};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

struct Template {
    directory: TempDir,
    files: Vec<(PathBuf, Vec<u8>)>,
}

thread_local! {
    static TEMPLATE: RefCell<Option<Template>> = const { RefCell::new(None) };
}

fn start(directory: &Path) -> Result<Sender, StartError> {
    // Nobody listens there.
    let server = "bbq+unix:///nowhere".parse().expect("an address");
    Sender::builder().server(server).spool(directory).close_timeout(Duration::ZERO).start()
}

fn template() -> Template {
    let directory = tempfile::tempdir().expect("a directory");
    let sender = start(directory.path()).expect("it starts");
    (0..20).for_each(|number| sender.send(format!("message {number}").as_bytes()).expect("room"));
    drop(sender);
    let entries = fs::read_dir(directory.path()).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.map(|path| (path.clone(), fs::read(path).expect("a file"))).collect();
    Template { directory, files }
}

fuzz_target!(|data: &[u8]| {
    let [file, how, rest @ ..] = data else { return };
    TEMPLATE.with_borrow_mut(|held| {
        let template = held.get_or_insert_with(template);
        for entry in fs::read_dir(template.directory.path()).expect("a directory") {
            fs::remove_file(entry.expect("an entry").path()).expect("it is there");
        }
        for (path, bytes) in &template.files {
            fs::write(path, bytes).expect("room");
        }
        let (path, bytes) = &template.files[usize::from(*file) % template.files.len()];
        let mut changed = bytes.clone();
        changed.truncate(64 * 1024);
        match how % 4 {
            0 => changed = rest.to_vec(),
            1 => changed.truncate(usize::from(rest.first().copied().unwrap_or(0))),
            _ => {
                for pair in rest.chunks_exact(2) {
                    if let Some(byte) = changed.get_mut(usize::from(pair[0])) {
                        *byte = pair[1];
                    }
                }
            }
        }
        fs::write(path, changed).expect("room");
        if let Ok(sender) = start(template.directory.path()) {
            let _room = sender.try_send(b"one more");
            let _left = sender.close(Duration::ZERO);
            let counters = sender.counters();
            assert_eq!(
                counters.accepted + counters.recovered,
                counters.acknowledged
                    + counters.queued
                    + counters.dropped.oldest
                    + counters.dropped.abandoned,
                "{counters:?}"
            );
        }
    });
});
