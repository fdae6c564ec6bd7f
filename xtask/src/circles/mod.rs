//! Import circles: files or folders of a crate that import from each other, directly or through others of the crate.
//!
//! A reader of one such file must read all of them, and none can be moved alone; the same is true of folders. Every crate of the workspace is checked, without
//! its tests, and without what only a compiler knows (see `tree.rs` and `imports.rs`).

mod attributes;
mod folders;
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
use folders::Use;
use tree::Tree;

pub(crate) use attributes::{is_for_tests, of_item};

const REMEDY: &str = "move what two files of a circle need of each other to a file of its own below both, and import it from there";

const REMEDY_OF_FOLDERS: &str = "move what the lower folder needs of the upper one to the lower one, or to a file beside both, or pass it as a parameter";

/// Folders whose folders may import from each other, with the reason.
const EXCEPTIONS: [(&str, &str); 1] = [(
    "crates/bbq-listen/src",
    "a socket holds the state of its dispatch, its steering and its counters, which all act on sockets",
)];

/// The circles of a crate.
#[derive(Debug)]
struct Circles {
    of_files: Vec<Circle>,
    /// Every use between two folders of a circle, circle by circle.
    of_folders: Vec<Vec<Use>>,
}

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
    let (mut of_files, mut of_folders) = (0, 0);
    let mut exceptions = BTreeSet::from(EXCEPTIONS.map(|(folder, _)| root.join(folder)));
    let needed = exceptions.clone();
    for name in &roots {
        let circles = of_crate(&root.join(name))?;
        for circle in &circles.of_files {
            eprint!("{}", circle.shown_below(root));
        }
        for circle in &circles.of_folders {
            let folder = circle.first().and_then(|used| used.from.parent()).unwrap_or(root);
            if !needed.contains(folder) {
                eprint!("{}", shown_below(root, circle));
                of_folders += 1;
            }
            exceptions.remove(folder);
        }
        of_files += circles.of_files.len();
    }
    if of_files > 0 {
        return Err(format!("circles of files: {of_files}; {REMEDY}"));
    }
    if of_folders > 0 {
        return Err(format!("circles of folders: {of_folders}; {REMEDY_OF_FOLDERS}"));
    }
    if let Some(folder) = exceptions.first() {
        return Err(format!(
            "circles of folders: {} has none any more; remove its line in EXCEPTIONS",
            folder.display()
        ));
    }
    eprintln!("xtask: circles: none of files or folders in {} crates", roots.len());
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
fn of_crate(root: &Path) -> Result<Circles, String> {
    let tree = Tree::of_root(root)?;
    let imports = imports::of_tree(&tree);
    let circles = graph::circles(imports.keys().copied());
    let file = |index: &usize| tree.files[*index].clone();
    let uses = imports.iter().filter_map(|((importer, definer), names)| {
        Use::between(&tree.files[*importer], &tree.files[*definer], names)
    });
    let of_folders = folders::circles(uses.collect());
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
    Ok(Circles { of_files: circles.into_iter().map(circle).collect(), of_folders })
}

/// The text of a report about folders, with names relative to `root`.
fn shown_below(root: &Path, uses: &[Use]) -> String {
    let name = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let folders: BTreeSet<&Path> = uses.iter().map(|used| &*used.from).collect();
    let mut text = format!("circle: {} folders import from each other\n", folders.len());
    let pairs: BTreeSet<(&Path, &Path)> = uses.iter().map(|used| (&*used.from, &*used.to)).collect();
    for (from, to) in pairs {
        text += &format!("  {} uses {}\n", name(from), name(to));
        for used in uses.iter().filter(|used| (&*used.from, &*used.to) == (from, to)) {
            text += &format!("    {}\n", used.shown_below(root));
        }
    }
    text
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
