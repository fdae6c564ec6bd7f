//! The modules of a crate, and the names in each: its items, its imports, and its modules.
//!
//! It is parsed without a compiler, so names that macros define are missing. Items for tests only (`#[cfg(test)]`) are left out.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::attributes;
use super::uses::{self, Import};

/// All modules and files of a crate.
#[derive(Default)]
pub(super) struct Tree {
    /// The root is first; a module is behind its parent.
    pub(super) modules: Vec<Module>,
    pub(super) files: Vec<PathBuf>,
}

/// A module, in a file of its own or in its parent's.
pub(super) struct Module {
    /// An index of `Tree::files`.
    pub(super) file: usize,
    /// An index of `Tree::modules`; the root has none.
    pub(super) parent: Option<usize>,
    /// A name can stand for a type, a value, a macro and a module at once.
    pub(super) names: HashMap<String, Vec<Name>>,
    /// The paths of `use a::b::*`.
    pub(super) globs: Vec<Vec<String>>,
    /// Its items, without modules and items for tests.
    pub(super) items: Vec<syn::Item>,
}

/// The target of a name.
#[derive(Debug)]
pub(super) enum Name {
    /// An index of `Tree::modules`.
    Module(usize),
    /// A type, a function, a macro and the like, and the file that defines it, an index of `Tree::files`.
    Item(usize),
    /// The target of another path.
    Import(Vec<String>),
}

impl Tree {
    /// Reads a crate from its `lib.rs` or `main.rs`.
    pub(super) fn of_root(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        let directory = root.parent().unwrap_or(Path::new(""));
        tree.add_file(root, directory, None)?;
        Ok(tree)
    }

    /// Reads the file of a module, whose own modules are in `directory`; returns the module.
    fn add_file(&mut self, path: &Path, directory: &Path, parent: Option<usize>) -> Result<usize, String> {
        let text =
            fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let parsed = syn::parse_file(&text)
            .map_err(|error| format!("cannot read {} as Rust: {error}", path.display()))?;
        self.files.push(path.to_owned());
        self.add_module(self.files.len() - 1, parsed.items, directory, parent)
    }

    fn add_module(
        &mut self,
        file: usize,
        items: Vec<syn::Item>,
        directory: &Path,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let this = self.modules.len();
        let (names, globs) = (HashMap::new(), Vec::new());
        self.modules.push(Module { file, parent, names, globs, items: Vec::new() });
        for item in items {
            if attributes::is_for_tests(attributes::of_item(&item).0) {
                continue;
            }
            if let syn::Item::Mod(inner) = item {
                let name = inner.ident.to_string();
                let module = self.add_inner(file, inner, directory, this)?;
                self.modules[this].add(name, Name::Module(module));
                continue;
            }
            self.add_names(this, &item);
            self.modules[this].items.push(item);
        }
        Ok(this)
    }

    /// A module that is declared in another.
    fn add_inner(
        &mut self,
        file: usize,
        inner: syn::ItemMod,
        directory: &Path,
        parent: usize,
    ) -> Result<usize, String> {
        let name = inner.ident.to_string();
        let below = directory.join(&name);
        if let Some((_, items)) = inner.content {
            return self.add_module(file, items, &below, Some(parent));
        }
        let beside = self.files[file].parent().unwrap_or(Path::new(""));
        if let Some(path) = attributes::path_of_module(&inner.attrs) {
            let path = beside.join(path);
            let directory = path.parent().unwrap_or(Path::new("")).to_owned();
            return self.add_file(&path, &directory, Some(parent));
        }
        let candidates = [directory.join(format!("{name}.rs")), below.join("mod.rs")];
        match candidates.iter().find(|path| path.is_file()) {
            Some(path) => self.add_file(path, &below, Some(parent)),
            None => Err(format!("{}: there is no file for `mod {name}`", self.files[file].display())),
        }
    }

    fn add_names(&mut self, module: usize, item: &syn::Item) {
        match item {
            syn::Item::Use(item) => {
                for import in uses::imports(item) {
                    self.modules[module].add_import(import);
                }
            }
            syn::Item::ForeignMod(block) => {
                for item in &block.items {
                    match item {
                        syn::ForeignItem::Fn(item) => self.modules[module].add_item(&item.sig.ident),
                        syn::ForeignItem::Static(item) => self.modules[module].add_item(&item.ident),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        let (attributes, Some(name)) = attributes::of_item(item) else { return };
        self.modules[module].add_item(name);
        // `#[macro_export]` puts the name into the root.
        if module != 0 && attributes.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
            let file = self.modules[module].file;
            self.modules[0].add(name.to_string(), Name::Item(file));
        }
    }
}

impl Module {
    fn add(&mut self, name: String, what: Name) {
        self.names.entry(name).or_default().push(what);
    }

    fn add_item(&mut self, name: &syn::Ident) {
        self.add(name.to_string(), Name::Item(self.file));
    }

    fn add_import(&mut self, import: Import) {
        match import {
            Import::Name { name: Some(name), path } => self.add(name, Name::Import(path)),
            Import::Name { name: None, .. } => {}
            Import::Glob { path } => self.globs.push(path),
        }
    }
}
