//! Resolves a path to the file that defines the item, through imports and re-exports.

use std::collections::BTreeSet;

use super::tree::{Name, Tree};

/// The target of a path. A path can have several: a module and a function of the same name, or variants of an item for different
/// systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    /// An index of `Tree::modules`.
    Module(usize),
    /// The file that defines an item.
    Item(usize),
}

/// The imports that are being followed. An import that leads back to itself adds nothing.
type Followed = BTreeSet<(usize, Vec<String>)>;

impl Tree {
    /// The item that `path` in `module` names or goes through, and the files that define it. `None` for names of other crates,
    /// for modules, and for unknown names.
    pub(super) fn item_of<'a>(
        &self,
        module: usize,
        path: &'a [String],
    ) -> Option<(&'a str, BTreeSet<usize>)> {
        (1..=path.len()).find_map(|length| {
            let found = self.resolve(module, &path[..length], &mut Followed::new());
            let goes_on = length < path.len() && modules(&found).next().is_some();
            let files: BTreeSet<usize> = items(&found).collect();
            (!goes_on && !files.is_empty()).then(|| (path[length - 1].as_str(), files))
        })
    }

    fn resolve(&self, module: usize, path: &[String], followed: &mut Followed) -> BTreeSet<Found> {
        let Some((first, mut rest)) = path.split_first() else { return BTreeSet::new() };
        let mut found = match first.as_str() {
            "crate" => BTreeSet::from([Found::Module(0)]),
            "self" => BTreeSet::from([Found::Module(module)]),
            "super" => self.parent(module),
            name => self.look_up(module, name, followed),
        };
        while let Some((name, behind)) = rest.split_first() {
            let modules: Vec<usize> = modules(&found).collect();
            rest = behind;
            // After an item come its variants, constants and functions.
            if modules.is_empty() {
                break;
            }
            found = modules.into_iter().flat_map(|module| self.step(module, name, followed)).collect();
        }
        found
    }

    /// The targets of `name` in a path after `module`.
    fn step(&self, module: usize, name: &str, followed: &mut Followed) -> BTreeSet<Found> {
        if name == "super" {
            return self.parent(module);
        }
        if self.is_known(module, name) || !self.modules[module].globs.is_empty() {
            return self.look_up(module, name, followed);
        }
        // A macro of this file defines it.
        BTreeSet::from([Found::Item(self.modules[module].file)])
    }

    fn parent(&self, module: usize) -> BTreeSet<Found> {
        self.modules[module].parent.into_iter().map(Found::Module).collect()
    }

    fn is_known(&self, module: usize, name: &str) -> bool {
        self.modules[module].names.contains_key(name)
    }

    /// The targets of the single `name` in `module`.
    fn look_up(&self, module: usize, name: &str, followed: &mut Followed) -> BTreeSet<Found> {
        if let Some(names) = self.modules[module].names.get(name) {
            return names.iter().flat_map(|name| self.follow(module, name, followed)).collect();
        }
        let globs = &self.modules[module].globs;
        globs.iter().flat_map(|glob| self.look_up_behind(module, glob, name, followed)).collect()
    }

    fn follow(&self, module: usize, name: &Name, followed: &mut Followed) -> BTreeSet<Found> {
        match name {
            Name::Module(inner) => BTreeSet::from([Found::Module(*inner)]),
            Name::Item(file) => BTreeSet::from([Found::Item(*file)]),
            Name::Import(path) => {
                once(followed, module, path, |followed| self.resolve(module, path, followed))
            }
        }
    }

    /// The targets of `name` through `use glob::*` in `module`.
    fn look_up_behind(
        &self,
        module: usize,
        glob: &[String],
        name: &str,
        followed: &mut Followed,
    ) -> BTreeSet<Found> {
        let marked: Vec<String> = glob.iter().cloned().chain(["*".to_owned(), name.to_owned()]).collect();
        once(followed, module, &marked, |followed| {
            let behind = self.resolve(module, glob, followed);
            modules(&behind).flat_map(|inner| self.look_up(inner, name, followed)).collect()
        })
    }
}

fn modules(found: &BTreeSet<Found>) -> impl Iterator<Item = usize> {
    found.iter().filter_map(|found| if let Found::Module(module) = found { Some(*module) } else { None })
}

fn items(found: &BTreeSet<Found>) -> impl Iterator<Item = usize> {
    found.iter().filter_map(|found| if let Found::Item(file) = found { Some(*file) } else { None })
}

/// Calls `follow` unless the path is being followed already.
fn once(
    followed: &mut Followed,
    module: usize,
    path: &[String],
    follow: impl FnOnce(&mut Followed) -> BTreeSet<Found>,
) -> BTreeSet<Found> {
    let key = (module, path.to_vec());
    if !followed.insert(key.clone()) {
        return BTreeSet::new();
    }
    let found = follow(followed);
    followed.remove(&key);
    found
}
