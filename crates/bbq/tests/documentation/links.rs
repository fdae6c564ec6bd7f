//! Every link leads to a page and a heading, and a reader finds every page from the front page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::command_line;
use crate::pages::{self, lines};

/// The most lines of a page: a longer one has more than one subject.
const LINES_MAX: usize = 400;
/// Most of it is made from lists of the program, or it is a list of all changes.
const LONGER: [&str; 2] = ["CHANGELOG.md", command_line::PAGE];
/// What an operator looks for first: a word of each task.
const TASKS: [&str; 10] = [
    "Add a sink",
    "dead sink",
    "full disk",
    "again",
    "Upgrade",
    "certificate",
    "token",
    "stalled worker",
    "Size the spool",
    "restore",
];

/// The targets of the links of a page, but for those to other sites.
fn targets(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).collect()
}

/// The path in the repository that a relative path on a page leads to.
fn resolved(page: &str, target: &str) -> String {
    let mut path = PathBuf::new();
    let whole = Path::new(page).parent().unwrap().join(target);
    for component in whole.components() {
        match component {
            Component::ParentDir => assert!(path.pop(), "{page}: {target} leaves the repository"),
            component => path.push(component),
        }
    }
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_link_between_the_pages_leads_somewhere() {
    let mut checked = 0;
    for (page, text) in pages::all() {
        for target in targets(&text) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { page.clone() } else { resolved(&page, file) };
            let path = pages::root().join(&file);
            assert!(path.exists(), "{page}: {target} leads nowhere");
            if !anchor.is_empty() {
                let there = fs::read_to_string(&path).unwrap();
                let named = format!("<a id=\"{anchor}\"></a>");
                assert!(
                    anchors_of(&there).iter().any(|found| found == anchor) || there.contains(&named),
                    "{page}: {target} has no such heading or name"
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 500, "only {checked} links were found");
}

/// The anchors of the headings of a page. One that was there before gets a number.
fn anchors_of(page: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut times = BTreeMap::new();
    let headings = lines(page).into_iter().filter(|line| !line.is_code && line.text.starts_with('#'));
    for anchor in headings.map(|line| anchor_of(line.text)) {
        let before = times.entry(anchor.clone()).and_modify(|times| *times += 1).or_insert(0_usize);
        anchors.push(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
    }
    anchors
}

/// The anchor that a heading gets: small letters, hyphens for spaces, no punctuation.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.map(|character| if character == ' ' { '-' } else { character }).collect()
}

#[test]
fn the_summary_has_every_page_of_the_book_once() {
    let pages = pages::of_the_book();
    let (summary, text) = pages.iter().find(|(name, _)| name == "docs/SUMMARY.md").expect("a summary");
    let listed: Vec<String> = targets(text).into_iter().map(|target| resolved(summary, target)).collect();
    let once: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(once.len(), listed.len(), "a page is listed twice");
    for (name, _) in &pages {
        assert!(name == summary || once.contains(name), "docs/SUMMARY.md lacks {name}");
    }
}

#[test]
fn the_front_page_leads_to_the_tasks_of_an_operator() {
    let (_, text) = pages::of_the_book().into_iter().find(|(name, _)| name == "docs/README.md").unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ") && line.contains("](")).collect();
    for task in TASKS {
        assert!(rows.iter().any(|row| row.contains(task)), "no row of {task}");
    }
}

#[test]
fn no_page_is_too_long() {
    for (name, text) in pages::all() {
        let count = text.lines().count();
        assert!(count <= LINES_MAX || LONGER.contains(&name.as_str()), "{name} has {count} lines");
    }
}
