//! The pages: those of the book, in docs, and those beside it.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) const BBQ: &str = env!("CARGO_BIN_EXE_bbq");

/// The pages outside of docs that users read.
const BESIDE: [&str; 13] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "bench/README.md",
    "bindings/python/README.md",
    "crates/bbq/README.md",
    "crates/bbq-client/README.md",
    "crates/bbq-listen/README.md",
    "crates/bbq-prefork/README.md",
    "crates/bbq-server/README.md",
    "crates/bbq-spool/README.md",
];

/// The directory of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every page below docs, by its path in the repository, with its text.
pub(crate) fn of_the_book() -> Vec<(String, String)> {
    let mut names = Vec::new();
    let mut directories = vec!["docs".to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root().join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{directory}/{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                directories.push(name);
            } else if name.ends_with(".md") {
                names.push(name);
            }
        }
    }
    names.sort();
    assert!(names.len() > 80, "only {} pages", names.len());
    names.into_iter().map(with_text).collect()
}

/// The same, and the pages beside the book.
pub(crate) fn all() -> Vec<(String, String)> {
    let beside = BESIDE.iter().map(|name| with_text((*name).to_owned()));
    of_the_book().into_iter().chain(beside).collect()
}

fn with_text(name: String) -> (String, String) {
    let text = fs::read_to_string(root().join(&name)).expect(&name);
    (name, text)
}

/// A line of a page, and whether it stands in a block of code.
pub(crate) struct Line<'a> {
    pub(crate) text: &'a str,
    pub(crate) is_code: bool,
}

/// The lines, without the fences of blocks.
pub(crate) fn lines(page: &str) -> Vec<Line<'_>> {
    let mut is_fenced = false;
    let mut lines = Vec::new();
    for text in page.lines() {
        if text.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
            continue;
        }
        let is_code = is_fenced || text.starts_with("    ");
        lines.push(Line { text, is_code });
    }
    lines
}
