//! The public items of the libraries that other programs use, compared with a list that is committed beside each of them. So a change that
//! users of a library notice is seen when it is made.
//!
//! It reads the sources without a compiler, in a moment. Items that macros define are missing, and a type of another crate is only a name.
//!
//! A line is the name of an exported item, and something public of it: what it is, a method, or a trait that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, UseTree, Visibility};

use crate::circles::{is_for_tests, of_item};
use crate::files;

const LIBRARIES: [&str; 3] = ["bbq-client", "bbq-listen", "bbq-prefork"];
/// Of a library, beside its sources.
const LIST: &str = "public-api.txt";
/// Differences that are shown; the rest are counted.
const SHOWN_MAX: usize = 20;

/// Compares each list with the sources.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut different = Vec::new();
    for library in LIBRARIES {
        let path = root.join("crates").join(library).join(LIST);
        let expected = fs::read_to_string(&path).unwrap_or_default();
        let expected: BTreeSet<&str> = expected.lines().collect();
        let found = public_items(root, library)?;
        let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        let (gone, new) = (expected.difference(&found), found.difference(&expected));
        let changes = gone.map(|line| format!("- {line}")).chain(new.map(|line| format!("+ {line}")));
        let changes: Vec<String> = changes.collect();
        changes.iter().take(SHOWN_MAX).for_each(|change| eprintln!("{library}: {change}"));
        if !changes.is_empty() {
            different.push(format!("{library} ({} lines)", changes.len()));
        }
    }
    if different.is_empty() {
        eprintln!("xtask: api: {} libraries are as listed", LIBRARIES.len());
        return Ok(());
    }
    Err(format!(
        "public items differ from the lists of {}; if that is meant, run `cargo xtask api --update` and commit the lists",
        different.join(", ")
    ))
}

