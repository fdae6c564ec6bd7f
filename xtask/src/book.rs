//! The book: the pages of docs, and those beside it that `BESIDE` names, made by mdBook into target/book.
//!
//! Pages link to each other as GitHub shows them. So mdBook gets copies, in target/book-source, in which a page beside docs stands in docs,
//! and a link to what is no part of the book is text. mdBook itself checks no links: they are checked in what it made.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::step;

/// The version of mdBook, and what it is built with: the book has a search.
const VERSION: &str = "0.5.4";
const FEATURES: &str = "search";
/// A book is made once in each run, so a fast build is worth more than a fast mdBook.
const FAST_BUILD: [(&str, &str); 1] = [("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")];

const DOCS: &str = "docs";
const SUMMARY: &str = "SUMMARY.md";
/// The pages of the book that stand beside docs.
const BESIDE: [&str; 4] = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
/// It has absolute addresses, as it is shown at any.
const NOT_FOUND: &str = "404.html";

/// Where mdBook is installed.
fn place() -> PathBuf {
    step::target_directory().join("mdbook")
}

/// Installs mdBook if it is not there.
pub(crate) fn provide(root: &Path) -> Result<(), String> {
    let place = root.join(place());
    let version = place.join("version");
    let is_there = place.join("bin/mdbook").exists();
    if is_there && fs::read_to_string(&version).is_ok_and(|installed| installed == VERSION) {
        return Ok(());
    }
    // A directory of its own: the tests are built meanwhile.
    let (shown, built) = (place.display().to_string(), place.join("build"));
    let built_shown = built.display().to_string();
    let install = [
        "install",
        "mdbook",
        "--version",
        VERSION,
        "--locked",
        "--force",
        "--no-default-features",
        "--features",
        FEATURES,
        "--root",
        &shown,
        "--target-dir",
        &built_shown,
    ];
    step::cargo(&FAST_BUILD, &install).map_err(|problem| {
        format!(
            "{problem}\nthe book needs mdBook {VERSION}: make sure that cargo reaches a registry of crates"
        )
    })?;
    fs::remove_dir_all(&built).map_err(|error| failed(&built, &error))?;
    fs::write(&version, VERSION).map_err(|error| failed(&version, &error))
}

/// Installs mdBook, and makes the book.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    provide(root)?;
    build(root, &mut |line| eprint!("{}", String::from_utf8_lossy(line)))
}

/// Makes the book, and checks that each page is in it and that each of its links leads somewhere.
pub(crate) fn build(root: &Path, shown: &mut dyn FnMut(&[u8])) -> Result<(), String> {
    let target = root.join(step::target_directory());
    let (source, book) = (target.join("book-source"), target.join("book"));
    for directory in [&source, &book] {
        if directory.exists() {
            fs::remove_dir_all(directory).map_err(|error| failed(directory, &error))?;
        }
    }
    let pages = copy(root, &source)?;
    let summary = read(&source.join(DOCS).join(SUMMARY))?;
    let listed: BTreeSet<&str> = links(&summary).into_iter().map(|link| link.target).collect();
    let missing: Vec<&str> =
        pages.iter().map(String::as_str).filter(|page| *page != SUMMARY && !listed.contains(page)).collect();
    if !missing.is_empty() {
        return Err(format!("docs/{SUMMARY} lacks {}", missing.join(", ")));
    }
    let (mdbook, source, to) =
        (root.join(place()).join("bin/mdbook"), source.display().to_string(), book.display().to_string());
    step::run_watched(&[], &mdbook.display().to_string(), &["build", &source, "--dest-dir", &to], shown)?;
    check(&book, shown)
}

