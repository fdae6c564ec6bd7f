//! Rules about the text of the repository that no compiler knows.
//!
//! Looked at are the files that git knows or would take in. Import cycles between modules are not looked at: names that a
//! crate's root re-exports would have to be resolved first, and that is a compiler's work.

mod rules;

use std::fs;
use std::path::Path;
use std::process::Command;

use rules::Finding;

/// Checks every file and prints what is wrong with it.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let mut findings = 0;
    let files = files(root)?;
    for name in &files {
        let path = root.join(name);
        // Deleted, and not committed yet; or a link, which has no text of its own.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !metadata.is_file() {
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| format!("cannot read {name}: {error}"))?;
        // What is not text has no lines.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for Finding { line, message } in rules::check(name, &text) {
            eprintln!("{name}:{line}: {message}");
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

fn files(root: &Path) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output =
        git.output().map_err(|error| format!("tidy asks git for the files, and cannot run it: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    // Inputs of fuzz targets may be text, and any text.
    let is_ours = |name: &&str| !name.is_empty() && !name.starts_with("fuzz/corpus/");
    Ok(names.split('\0').filter(is_ours).map(str::to_owned).collect())
}
