//! Rules for the files of the repository that no compiler checks.
//!
//! They apply to the files of the repository.

mod programs;
mod rules;

use std::fs;
use std::path::Path;

use crate::files;
use rules::Finding;

/// Checks every file and prints what is wrong with it.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let mut findings = 0;
    // Inputs of fuzz targets may be text, and any text.
    let is_ours = |name: &String| !name.starts_with("fuzz/corpus/");
    let files: Vec<String> = files::of_repository(root)?.into_iter().filter(is_ours).collect();
    for name in &files {
        let path = root.join(name);
        // A deleted file that is not committed yet, or a link, which has no text.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !metadata.is_file() {
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| format!("cannot read {name}: {error}"))?;
        // Skip binary files.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for Finding { line, message } in rules::check(name, &text) {
            eprintln!("{name}:{line}: {message}");
            findings += 1;
        }
        for file in programs::undeclared(name, &text, &files) {
            eprintln!("{file}:1: its tests do not run: add it to {name}, as a `mod`");
            findings += 1;
        }
    }
    match findings {
        0 => {
            eprintln!("xtask: tidy: {} files", files.len());
            Ok(())
        }
        _ => Err(format!("tidy: {findings} findings")),
    }
}
