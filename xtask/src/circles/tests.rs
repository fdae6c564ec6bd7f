//! Each crate is a few small files in a directory of its own.

use std::fs;

use super::*;

/// A crate of such files, with names below its `src`; `lib.rs` is its root.
struct Source {
    directory: tempfile::TempDir,
}

impl Source {
    fn new(files: &[(&str, &str)]) -> Source {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join("src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Source { directory }
    }

    fn circles(&self) -> Vec<Circle> {
        self.all().of_files
    }

    fn all(&self) -> Circles {
        of_crate(&self.directory.path().join("src/lib.rs")).unwrap()
    }

    /// Each circle as `importer: names from definer` lines.
    fn ties(&self) -> Vec<Vec<String>> {
        let source = self.directory.path().join("src");
        let name = |path: &Path| path.strip_prefix(&source).unwrap().display().to_string();
        let shown = |tie: Tie| {
            let names: Vec<String> = tie.names.into_iter().collect();
            format!("{}: {} from {}", name(&tie.importer), names.join(" "), name(&tie.definer))
        };
        self.circles().into_iter().map(|circle| circle.ties.into_iter().map(shown).collect()).collect()
    }
}

/// The ties of a crate's one circle.
#[track_caller]
fn only_circle(files: &[(&str, &str)]) -> Vec<String> {
    let mut circles = Source::new(files).ties();
    assert_eq!(circles.len(), 1, "{circles:?}");
    circles.remove(0)
}

#[track_caller]
fn assert_no_circle(files: &[(&str, &str)]) {
    assert_eq!(Source::new(files).ties(), Vec::<Vec<String>>::new());
}

#[test]
fn two_files_that_import_from_each_other_are_a_circle() {
    let circle = only_circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::{B, other}; pub struct A;"),
        ("b.rs", "use super::a::A; pub struct B; pub fn other() {}"),
    ]);
    assert_eq!(circle, ["a.rs: B other from b.rs", "b.rs: A from a.rs"]);
}

#[test]
fn a_circle_is_shown_with_its_files_and_names() {
    let source = Source::new(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
    let shown: Vec<String> =
        source.circles().iter().map(|circle| circle.shown_below(source.directory.path())).collect();
    assert_eq!(
        shown,
        [
            "circle: 2 files import from each other\n  src/a.rs\n    imports B from src/b.rs\n  src/b.rs\n    imports A from src/a.rs\n"
        ]
    );
}

#[test]
fn files_that_import_one_way_only_are_none() {
    assert_no_circle(&[
        ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
        ("a.rs", "use crate::b::B; use crate::c::C; pub struct A;"),
        ("b.rs", "use crate::c::C; use std::fmt; pub struct B;"),
        ("c.rs", "pub struct C;"),
    ]);
}

#[test]
fn a_circle_goes_through_any_number_of_files_and_leaves_out_who_only_uses_it() {
    let circle = only_circle(&[
        ("lib.rs", "mod a; mod b; mod c; mod below; mod above;"),
        ("a.rs", "use crate::b::B; use crate::below::L; pub struct A;"),
        ("b.rs", "use crate::c::C; pub struct B;"),
        ("c.rs", "use crate::a::A; pub struct C;"),
        ("below.rs", "pub struct L;"),
        ("above.rs", "use crate::a::A;"),
    ]);
    assert_eq!(circle, ["a.rs: B from b.rs", "b.rs: C from c.rs", "c.rs: A from a.rs"]);
}

#[test]
fn two_circles_of_a_crate_are_two() {
    let circles = Source::new(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
        ("c.rs", "use crate::a::A; use crate::d::D; pub struct C;"),
        ("d.rs", "use crate::c::C; pub struct D;"),
    ])
    .ties();
    assert_eq!(circles.len(), 2, "{circles:?}");
}

#[test]
fn a_path_in_the_code_is_an_import() {
    for code in [
        "pub fn a() { crate::b::b() }",
        "use crate::b; pub fn a() { b::b() }",
        "pub fn a(_: &[super::b::b]) {}",
        "pub fn a() { println!(\"{}\", crate::b::b()) }",
        "use crate::b; pub fn a() { println!(\"{}\", [b::b()]) }",
        "impl crate::b::b for u8 {} pub fn a() {}",
        "pub fn a() { use crate::b::b; }",
        "#[serde(with = \"crate::b::b\")] pub struct a;",
    ] {
        let circle = only_circle(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", code),
            ("b.rs", "use crate::a::a; pub fn b() {}"),
        ]);
        assert_eq!(circle, ["a.rs: b from b.rs", "b.rs: a from a.rs"], "{code}");
    }
}

