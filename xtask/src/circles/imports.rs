//! The imports between the files of a crate: names in a `use` or in a path in the code.
//!
//! Declarations of modules and re-exports (`pub use`) are no imports; a name that comes through a re-export is imported from the
//! file that defines it. In arguments of macros every path counts.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::attributes;
use super::tree::Tree;
use super::uses::{self, Import};

/// For each pair of files, as indices of `Tree::files`, the names that the first imports from the second.
pub(super) type Imports = BTreeMap<(usize, usize), BTreeSet<String>>;

/// The imports of all files of a crate. No file imports from itself.
pub(super) fn of_tree(tree: &Tree) -> Imports {
    let mut imports = Imports::new();
    for module in 0..tree.modules.len() {
        let mut reader = Reader { tree, module, imports: &mut imports };
        for item in &tree.modules[module].items {
            reader.visit_item(item);
        }
    }
    imports
}

/// Reads one module.
struct Reader<'a> {
    tree: &'a Tree,
    module: usize,
    imports: &'a mut Imports,
}

impl Reader<'_> {
    fn take(&mut self, path: &[String]) {
        let Some((name, files)) = self.tree.item_of(self.module, path) else { return };
        let own = self.tree.modules[self.module].file;
        for file in files.into_iter().filter(|file| *file != own) {
            self.imports.entry((own, file)).or_default().insert(name.to_owned());
        }
    }

    /// Reads every path in the tokens of a macro or an attribute.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Literal(literal) => self.read_literal(&literal.to_string()),
                TokenTree::Ident(first) => {
                    let path = path_from(&tokens[at..], first);
                    let next = tokens.get(at + 3 * path.len() - 2);
                    let is_field = at > 0 && is_punct(&tokens[at - 1], '.');
                    let is_call = matches!(next, Some(TokenTree::Group(_)));
                    let is_type = path[0].starts_with(|first: char| first.is_ascii_uppercase());
                    if !is_field && (path.len() > 1 || is_call || is_type) {
                        self.take(&path);
                    }
                    at += 3 * (path.len() - 1);
                }
                TokenTree::Punct(_) => {}
            }
            at += 1;
        }
    }

    /// `#[serde(with = "crate::a")]`.
    fn read_literal(&mut self, literal: &str) {
        let text = literal.trim_matches('"');
        if ["crate::", "self::", "super::"].iter().any(|start| text.starts_with(start)) {
            self.take(&text.split("::").map(str::to_owned).collect::<Vec<_>>());
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !attributes::is_for_tests(attributes::of_item(item).0) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !attributes::is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !matches!(item.vis, syn::Visibility::Inherited) {
            return;
        }
        for import in uses::imports(item) {
            // Names of `use module::*` are found where they are used; this is for `use Type::*`.
            let (Import::Name { path, .. } | Import::Glob { path }) = import;
            self.take(&path);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.take(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.read_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone());
        }
    }

    /// `pub(in crate::a)` is no import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

/// The path that begins with `first`.
fn path_from(tokens: &[TokenTree], first: &proc_macro2::Ident) -> Vec<String> {
    let mut path = vec![first.to_string()];
    let mut rest = &tokens[1..];
    while let [one, two, TokenTree::Ident(name), ..] = rest
        && is_punct(one, ':')
        && is_punct(two, ':')
    {
        path.push(name.to_string());
        rest = &rest[3..];
    }
    path
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}
