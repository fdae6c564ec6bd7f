//! One replacement: `s/PATTERN/WITH/`, as in sed, where any character can stand in place of the slashes.
//!
//! Behind a backslash the delimiter stands for itself; every other backslash is the pattern's. Every match is replaced, with or without the
//! flag `g`; the flag `i` makes letters match in either case. In WITH, `$1` or `${name}` stand for a group of the pattern, and `$$` for a
//! dollar.

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::growth::Growth;

/// The longest text of all replacements.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// How many there may be: each costs time for every message.
const SUBSTITUTIONS_MAX: usize = 64;
/// Memory of a compiled pattern: 16 MiB for all, whatever the number of threads.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Memory of what was learnt of it, which makes it fast, for each thread.
const PATTERN_CACHE_BYTES_MAX: usize = 512 * 1024;

/// A pattern, and what takes the place of its matches.
#[derive(Clone, Debug)]
pub(super) struct Substitution {
    pattern: Regex,
    with: Vec<u8>,
    /// Whether `with` has groups of the pattern.
    has_groups: bool,
}

impl Substitution {
    fn of(pattern: &str, with: &str, flags: &str) -> Result<Substitution, String> {
        if let Some(flag) = flags.chars().find(|flag| !matches!(flag, 'g' | 'i')) {
            return Err(format!("{flag:?} is not a flag; allowed: g, i"));
        }
        let pattern = RegexBuilder::new(pattern)
            .case_insensitive(flags.contains('i'))
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_CACHE_BYTES_MAX)
            .build()
            .map_err(|error| format!("{pattern:?} is not a pattern: {error}"))?;
        if pattern.is_match(b"") {
            return Err(format!(
                "{:?} matches an empty text, so it would match everywhere",
                pattern.as_str()
            ));
        }
        let has_groups = check_groups(with, &pattern)?;
        let with = if has_groups { with.to_owned() } else { with.replace("$$", "$") };
        Ok(Substitution { pattern, with: with.into_bytes(), has_groups })
    }

    /// Appends the text with its matches replaced to `out`. Returns `false`, and appends nothing, if nothing matches.
    pub(super) fn apply(&self, text: &[u8], growth: &mut Growth, out: &mut Vec<u8>) -> bool {
        let (mut end, mut has_match) = (0, false);
        if self.has_groups {
            // A search for groups allocates before it finds anything.
            if !self.pattern.is_match(text) {
                return false;
            }
            for groups in self.pattern.captures_iter(text) {
                let found = groups.get_match();
                out.extend_from_slice(&text[end..found.start()]);
                self.expand(&groups, growth, out);
                (end, has_match) = (found.end(), true);
            }
        } else {
            for found in self.pattern.find_iter(text) {
                out.extend_from_slice(&text[end..found.start()]);
                if growth.allows(found.len(), self.with.len()) {
                    out.extend_from_slice(&self.with);
                }
                (end, has_match) = (found.end(), true);
            }
        }
        if has_match {
            out.extend_from_slice(&text[end..]);
        }
        has_match
    }

    fn expand(&self, groups: &Captures<'_>, growth: &mut Growth, out: &mut Vec<u8>) {
        let from = out.len();
        groups.expand(&self.with, out);
        if !growth.allows(groups.get_match().len(), out.len() - from) {
            out.truncate(from);
        }
    }
}

/// Checks the groups that a replacement names, as one that is not there would silently be empty. Returns whether it names any.
fn check_groups(with: &str, pattern: &Regex) -> Result<bool, String> {
    let mut has_groups = false;
    let mut rest = with;
    while let Some(at) = rest.find(['$', '\\']) {
        let behind = &rest[at + 1..];
        if rest[at..].starts_with('\\') {
            if behind.starts_with(|c: char| c.is_ascii_digit()) {
                return Err("groups of the pattern are written $1 or ${name} here".to_owned());
            }
            rest = behind;
            continue;
        }
        if let Some(behind) = behind.strip_prefix('$') {
            rest = behind;
            continue;
        }
        let (name, behind) = match behind.strip_prefix('{') {
            Some(inner) => inner.split_once('}').ok_or("a ${ in the replacement has no }")?,
            None => {
                let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                behind.split_at(end.unwrap_or(behind.len()))
            }
        };
        let is_known = match name.parse::<usize>() {
            Ok(index) => index < pattern.captures_len(),
            Err(_) => pattern.capture_names().flatten().any(|known| known == name),
        };
        if !is_known {
            return Err(format!(
                "the pattern has no group {name:?}; write $$ for a dollar, and ${{1}}a for a group in front of a letter"
            ));
        }
        has_groups = true;
        rest = behind;
    }
    Ok(has_groups)
}