/// Copies docs and the pages beside it, and returns the names of all pages in the copy.
fn copy(root: &Path, source: &Path) -> Result<Vec<String>, String> {
    let docs = source.join(DOCS);
    let mut pages = Vec::new();
    for name in files(&root.join(DOCS))? {
        let file = format!("{DOCS}/{name}");
        let in_copy = in_book(&file).unwrap_or(&name);
        let (from, to) = (root.join(&file), docs.join(in_copy));
        make_directory_of(&to)?;
        if name.ends_with(".md") {
            let text = relinked(root, &file, &read(&from)?)?;
            fs::write(&to, text).map_err(|error| failed(&to, &error))?;
            pages.push(in_copy.to_owned());
        } else {
            fs::copy(&from, &to).map_err(|error| failed(&from, &error))?;
        }
    }
    for name in BESIDE {
        let to = docs.join(name);
        let text = relinked(root, name, &read(&root.join(name))?)?;
        fs::write(&to, text).map_err(|error| failed(&to, &error))?;
        pages.push(name.to_owned());
    }
    let settings = source.join("book.toml");
    fs::copy(root.join("book.toml"), &settings).map_err(|error| failed(&settings, &error))?;
    Ok(pages)
}

/// A link of a page, as Markdown has it.
#[derive(Debug, PartialEq, Eq)]
struct Link<'a> {
    /// Where `[` stands, and the byte behind `)`.
    start: usize,
    end: usize,
    label: &'a str,
    target: &'a str,
}

/// The links of a text, but for those in blocks of code.
fn links(text: &str) -> Vec<Link<'_>> {
    let mut found = Vec::new();
    let (mut is_fenced, mut offset) = (false, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            found.extend(links_of_line(text, line, offset));
        }
        offset += line.len();
    }
    found
}

fn links_of_line<'a>(text: &'a str, line: &'a str, offset: usize) -> Vec<Link<'a>> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("](") {
        let Some(length) = line[at + 2..].find(')') else { continue };
        // The bracket that opens this one.
        let mut depth = 1;
        let open = line[..at].char_indices().rev().find(|(_, character)| {
            depth += match character {
                ']' => 1,
                '[' => -1,
                _ => 0,
            };
            depth == 0
        });
        let Some((open, _)) = open else { continue };
        let (start, end) = (offset + open, offset + at + 2 + length + 1);
        found.push(Link {
            start,
            end,
            label: &text[start + 1..offset + at],
            target: &text[offset + at + 2..end - 1],
        });
    }
    found
}

/// The text of a page with the links that it has in the copy. `page` is its path in the repository.
fn relinked(root: &Path, page: &str, text: &str) -> Result<String, String> {
    let (mut result, mut from) = (String::new(), 0);
    for link in links(text) {
        // A picture in a link: the link around it comes later, and is left alone with it.
        if link.start < from || link.target.contains("://") || link.target.starts_with('#') {
            continue;
        }
        result.push_str(&text[from..link.start]);
        from = link.end;
        let (file, anchor) = link.target.split_once('#').unwrap_or((link.target, ""));
        let file = resolved(page, file)?;
        if !root.join(&file).exists() {
            return Err(format!("{page}: {} leads nowhere", link.target));
        }
        match in_book(&file) {
            Some(target) => {
                let up = "../".repeat(in_book(page).unwrap_or(page).matches('/').count());
                let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
                result.push_str(&format!("[{}]({up}{target}{anchor})", link.label));
            }
            None => result.push_str(link.label),
        }
    }
    result.push_str(&text[from..]);
    Ok(result)
}

/// The path in the book of a file of the repository, if it is there. mdBook has its front page under another name than GitHub, and does
/// not rename links to it.
fn in_book(file: &str) -> Option<&str> {
    match file {
        "docs/README.md" => Some("index.md"),
        file => file.strip_prefix("docs/").or_else(|| BESIDE.contains(&file).then_some(file)),
    }
}