/// Writes the lists anew.
pub(crate) fn update(root: &Path) -> Result<(), String> {
    for library in LIBRARIES {
        let path = root.join("crates").join(library).join(LIST);
        let text: String = public_items(root, library)?.into_iter().map(|line| line + "\n").collect();
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

fn public_items(root: &Path, library: &str) -> Result<BTreeSet<String>, String> {
    let sources = format!("crates/{library}/src/");
    let mut parsed = BTreeMap::new();
    for name in files::of_repository(root)? {
        let Some(module) = name.strip_prefix(&sources).filter(|module| module.ends_with(".rs")) else {
            continue;
        };
        // A deleted file is listed until that is committed.
        let Ok(text) = fs::read_to_string(root.join(&name)) else { continue };
        let file = syn::parse_file(&text).map_err(|error| format!("cannot read {name} as Rust: {error}"))?;
        parsed.insert(module.to_owned(), file.items);
    }
    let exported = exported(&parsed).ok_or_else(|| format!("{library} has no lib.rs"))?;
    let mut lines = BTreeSet::new();
    for item in parsed.values().flatten().filter(|item| is_shown(of_item(item).0)) {
        match item {
            Item::Impl(item) => add_impl(&mut lines, &exported, item),
            item => add_item(&mut lines, &exported, item),
        }
    }
    lines.extend(exported.into_iter().map(|(name, condition)| format!("{name}{condition}")));
    Ok(lines)
}

/// What `lib.rs` exports: its names, each with the condition under which it is there.
type Exported = BTreeMap<String, String>;

fn exported(parsed: &BTreeMap<String, Vec<Item>>) -> Option<Exported> {
    let mut exported = Exported::new();
    for item in parsed.get("lib.rs")?.iter().filter(|item| is_shown(of_item(item).0)) {
        match item {
            Item::Use(item) if is_public(&item.vis) => {
                let condition = condition(&item.attrs);
                add_names(&mut exported, &item.tree, &condition);
            }
            Item::Mod(item) if is_public(&item.vis) && is_shown(&item.attrs) => {
                let name = item.ident.to_string();
                let of_module =
                    |file: &&String| **file == format!("{name}.rs") || file.starts_with(&format!("{name}/"));
                let files = parsed.keys().filter(of_module);
                for item in files.filter_map(|file| parsed.get(file)).flatten() {
                    if let (attributes, Some(name)) = of_item(item)
                        && is_shown(attributes)
                        && visibility(item).is_some_and(is_public)
                    {
                        exported.insert(name.to_string(), String::new());
                    }
                }
                exported.insert(format!("mod {name}"), condition(&item.attrs));
            }
            item => {
                if let (attributes, Some(name)) = of_item(item)
                    && visibility(item).is_some_and(is_public)
                {
                    exported.insert(name.to_string(), condition(attributes));
                }
            }
        }
    }
    Some(exported)
}

fn add_names(exported: &mut Exported, tree: &UseTree, condition: &str) {
    match tree {
        UseTree::Path(path) => add_names(exported, &path.tree, condition),
        UseTree::Group(group) => group.items.iter().for_each(|tree| add_names(exported, tree, condition)),
        UseTree::Name(name) => drop(exported.insert(name.ident.to_string(), condition.to_owned())),
        UseTree::Rename(name) => drop(exported.insert(name.rename.to_string(), condition.to_owned())),
        UseTree::Glob(_) => {}
    }
}

/// A definition, without what is private of it.
fn add_item(lines: &mut BTreeSet<String>, exported: &Exported, item: &Item) {
    let (attributes, Some(name)) = of_item(item) else { return };
    if !exported.contains_key(&name.to_string()) || !visibility(item).is_some_and(is_public) {
        return;
    }
    let mut add = |text: String| {
        lines.insert(format!("{name}: {text}"));
    };
    let marks = marks(attributes);
    match item {
        Item::Struct(item) => {
            add(format!("{marks}struct{}", shown(&item.generics)));
            for (index, field) in item.fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis)) {
                let field_name = field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string);
                add(format!("{field_name}: {}", shown(&field.ty)));
            }
        }
        Item::Enum(item) => {
            add(format!("{marks}enum{}", shown(&item.generics)));
            for variant in &item.variants {
                let fields = match &variant.fields {
                    Fields::Unit => String::new(),
                    fields => fields
                        .iter()
                        .map(|field| {
                            let name =
                                field.ident.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
                            format!("{name}{}", shown(&field.ty))
                        })
                        .collect::<Vec<_>>()
                        .join(", "),
                };
                add(format!("{}({fields})", variant.ident));
            }
        }
        Item::Fn(item) => add(shown(&item.sig)),
        Item::Const(item) => add(format!("const {}", shown(&item.ty))),
        Item::Static(item) => add(format!("static {}", shown(&item.ty))),
        Item::Type(item) => add(format!("type{} = {}", shown(&item.generics), shown(&item.ty))),
        Item::Trait(item) => {
            add(format!("trait{}", shown(&item.generics)));
            item.items.iter().for_each(|item| {
                if let syn::TraitItem::Fn(method) = item {
                    add(shown(&method.sig));
                }
            });
        }
        _ => {}
    }
}

