//! Any text is a configuration, or an error that says where.
#![no_main]

use std::cell::RefCell;
use std::fs;

use bbq_server::{Config, KINDS, Overrides};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

thread_local! {
    static DIRECTORY: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    DIRECTORY.with_borrow_mut(|directory| {
        let directory = directory.get_or_insert_with(|| tempfile::tempdir().expect("a directory"));
        let path = directory.path().join("bbq.toml");
        fs::write(&path, data).expect("room");
        if let Err(error) = Config::load(&KINDS, Some(&path), &Overrides::default()) {
            assert!(!error.to_string().is_empty());
        }
    });
});