/// The path that a relative one leads to from a file, both in the repository.
fn resolved(from: &str, target: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop().ok_or_else(|| format!("{from}: {target} leads out"))?;
            }
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Checks every link of the book that was made.
fn check(book: &Path, shown: &mut dyn FnMut(&[u8])) -> Result<(), String> {
    let names = files(book)?;
    let mut texts = BTreeMap::new();
    for name in names.iter().filter(|name| name.ends_with(".html") && *name != NOT_FOUND) {
        texts.insert(name.as_str(), read(&book.join(name))?);
    }
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        texts.iter().map(|(name, text)| (*name, values(text, " id=\"").into_iter().collect())).collect();
    let there: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let (mut checked, mut broken) = (0, BTreeSet::new());
    for (name, text) in &texts {
        for target in values(text, " href=\"").into_iter().chain(values(text, " src=\"")) {
            if target.contains("://") || target.starts_with("data:") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { (*name).to_owned() } else { resolved(name, file)? };
            let has_anchor = || ids.get(file.as_str()).is_none_or(|ids| ids.contains(anchor));
            if !there.contains(file.as_str()) || !(anchor.is_empty() || has_anchor()) {
                broken.insert(format!("{name}: {target}"));
            }
        }
    }
    if !broken.is_empty() {
        let broken: Vec<String> = broken.into_iter().collect();
        return Err(format!("links of the book lead nowhere:\n  {}", broken.join("\n  ")));
    }
    shown(format!("xtask: book: {} pages, {checked} links\n", texts.len()).as_bytes());
    Ok(())
}

/// The values of an attribute in a page of HTML.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Every file below a directory, by its path from there.
fn files(directory: &Path) -> Result<Vec<String>, String> {
    let (mut found, mut waiting) = (Vec::new(), vec![String::new()]);
    while let Some(below) = waiting.pop() {
        let path = directory.join(&below);
        for entry in fs::read_dir(&path).map_err(|error| failed(&path, &error))? {
            let entry = entry.map_err(|error| failed(&path, &error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if below.is_empty() { name } else { format!("{below}/{name}") };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(name)
            } else {
                found.push(name)
            }
        }
    }
    found.sort();
    Ok(found)
}

fn make_directory_of(file: &Path) -> Result<(), String> {
    let directory = file.parent().unwrap_or(file);
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository of some files.
    fn repository() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for name in ["docs/A.md", "docs/README.md", "docs/b/C.md", "SECURITY.md", "examples/edge.toml"] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    #[test]
    fn links_are_those_of_the_copy() {
        let root = repository();
        let relinked = |page: &str, text: &str| relinked(root.path(), page, text);
        let same = |text: &str| assert_eq!(relinked("docs/b/C.md", text), Ok(text.to_owned()));
        same("[a](../A.md#x), [own](#y), [site](https://example.com/A.md)\n```\n[a](../nowhere.md)\n```\n");
        let of_page = |text: &str| relinked("docs/b/C.md", text).unwrap();
        assert_eq!(of_page("see [it](../../SECURITY.md#z)."), "see [it](../SECURITY.md#z).");
        assert_eq!(
            of_page("[`edge.toml`](../../examples/edge.toml), [all](../../examples)"),
            "`edge.toml`, all"
        );
        assert_eq!(of_page("[front](../README.md)"), "[front](../index.md)");
        assert_eq!(relinked("SECURITY.md", "[c](docs/b/C.md)"), Ok("[c](b/C.md)".to_owned()));
        assert!(relinked("docs/A.md", "[x](nowhere.md)").is_err());
        assert!(relinked("docs/A.md", "[x](../../beyond.md)").is_err());
    }

    #[test]
    fn a_link_of_the_book_that_leads_nowhere_is_found() {
        let book = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(book.path().join(name), text).unwrap();
        write("a.html", "<h1 id=\"one\">A</h1><a href=\"b.html#two\">b</a> <a href=\"#one\">a</a>");
        write("b.html", "<h1 id=\"two\">B</h1><a href=\"https://example.com/\">c</a>");
        let checked = || check(book.path(), &mut |_| {});
        assert_eq!(checked(), Ok(()));
        write("b.html", "<h1 id=\"three\">B</h1><img src=\"no.png\">");
        let problem = checked().unwrap_err();
        assert!(problem.contains("a.html: b.html#two") && problem.contains("b.html: no.png"), "{problem}");
    }
}
