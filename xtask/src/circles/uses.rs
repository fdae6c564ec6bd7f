//! A `use` item as a list: one entry for each name that it imports.

/// One leaf of a `use` tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Import {
    /// `use path`, and `use path as name`. With `as _` no name is made.
    Name { name: Option<String>, path: Vec<String> },
    /// `use path::*`.
    Glob { path: Vec<String> },
}

/// `use ::a::b` names another crate, so its names are not listed.
pub(super) fn imports(item: &syn::ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    if item.leading_colon.is_none() {
        collect(&item.tree, &mut Vec::new(), &mut found);
    }
    found
}

fn collect(tree: &syn::UseTree, path: &mut Vec<String>, found: &mut Vec<Import>) {
    match tree {
        syn::UseTree::Path(step) => {
            path.push(step.ident.to_string());
            collect(&step.tree, path, found);
            path.pop();
        }
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                collect(tree, path, found);
            }
        }
        syn::UseTree::Name(leaf) => {
            let path = extended(path, &leaf.ident);
            found.push(Import::Name { name: path.last().cloned(), path });
        }
        syn::UseTree::Rename(leaf) => {
            let name = (leaf.rename != "_").then(|| leaf.rename.to_string());
            found.push(Import::Name { name, path: extended(path, &leaf.ident) });
        }
        syn::UseTree::Glob(_) => found.push(Import::Glob { path: path.clone() }),
    }
}

/// `a::{self}` is `a`.
fn extended(path: &[String], last: &syn::Ident) -> Vec<String> {
    let last = last.to_string();
    let is_self = last == "self" && !path.is_empty();
    path.iter().cloned().chain((!is_self).then_some(last)).collect()
}