/// Reads all of them.
pub(super) fn substitutions(text: &str) -> Result<Vec<Substitution>, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("the replacements have {} bytes; allowed: 1 to {TEXT_BYTES_MAX}", text.len()));
    }
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let number = found.len() + 1;
        if number > SUBSTITUTIONS_MAX {
            return Err(format!("there are more than {SUBSTITUTIONS_MAX} replacements"));
        }
        let (substitution, behind) =
            first(rest).map_err(|problem| format!("replacement {number}: {problem}"))?;
        found.push(substitution);
        rest = behind;
    }
    if found.is_empty() {
        return Err("there is no replacement; write s/PATTERN/WITH/".to_owned());
    }
    Ok(found)
}

/// The replacement at the front of a text, and what stands behind its semicolon.
fn first(text: &str) -> Result<(Substitution, &str), String> {
    let form = || format!("{text:?} does not begin with a replacement; write s/PATTERN/WITH/");
    let mut inner = text.strip_prefix('s').ok_or_else(form)?.chars();
    let delimiter = inner.next().filter(|c| !c.is_alphanumeric() && !c.is_whitespace() && *c != '\\');
    let delimiter = delimiter.ok_or_else(form)?;
    let mut rest = inner.as_str();
    let mut part = |what: &str| {
        let (part, behind) = up_to(rest, delimiter)
            .ok_or_else(|| format!("the {delimiter:?} behind the {what} is missing"))?;
        rest = behind;
        Ok::<String, String>(part)
    };
    let (pattern, with) = (part("pattern")?, part("replacement")?);
    if pattern.is_empty() {
        return Err("the pattern is empty".to_owned());
    }
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (flags, behind) = rest.split_at(end);
    let behind = behind.trim_start();
    if !behind.is_empty() && !behind.starts_with(';') {
        return Err(format!("{behind:?} stands behind it; write a semicolon in between"));
    }
    Ok((Substitution::of(&pattern, &with, flags)?, behind.trim_start_matches([';', ' ', '\t', '\n', '\r'])))
}

/// The text up to a delimiter that has no backslash in front of it, and what stands behind it.
fn up_to(text: &str, delimiter: char) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == delimiter {
            return Some((part, chars.as_str()));
        }
        if c == '\\' {
            let next = chars.next()?;
            if next != delimiter {
                part.push(c);
            }
            part.push(next);
        } else {
            part.push(c);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_says_which_replacement_and_what_to_write() {
        for (text, says) in [
            ("", "write s/PATTERN/WITH/"),
            ("secret", "write s/PATTERN/WITH/"),
            ("s", "write s/PATTERN/WITH/"),
            ("sxaxbx", "write s/PATTERN/WITH/"),
            ("s/a", "'/' behind the pattern is missing"),
            ("s/a/b", "'/' behind the replacement is missing"),
            ("s//b/", "the pattern is empty"),
            ("s/a*/b/", "matches an empty text"),
            ("s/(/b/", "is not a pattern"),
            ("s/a/b/; s/[/b/", "replacement 2: "),
            ("s/a/b/x", "'x' is not a flag"),
            ("s/a/b/ s/c/d/", "write a semicolon"),
            ("s/a/$1/", "no group \"1\""),
            ("s/(a)/$1b/", "no group \"1b\""),
            ("s/(a)/${b}/", "no group \"b\""),
            ("s/(a)/${b/", "has no }"),
            ("s/(a)/\\1/", "written $1"),
            (r"s/(\w{1000}){1000}/b/", "size limit"),
        ] {
            let error = substitutions(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let many = "s/a/b/;".repeat(SUBSTITUTIONS_MAX + 1);
        assert!(substitutions(&many).unwrap_err().contains("more than 64"));
        let long = format!("s/a/{}/", "b".repeat(TEXT_BYTES_MAX));
        assert!(substitutions(&long).unwrap_err().contains("allowed: 1 to 16384"));
    }

    #[test]
    fn a_replacement_may_have_a_backslash_and_a_dollar() {
        let found = substitutions(r"s/a/\\$$1/;s#\##\#$$#").unwrap();
        assert_eq!(found[0].with, br"\\$1");
        assert_eq!((found[1].pattern.as_str(), found[1].with.as_slice()), ("#", &b"#$"[..]));
    }
}
