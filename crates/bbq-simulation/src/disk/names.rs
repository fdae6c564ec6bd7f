//! Directories: the names that programs see, and those that are left after a power failure.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::random::Random;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(usize),
    Directory(usize),
}

/// An atomic change of a directory.
#[derive(Clone, Debug)]
struct Change {
    number: u64,
    removes: Option<String>,
    adds: Option<(String, Node)>,
    /// A change of another directory that must become durable before this change.
    needs: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Directory {
    live: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    /// The changes since the last sync, in order.
    pending: Vec<Change>,
}

impl Directory {
    fn apply(names: &mut BTreeMap<String, Node>, change: &Change) {
        if let Some(name) = &change.removes {
            names.remove(name);
        }
        if let Some((name, node)) = &change.adds {
            names.insert(name.clone(), *node);
        }
    }

    fn change(&mut self, change: Change) {
        Directory::apply(&mut self.live, &change);
        self.pending.push(change);
    }
}

/// All directories; the first is the root.
#[derive(Clone, Debug)]
pub(super) struct Names {
    directories: Vec<Directory>,
    changes: u64,
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// Components of a path are slow to tell apart, and a world opens thousands of files: its paths have neither `..` nor `.`.
fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(not_found)
}

impl Names {
    pub(super) fn new() -> Names {
        Names { directories: vec![Directory::default()], changes: 0 }
    }

    fn directory(&self, path: &Path) -> io::Result<usize> {
        self.directory_of(text(path)?)
    }

    fn directory_of(&self, path: &str) -> io::Result<usize> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(0, |at, name| {
            match self.directories[at].live.get(name) {
                Some(Node::Directory(next)) => Ok(*next),
                _ => Err(not_found()),
            }
        })
    }

    /// The directory that has or may have this path, and the path's last name.
    fn place<'a>(&self, path: &'a Path) -> io::Result<(usize, &'a str)> {
        let path = text(path)?;
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name.is_empty() {
            return Err(not_found());
        }
        Ok((self.directory_of(directory)?, name))
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<Node> {
        if path == Path::new("/") {
            return Ok(Node::Directory(0));
        }
        let (directory, name) = self.place(path)?;
        self.directories[directory].live.get(name).copied().ok_or_else(not_found)
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        Ok(self.directories[self.directory(path)?].live.keys().cloned().collect())
    }

    fn number(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    /// Adds a new name.
    pub(super) fn add(&mut self, path: &Path, node: Node) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        if self.directories[directory].live.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = self.number();
        self.directories[directory].change(Change {
            number,
            removes: None,
            adds: Some((name.to_owned(), node)),
            needs: None,
        });
        Ok(())
    }

    pub(super) fn add_directory(&mut self, path: &Path) -> io::Result<()> {
        self.add(path, Node::Directory(self.directories.len()))?;
        self.directories.push(Directory::default());
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<Node> {
        let node = self.find(path)?;
        let (directory, name) = self.place(path)?;
        let number = self.number();
        self.directories[directory].change(Change {
            number,
            removes: Some(name.to_owned()),
            adds: None,
            needs: None,
        });
        Ok(node)
    }

    /// Returns the file that had the new name.
    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<Option<Node>> {
        let node = self.find(from)?;
        let (from, from_name) = self.place(from)?;
        let (to, to_name) = self.place(to)?;
        let replaced = self.directories[to].live.get(to_name).copied();
        if let Some(Node::Directory(replaced)) = replaced
            && !self.directories[replaced].live.is_empty()
        {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let number = self.number();
        let (removes, adds) = (Some(from_name.to_owned()), Some((to_name.to_owned(), node)));
        if from == to {
            self.directories[to].change(Change { number, removes, adds, needs: None });
            return Ok(replaced);
        }
        self.directories[to].change(Change { number, removes: None, adds, needs: None });
        let needs = Some(number);
        let number = self.number();
        self.directories[from].change(Change { number, removes, adds: None, needs });
        Ok(replaced)
    }

    pub(super) fn sync(&mut self, path: &Path) -> io::Result<()> {
        let directory = self.directory(path)?;
        let changes = std::mem::take(&mut self.directories[directory].pending);
        for change in changes {
            Directory::apply(&mut self.directories[directory].durable, &change);
            if let Some(needed) = change.needs {
                self.make_durable(needed);
            }
        }
        Ok(())
    }

    /// Makes the changes of a directory up to a number durable.
    fn make_durable(&mut self, number: u64) {
        for directory in &mut self.directories {
            if let Some(at) = directory.pending.iter().position(|change| change.number == number) {
                for change in directory.pending.drain(..=at) {
                    Directory::apply(&mut directory.durable, &change);
                }
            }
        }
    }

    /// Power fails and comes back. Of each directory's changes, a first part is kept, or any of them.
    pub(super) fn lose_power(&mut self, random: &mut Random) {
        let mut kept: BTreeSet<u64> = BTreeSet::new();
        let mut pending: BTreeSet<u64> = BTreeSet::new();
        for directory in self.directories.iter().filter(|directory| !directory.pending.is_empty()) {
            let any = random.one_in(4);
            let beginning = random.index(directory.pending.len() + 1);
            for (index, change) in directory.pending.iter().enumerate() {
                pending.insert(change.number);
                if if any { random.one_in(2) } else { index < beginning } {
                    kept.insert(change.number);
                }
            }
        }
        for directory in &mut self.directories {
            for change in std::mem::take(&mut directory.pending) {
                let possible =
                    change.needs.is_none_or(|needed| !pending.contains(&needed) || kept.contains(&needed));
                if possible && kept.contains(&change.number) {
                    Directory::apply(&mut directory.durable, &change);
                }
            }
            directory.live.clone_from(&directory.durable);
        }
    }

    /// Files that programs see.
    pub(super) fn live_files(&self) -> BTreeSet<usize> {
        let nodes = self.directories.iter().flat_map(|directory| directory.live.values());
        nodes.filter_map(|node| if let Node::File(file) = node { Some(*file) } else { None }).collect()
    }
}
