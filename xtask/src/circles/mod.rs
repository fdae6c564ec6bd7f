//! Import circles: files of a crate that import from each other, directly or through others of the crate.
//!
//! A reader of one such file must read all of them, and none can be moved alone. Every crate of the workspace is checked, without
//! its tests, and without what only a compiler knows (see `tree.rs` and `imports.rs`).

mod attributes;
mod graph;
mod imports;
mod resolve;
#[cfg(test)]
mod tests;
mod tree;
mod uses;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::files;
use tree::Tree;

const REMEDY: &str = "move what two files of a circle need of each other to a file of its own below both, and import it from there";

/// Files that import from each other.
#[derive(Debug, PartialEq, Eq)]
struct Circle {
    /// In the order in which the crate declares them.
    files: Vec<PathBuf>,
    /// Every import between two of them.
    ties: Vec<Tie>,
}

/// What one file imports from another.
#[derive(Debug, PartialEq, Eq)]
struct Tie {
    importer: PathBuf,
    definer: PathBuf,
    names: BTreeSet<String>,
}

/// Checks all crates of the repository, and prints the circles. Any circle is an error.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let files = files::of_repository(root)?;
    let roots: Vec<&String> =
        files.iter().filter(|name| is_root_of_crate(name) && root.join(name).is_file()).collect();
    let mut found = 0;
    for name in &roots {
        for circle in of_crate(&root.join(name))? {
            eprint!("{}", circle.shown_below(root));
            found += 1;
        }
    }
    if found > 0 {
        return Err(format!("circles: {found}; {REMEDY}"));
    }
    eprintln!("xtask: circles: none in {} crates", roots.len());
    Ok(())
}

/// `src/lib.rs`, `src/main.rs`, or a further program.
fn is_root_of_crate(name: &str) -> bool {
    let in_source = name.strip_prefix("src/").or_else(|| name.rsplit_once("/src/").map(|(_, rest)| rest));
    match in_source {
        Some("lib.rs" | "main.rs") => true,
        Some(rest) => {
            rest.strip_prefix("bin/").is_some_and(|rest| !rest.contains('/') && rest.ends_with(".rs"))
        }
        None => false,
    }
}

/// The circles of the crate with that root file.
fn of_crate(root: &Path) -> Result<Vec<Circle>, String> {
    let tree = Tree::of_root(root)?;
    let imports = imports::of_tree(&tree);
    let circles = graph::circles(imports.keys().copied());
    let file = |index: &usize| tree.files[*index].clone();
    let circle = |members: Vec<usize>| {
        let is_inside = |(from, to): &(usize, usize)| members.contains(from) && members.contains(to);
        let inside = imports.iter().filter(|(files, _)| is_inside(files));
        let ties = inside.map(|((importer, definer), names)| Tie {
            importer: file(importer),
            definer: file(definer),
            names: names.clone(),
        });
        Circle { ties: ties.collect(), files: members.iter().map(file).collect() }
    };
    Ok(circles.into_iter().map(circle).collect())
}

impl Circle {
    /// The text of a report, with file names relative to `root`.
    fn shown_below(&self, root: &Path) -> String {
        let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
        let mut text = format!("circle: {} files import from each other\n", self.files.len());
        for file in &self.files {
            text += &format!("  {}\n", name(file));
            for tie in self.ties.iter().filter(|tie| tie.importer == *file) {
                let names: Vec<&str> = tie.names.iter().map(String::as_str).collect();
                text += &format!("    imports {} from {}\n", names.join(", "), name(&tie.definer));
            }
        }
        text
    }
}
