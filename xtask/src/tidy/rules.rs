//! The rules, each for the text of one file. Forbidden words are written in two parts here, so that this file passes.

/// The most lines of a Rust file: a longer one has more than one subject.
const LINES_MAX: usize = 800;
/// The files of the one module that may have unsafe code, beside the bindings and [`NUMBERS`].
const UNSAFE_FILES: &str = "crates/bbq-listen/src/sys/";
/// Descriptors by their numbers: only the pool of processes knows who owns one.
const NUMBERS: &str = "crates/bbq-prefork/src/numbers.rs";
/// The bindings pass pointers to other languages.
const BINDINGS: &str = "bindings/";
/// Forgotten notes of a programmer.
const NOTES: [&str; 3] = [concat!("FIX", "ME"), concat!("XX", "X"), concat!("todo", "!")];
/// Paths of a particular machine.
const MACHINE_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/")];
/// The file names of sources; the others are texts.
const SOURCES: [&str; 9] = [".rs", ".toml", ".py", ".sh", ".c", ".h", ".cpp", ".hpp", ".yml"];

/// A violation in a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// From 1.
    pub(super) line: usize,
    pub(super) message: String,
}

/// Checks one file by its name in the repository and its text.
pub(super) fn check(name: &str, text: &str) -> Vec<Finding> {
    let file = File { name, is_rust: name.ends_with(".rs"), tests_from: tests_from(name, text) };
    let mut findings: Vec<Finding> =
        text.lines().enumerate().flat_map(|(index, line)| check_line(&file, index + 1, line)).collect();
    let lines = text.lines().count();
    if file.is_rust && lines > LINES_MAX {
        let message = format!("{lines} lines, at most {LINES_MAX}: one noun per file");
        findings.push(Finding { line: lines, message });
    }
    if file.is_rust {
        findings.extend(exceptions_without_reason(text));
    }
    findings
}

struct File<'a> {
    name: &'a str,
    is_rust: bool,
    /// The line at which the tests begin; behind the end if there are none.
    tests_from: usize,
}

fn tests_from(name: &str, text: &str) -> usize {
    if name.split('/').any(|part| part == "tests") {
        return 1;
    }
    let module = text.lines().position(|line| line.trim() == "#[cfg(test)]");
    module.map_or(usize::MAX, |index| index + 1)
}

fn check_line(file: &File<'_>, line: usize, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |message: String| findings.push(Finding { line, message });
    if text.ends_with([' ', '\t', '\r']) {
        find("trailing white space".to_owned());
    }
    if let Some(path) = MACHINE_PATHS.iter().find(|path| has_absolute(text, path)) {
        find(format!("{path} is a path of somebody's machine"));
    }
    if let Some(note) = NOTES.iter().find(|note| has_word(text, note)) {
        find(format!("{note}: finish it, or open an issue and name it"));
    }
    let is_source = SOURCES.iter().any(|suffix| file.name.ends_with(suffix));
    if is_source && line < file.tests_from && !text.is_ascii() {
        find("not ASCII: write it in words, or escaped".to_owned());
    }
    let may_be_unsafe = [UNSAFE_FILES, NUMBERS, BINDINGS].iter().any(|place| file.name.starts_with(place));
    if file.is_rust && !may_be_unsafe && has_word(code_of(text), concat!("un", "safe")) {
        find(format!("code that the compiler cannot check belongs in {UNSAFE_FILES} or {BINDINGS}"));
    }
    findings
}

/// The line without its comment. It is also cut at two slashes in a string, which only finds less.
fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// Whether `text` contains `word`, not as a part of a longer word.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + word.len()..].chars().next();
        let longer_behind = word.ends_with(is_part) && behind.is_some_and(is_part);
        !before.is_some_and(is_part) && !longer_behind
    })
}

/// Whether an absolute path begins with this: not if a name is in front of the slash.
fn has_absolute(text: &str, path: &str) -> bool {
    let goes_on = |character: char| character.is_alphanumeric() || "._-}~*".contains(character);
    text.match_indices(path).any(|(at, _)| !text[..at].chars().next_back().is_some_and(goes_on))
}