#[test]
fn a_tie_names_the_item_and_not_what_belongs_to_it() {
    let circle = only_circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b; pub enum A { One } fn f() { b::B::new() }"),
        ("b.rs", "use crate::a::A::{self, One}; pub struct B;"),
    ]);
    assert_eq!(circle, ["a.rs: B from b.rs", "b.rs: A from a.rs"]);
}

#[test]
fn a_name_that_is_imported_through_a_re_export_is_imported_from_the_file_that_defines_it() {
    for (root, import) in [
        ("mod a; mod b; pub use a::A;", "use crate::A;"),
        ("mod a; mod b; pub use a::A as Other;", "use super::Other;"),
        ("mod a; mod b; pub use a::*;", "use crate::A;"),
        ("mod a; mod b; pub use a::*;", "use crate::*; pub fn f(_: A) {}"),
        ("mod a; mod b; mod c { pub use crate::a::A; } pub use c::A;", "use crate::A;"),
    ] {
        let circle = only_circle(&[
            ("lib.rs", root),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", &format!("{import} pub struct B;")),
        ]);
        assert_eq!(circle.len(), 2, "{root} {import}: {circle:?}");
        assert!(circle.iter().all(|tie| !tie.contains("lib.rs")), "{root} {import}: {circle:?}");
    }
}

#[test]
fn a_re_export_and_a_declaration_of_a_module_are_no_import() {
    assert_no_circle(&[
        ("lib.rs", "mod a; pub use a::A; pub const MAX: u32 = 1;"),
        ("a/mod.rs", "mod inner; pub use inner::I; pub(crate) use inner::J; use crate::MAX; pub struct A;"),
        ("a/inner.rs", "use super::A; use crate::MAX; pub struct I; pub struct J;"),
    ]);
}

#[test]
fn a_re_exported_name_that_the_file_uses_itself_is_an_import() {
    let circle = only_circle(&[
        ("lib.rs", "mod a; pub use a::A; pub const MAX: u32 = 1; fn f(_: A) {}"),
        ("a.rs", "use crate::MAX; pub struct A;"),
    ]);
    assert_eq!(circle, ["lib.rs: A from a.rs", "a.rs: MAX from lib.rs"]);
}

#[test]
fn a_module_and_its_parent_can_be_a_circle() {
    let circle = only_circle(&[
        ("lib.rs", "mod a;"),
        ("a/mod.rs", "mod rules; use rules::Rule; pub struct Found;"),
        ("a/rules.rs", "use super::Found; pub struct Rule;"),
    ]);
    assert_eq!(circle, ["a/mod.rs: Rule from a/rules.rs", "a/rules.rs: Found from a/mod.rs"]);
}

#[test]
fn a_module_that_is_imported_to_reach_what_is_below_it_is_no_import_of_its_file() {
    assert_no_circle(&[
        ("lib.rs", "mod all; mod plan;"),
        ("all/mod.rs", "mod one; pub mod two; use one::One; pub fn list(_: One) {}"),
        ("all/one.rs", "use crate::all; pub struct One; fn f() { all::two::two() }"),
        ("all/two.rs", "pub fn two() {}"),
        ("plan.rs", ""),
    ]);
}

#[test]
fn what_only_tests_have_does_not_count() {
    for tests in [
        "#[cfg(test)] mod tests { use super::*; use crate::b::B; }",
        "#[cfg(test)] mod tests;",
        "#[cfg(all(test, unix))] use crate::b::B;",
        "#[cfg(test)] impl A { fn f() { crate::b::f() } }",
        "impl A { #[cfg(test)] fn f() { crate::b::f() } }",
    ] {
        assert_no_circle(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", &format!("pub struct A; {tests}")),
            ("a/tests.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A; pub struct B; pub fn f() {}"),
        ]);
    }
}

#[test]
fn what_tests_do_not_have_counts() {
    let circle = only_circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A; #[cfg(not(test))] use crate::b::B;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
    assert_eq!(circle.len(), 2);
}

#[test]
fn modules_within_a_file_belong_to_it() {
    assert_no_circle(&[(
        "lib.rs",
        "mod a { use super::b::B; pub struct A; } mod b { use crate::a::A; pub struct B; }",
    )]);
    let circle = only_circle(&[
        ("lib.rs", "mod a { pub mod inner; pub struct A; fn f(_: inner::I) {} }"),
        ("a/inner.rs", "use super::A; pub struct I;"),
    ]);
    assert_eq!(circle, ["lib.rs: I from a/inner.rs", "a/inner.rs: A from lib.rs"]);
}