/// Methods, or a trait that the type has.
fn add_impl(lines: &mut BTreeSet<String>, exported: &Exported, item: &syn::ItemImpl) {
    let syn::Type::Path(path) = &*item.self_ty else { return };
    let Some(name) = path.path.segments.last().map(|segment| segment.ident.to_string()) else { return };
    if !exported.contains_key(&name) {
        return;
    }
    if let Some((of_trait, _)) = &item.trait_ {
        lines.insert(format!("{name}: is {}{}", shown(of_trait), condition(&item.attrs)));
        return;
    }
    for item in &item.items {
        match item {
            ImplItem::Fn(method) if is_public(&method.vis) && is_shown(&method.attrs) => {
                lines.insert(format!("{name}: {}{}", shown(&method.sig), condition(&method.attrs)));
            }
            ImplItem::Const(constant) if is_public(&constant.vis) && is_shown(&constant.attrs) => {
                lines.insert(format!("{name}: const {}: {}", constant.ident, shown(&constant.ty)));
            }
            _ => {}
        }
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn visibility(item: &Item) -> Option<&Visibility> {
    Some(match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        _ => return None,
    })
}

/// Whether the documentation has the item.
fn is_shown(attributes: &[Attribute]) -> bool {
    let is_hidden = |attribute: &Attribute| {
        attribute.path().is_ident("doc") && shown(attribute).replace(' ', "").contains("(hidden)")
    };
    !is_for_tests(attributes) && !attributes.iter().any(is_hidden)
}

/// `non_exhaustive` and the derived traits.
fn marks(attributes: &[Attribute]) -> String {
    let mut marks = String::new();
    for attribute in attributes {
        if attribute.path().is_ident("non_exhaustive") || attribute.path().is_ident("derive") {
            marks.push_str(&shown(&attribute.meta));
            marks.push(' ');
        }
    }
    marks
}

/// The features that are needed.
fn condition(attributes: &[Attribute]) -> String {
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    conditions.map(|attribute| format!(" [{}]", shown(&attribute.meta))).collect()
}

/// As a line of source, with spaces as in the style of the repository as far as that matters to a reader.
fn shown(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (loose, tight) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        (" ,", ","),
        (" :", ":"),
        ("& ", "&"),
        (" ;", ";"),
        ("' ", "'"),
    ] {
        text = text.replace(loose, tight);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let directory = tempfile::TempDir::new().unwrap();
        let sources = directory.path().join("crates/bbq-x/src");
        fs::create_dir_all(&sources).unwrap();
        for (name, text) in files {
            fs::write(sources.join(name), text).unwrap();
        }
        let git = |arguments: &[&str]| {
            let mut git = std::process::Command::new("git");
            assert!(git.arg("-C").arg(directory.path()).args(arguments).status().unwrap().success());
        };
        git(&["init", "--quiet"]);
        public_items(directory.path(), "bbq-x").unwrap().into_iter().collect()
    }

    #[test]
    fn what_is_exported_is_listed_and_nothing_else() {
        let library =
            "mod a; pub use a::{One, run}; #[cfg(feature = \"x\")] pub use a::Two; pub const MAX: u8 = 1;";
        let module = "#[derive(Debug)] pub struct One { pub size: Option<u8>, hidden: u8 } \
            impl One { pub fn new(size: u8) -> Self { todo() } fn own(&self) {} #[doc(hidden)] pub fn not(&self) {} } \
            impl Clone for One { fn clone(&self) -> Self { todo() } } \
            #[non_exhaustive] pub enum Two { A, B(u8), C { x: u8 } } \
            pub struct Other; pub fn run<T: Copy>(of: &mut [T]) {} #[cfg(test)] pub fn run2() {}";
        assert_eq!(
            lines(&[("lib.rs", library), ("a.rs", module)]),
            [
                "MAX",
                "MAX: const u8",
                "One",
                "One: derive(Debug) struct",
                "One: fn new(size: u8) -> Self",
                "One: is Clone",
                "One: size: Option<u8>",
                "Two [cfg(feature = \"x\")]",
                "Two: A()",
                "Two: B(u8)",
                "Two: C(x: u8)",
                "Two: non_exhaustive enum",
                "run",
                "run: fn run<T: Copy>(of: &mut [T])",
            ]
        );
    }

    #[test]
    fn a_public_module_has_its_public_items() {
        assert_eq!(
            lines(&[
                ("lib.rs", "pub mod a; #[doc(hidden)] pub mod b;"),
                ("a.rs", "pub fn f() {} fn g() {}"),
                ("b.rs", "pub fn h() {}")
            ]),
            ["f", "f: fn f()", "mod a"]
        );
    }
}