/// `#[expect(...)]` and its like, over several lines or not, must say why.
fn exceptions_without_reason(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut offset = 0;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let opens =
            ["#[expect(", "#![expect(", "#[allow(", "#![allow("].iter().any(|open| start.starts_with(open));
        if opens {
            let rest = &text[offset..];
            let attribute = &rest[..rest.find(")]").unwrap_or(rest.len())];
            if !attribute.contains("reason = \"") {
                let message = "a lint is excepted without a reason: add reason = \"...\"".to_owned();
                findings.push(Finding { line: index + 1, message });
            }
        }
        offset += line.len() + 1;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that are found, in a file of that name.
    fn lines_of(name: &str, text: &str) -> Vec<usize> {
        check(name, text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_file_as_it_should_be_has_no_findings() {
        let text = "//! A module.\n\n#[expect(dead_code, reason = \"shared\")]\nfn f() {}\n";
        assert_eq!(lines_of("crates/a/src/b.rs", text), []);
        assert_eq!(lines_of("docs/A.md", "caf\u{e9} \u{b7} menu\n"), []);
    }

    #[test]
    fn a_rust_file_has_at_most_so_many_lines() {
        let text = "\n".repeat(LINES_MAX);
        assert_eq!(lines_of("a.rs", &text), []);
        assert_eq!(lines_of("a.rs", &format!("{text}\n")), [LINES_MAX + 1]);
        assert_eq!(lines_of("a.md", &format!("{text}\n")), []);
    }

    #[test]
    fn unsafe_code_is_found_outside_its_file_and_its_name_in_a_comment_is_not() {
        let word = concat!("un", "safe");
        let text = format!(
            "// {word} things\n#![forbid({word}_code)]\nlet x = {word} {{ y() }};\n{word} fn f() {{}}\n"
        );
        assert_eq!(lines_of("crates/bbq/src/a.rs", &text), [3, 4]);
        assert_eq!(lines_of("crates/bbq-listen/src/sys/a.rs", &text), []);
        assert_eq!(lines_of("bindings/c/src/a.rs", &text), []);
        assert_eq!(lines_of("crates/bbq-prefork/src/numbers.rs", &text), []);
        assert_eq!(lines_of("crates/bbq-prefork/src/pool.rs", &text), [3, 4]);
        assert_eq!(lines_of("docs/A.md", &text), []);
    }

    #[test]
    fn forgotten_notes_are_found_as_words() {
        for note in NOTES {
            assert_eq!(lines_of("a.md", &format!("a\n# {note}\n")), [2], "{note}");
            assert_eq!(lines_of("a.rs", &format!("    {note}()\n")), [1], "{note}");
            assert_eq!(lines_of("a.md", &format!("a{note} {note}\n")).len(), 1, "{note}");
        }
        assert_eq!(lines_of("a.sh", &format!("mktemp /tmp/a.{}\n", "X".repeat(6))), []);
    }

    #[test]
    fn paths_of_a_machine_are_found_where_they_are_absolute() {
        for path in MACHINE_PATHS {
            assert_eq!(lines_of("a.md", &format!("see {path}x\n")), [1], "{path}");
            assert_eq!(lines_of("a.rs", &format!("\"{path}x\"\n")), [1], "{path}");
            assert_eq!(
                lines_of("a.md", &format!("see docs{path}x and $HOME{path} \"{{dir}}{path}\"\n")),
                [],
                "{path}"
            );
        }
    }

    #[test]
    fn white_space_at_the_end_is_found_in_every_file() {
        assert_eq!(lines_of("a.md", "a \nb\t\nc\n"), [1, 2]);
    }

    #[test]
    fn source_is_ascii_but_for_tests() {
        assert_eq!(lines_of("a.py", "# caf\u{e9}\n"), [1]);
        assert_eq!(lines_of("a.rs", "// \u{2026}\n#[cfg(test)]\nmod tests { /* \u{2026} */ }\n"), [1]);
        assert_eq!(lines_of("crates/a/tests/b.rs", "// \u{2026}\n"), []);
    }

    #[test]
    fn an_excepted_lint_has_a_reason_also_over_several_lines() {
        let text = "#[expect(a)]\n#![allow(\n    a,\n    b,\n)]\n#[expect(\n    a,\n    reason = \"b\"\n)]\n";
        assert_eq!(lines_of("a.rs", text), [1, 2]);
    }
}