#[test]
fn names_of_other_crates_are_not_confused_with_modules() {
    assert_no_circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use ::b::B; use log::b; pub struct A; fn f() { x.b(); b!(log = 1) }"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
}

#[test]
fn imports_that_lead_back_to_themselves_end() {
    assert_no_circle(&[
        ("lib.rs", "mod a; mod b; pub use a::*; pub use b::*; use crate::Lost;"),
        ("a.rs", "pub use crate::b::*; pub use super::Lost; pub use crate::a::Own as Own;"),
        ("b.rs", "pub use crate::a::*; fn f() { nothing(); crate::Nowhere::f() }"),
    ]);
}

#[test]
fn a_name_that_a_macro_makes_belongs_to_the_file_it_is_sought_in() {
    let circle = only_circle(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "make! { A } use crate::b::B;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
    assert_eq!(circle.len(), 2);
}

#[test]
fn a_module_is_also_where_its_attribute_says() {
    let circle = only_circle(&[
        ("lib.rs", "#[path = \"elsewhere/a.rs\"] mod a; mod b;"),
        ("elsewhere/a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ]);
    assert_eq!(circle, ["elsewhere/a.rs: B from b.rs", "b.rs: A from elsewhere/a.rs"]);
}

#[test]
fn a_module_without_a_file_and_a_file_that_is_no_rust_are_named() {
    let missing = Source::new(&[("lib.rs", "mod a;")]);
    let problem = of_crate(&missing.directory.path().join("src/lib.rs")).unwrap_err();
    assert!(problem.contains("mod a"), "{problem}");
    let broken = Source::new(&[("lib.rs", "mod a;"), ("a.rs", "fn fn")]);
    let problem = of_crate(&broken.directory.path().join("src/lib.rs")).unwrap_err();
    assert!(problem.contains("a.rs"), "{problem}");
}

#[test]
fn the_root_of_a_crate_is_known_by_its_name() {
    for name in ["src/lib.rs", "crates/a/src/main.rs", "bindings/c/src/lib.rs", "a/src/bin/b.rs"] {
        assert!(is_root_of_crate(name), "{name}");
    }
    for name in ["crates/a/src/b.rs", "a/src/b/lib.rs", "a/src/bin/b/c.rs", "lib.rs", "a/tests/lib.rs"] {
        assert!(!is_root_of_crate(name), "{name}");
    }
}

/// The reports of circles of folders, with names below the crate.
fn circles_of_folders(files: &[(&str, &str)]) -> Vec<String> {
    let source = Source::new(files);
    source
        .all()
        .of_folders
        .iter()
        .map(|circle| shown_below(&source.directory.path().join("src"), circle))
        .collect()
}

#[test]
fn two_folders_that_import_from_each_other_are_a_circle_which_names_both_uses() {
    let shown = circles_of_folders(&[
        ("lib.rs", "mod high; mod low;"),
        ("high/mod.rs", "pub mod one; pub mod two;"),
        ("high/one.rs", "use crate::low::inner::deep::Deep;"),
        ("high/two.rs", "pub struct Two;"),
        ("low/mod.rs", "pub mod inner; pub mod other;"),
        ("low/inner/mod.rs", "pub mod deep;"),
        ("low/inner/deep.rs", "pub struct Deep;"),
        ("low/other.rs", "use crate::high::two::Two;"),
    ]);
    let expected = "circle: 2 folders import from each other\n  high uses low\n    high/one.rs imports Deep from low/inner/deep.rs\n  \
                    low uses high\n    low/other.rs imports Two from high/two.rs\n";
    assert_eq!(shown, [expected]);
}

#[test]
fn folders_are_compared_with_those_beside_them() {
    // A folder is no floor above or below the files and folders in it, and neither is a file beside it.
    let shown = circles_of_folders(&[
        ("lib.rs", "mod a; mod beside;"),
        ("a/mod.rs", "pub mod inner; pub struct A;"),
        ("a/inner/mod.rs", "use crate::a::A; use crate::beside::Beside; pub struct Inner;"),
        ("beside.rs", "use crate::a::A; pub struct Beside;"),
    ]);
    assert_eq!(shown, Vec::<String>::new());
    let shown = circles_of_folders(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a/mod.rs", "use crate::b::B; pub struct A;"),
        ("b/mod.rs", "use crate::c::C; pub struct B;"),
        ("c/mod.rs", "pub mod d; pub struct C;"),
        ("c/d.rs", "use crate::a::A; #[cfg(test)] mod tests { use crate::b::B; }"),
    ]);
    assert_eq!(shown.len(), 1);
    assert!(shown[0].starts_with("circle: 3 folders") && !shown[0].contains("tests"), "{}", shown[0]);
}
