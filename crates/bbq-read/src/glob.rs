//! The files that a pattern names, and the directories in which more of them can appear.
//!
//! A name that begins with a dot needs a pattern that begins with one, as in a shell. `**` is any number of directories.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use rustix::io::Errno;

use crate::identity::Look;
use crate::limits::{DEPTH_MAX, DIRECTORIES_MAX};

/// An absolute pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    /// A name without wildcards.
    Name(String),
    /// A pattern of a name; whether it begins with a dot.
    Any(GlobMatcher, bool),
    /// Any number of directories.
    Deep,
}

/// What a walk has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Files with a name that matches.
    pub(crate) files: Vec<(PathBuf, Look)>,
    /// Directories in which a name can appear that matters.
    pub(crate) directories: Vec<PathBuf>,
    /// The first path that could not be looked at, and why.
    pub(crate) problem: Option<String>,
    /// All of them.
    pub(crate) hidden: Hidden,
    visited: HashSet<(u64, u64)>,
}

/// Paths that could not be looked at. What is at or below them may be there.
#[derive(Debug, Default)]
pub(crate) struct Hidden(HashSet<PathBuf>);

impl Hidden {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a walk finds a path if it is there.
    pub(crate) fn is_sure_of(&self, path: &Path) -> bool {
        self.is_empty() || !path.ancestors().any(|above| self.0.contains(above))
    }

    /// Those at or below others, or all of them.
    pub(crate) fn within(mut self, others: &Hidden, all: bool) -> Hidden {
        self.0.retain(|path| all || !others.is_sure_of(path));
        self
    }
}

impl Found {
    /// Notes that a path cannot be looked at, unless it is not there.
    fn fail(&mut self, doing: &str, path: &Path, error: &io::Error) {
        if is_missing(error) {
            return;
        }
        self.problem.get_or_insert_with(|| format!("cannot {doing} {}: {error}", path.display()));
        self.hidden.0.insert(path.to_owned());
    }
}

/// Whether an error says that a path is not there. Any other error says nothing about that.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of(text: &str) -> Result<Pattern, String> {
        let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".").map(Part::of);
        let parts = parts.collect::<Result<Vec<Part>, String>>()?;
        match parts.last() {
            None | Some(Part::Deep) => Err(format!(
                "{text:?} names directories; write a pattern of files, such as {}/*.log",
                text.trim_end_matches('/')
            )),
            Some(_) => Ok(Pattern { parts }),
        }
    }

    /// Whether a path matches, without a look at the file system.
    pub(crate) fn is_match(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path.iter().filter(|name| *name != "/").collect();
        matches(&self.parts, &names)
    }
}

/// Looks at the file system.
pub(crate) fn walk(patterns: &[Pattern]) -> Found {
    let mut found = Found::default();
    for pattern in patterns {
        found.visited.clear();
        descend(Path::new("/"), &pattern.parts, 0, &mut found);
    }
    found
}

impl Part {
    fn of(text: &str) -> Result<Part, String> {
        if text == "**" {
            return Ok(Part::Deep);
        }
        if text == ".." {
            return Err("the pattern has `..`; write the path without it".to_owned());
        }
        if !text.contains(['*', '?', '[', '{', '\\']) {
            return Ok(Part::Name(text.to_owned()));
        }
        match GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build() {
            Ok(glob) => Ok(Part::Any(glob.compile_matcher(), text.starts_with('.'))),
            Err(error) => Err(format!("{text:?} is not a pattern: {}", error.kind())),
        }
    }

    fn is_match(&self, name: &OsStr) -> bool {
        match self {
            Part::Name(known) => name.as_bytes() == known.as_bytes(),
            Part::Any(glob, has_dot) => {
                (*has_dot || !name.as_bytes().starts_with(b".")) && glob.is_match(Path::new(name))
            }
            Part::Deep => !name.as_bytes().starts_with(b"."),
        }
    }
}

fn matches(parts: &[Part], names: &[&OsStr]) -> bool {
    match (parts, names) {
        ([], []) => true,
        ([Part::Deep, rest @ ..], _) => {
            matches(rest, names)
                || names
                    .split_first()
                    .is_some_and(|(name, behind)| Part::Deep.is_match(name) && matches(parts, behind))
        }
        ([part, parts @ ..], [name, names @ ..]) => part.is_match(name) && matches(parts, names),
        _ => false,
    }
}

fn descend(directory: &Path, parts: &[Part], depth: usize, found: &mut Found) {
    let Some((part, rest)) = parts.split_first() else { return };
    match part {
        Part::Name(name) => {
            let path = directory.join(name);
            if rest.is_empty() {
                visit(directory, found);
                add_file(path, found);
            } else if is_directory(&path, found) {
                descend(&path, rest, depth, found);
            } else {
                // The directory may come later.
                visit(directory, found);
            }
        }
        Part::Any(..) => {
            visit(directory, found);
            for name in names_in(directory, found).into_iter().filter(|name| part.is_match(name)) {
                let path = directory.join(name);
                if rest.is_empty() {
                    add_file(path, found);
                } else if is_directory(&path, found) {
                    descend(&path, rest, depth, found);
                }
            }
        }
        Part::Deep => {
            descend(directory, rest, depth, found);
            if depth >= DEPTH_MAX || !is_new(directory, found) {
                return;
            }
            for name in names_in(directory, found).into_iter().filter(|name| part.is_match(name)) {
                let path = directory.join(name);
                if is_directory(&path, found) {
                    descend(&path, parts, depth + 1, found);
                }
            }
        }
    }
}

/// Whether `**` has not been in this directory: links lead in circles.
fn is_new(directory: &Path, found: &mut Found) -> bool {
    let looked = Look::at_path(directory);
    looked.is_ok_and(|look| found.visited.insert((look.key.device, look.key.inode)))
}

fn visit(directory: &Path, found: &mut Found) {
    if found.directories.len() < DIRECTORIES_MAX
        && found.directories.last().is_none_or(|last| last != directory)
    {
        found.directories.push(directory.to_owned());
    }
}

fn names_in(directory: &Path, found: &mut Found) -> Vec<std::ffi::OsString> {
    let read = || -> io::Result<Vec<std::ffi::OsString>> {
        std::fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    match read() {
        Ok(names) => names,
        Err(error) => {
            found.fail("list the directory", directory, &error);
            Vec::new()
        }
    }
}

fn is_directory(path: &Path, found: &mut Found) -> bool {
    match path.metadata() {
        Ok(metadata) => metadata.is_dir(),
        Err(error) => {
            found.fail("look at", path, &error);
            false
        }
    }
}

fn add_file(path: PathBuf, found: &mut Found) {
    // A link whose target is missing is nothing yet.
    match Look::at_path(&path) {
        Ok(look) if look.is_file => found.files.push((path, look)),
        Ok(_) => {}
        Err(error) => found.fail("look at", &path, &error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(pattern: &str, root: &Path) -> Vec<String> {
        let pattern = Pattern::of(&format!("{}/{pattern}", root.display())).unwrap();
        let found = walk(std::slice::from_ref(&pattern));
        let mut names: Vec<String> = found
            .files
            .iter()
            .map(|(path, _)| path.strip_prefix(root).unwrap().display().to_string())
            .collect();
        assert!(found.files.iter().all(|(path, _)| pattern.is_match(path)));
        names.sort();
        names
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        for name in ["x.log", ".hidden.log", "a/y.log", "a/b/z.log", "a/b/c/w.log", "a/b/c/w.txt"] {
            fs::write(root.join(name), "").unwrap();
        }
        symlink(root.join("a"), root.join("a/b/circle")).unwrap();
        symlink(root.join("missing"), root.join("dangling.log")).unwrap();
        for (pattern, expected) in [
            ("*.log", &["x.log"][..]),
            (".*.log", &[".hidden.log"]),
            ("{x,y}.log", &["x.log"]),
            ("x.log", &["x.log"]),
            ("*/*.log", &["a/y.log"]),
            ("a/b/c/w.[tl]*", &["a/b/c/w.log", "a/b/c/w.txt"]),
            ("missing/*.log", &[]),
        ] {
            assert_eq!(names(pattern, root), expected, "{pattern}");
        }
        let deep = names("**/*.log", root);
        for name in ["x.log", "a/y.log", "a/b/z.log", "a/b/c/w.log"] {
            assert!(deep.iter().any(|found| found == name), "{name} in {deep:?}");
        }
    }

    #[test]
    fn a_directory_that_comes_later_is_waited_for_in_its_parent() {
        let root = tempfile::tempdir().unwrap();
        let pattern = Pattern::of(&format!("{}/later/*/x.log", root.path().display())).unwrap();
        assert_eq!(walk(&[pattern]).directories, [root.path()]);
    }

    #[test]
    fn a_pattern_that_cannot_match_says_why() {
        for (text, part) in [
            ("/a/[", "unclosed"),
            ("/a/../b", ".."),
            ("/", "names directories"),
            ("/a/**", "names directories"),
        ] {
            let error = Pattern::of(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
