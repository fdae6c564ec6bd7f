//! The examples of docs/SENDERS.md.

const PAGE: &str = include_str!("../../../../../docs/SENDERS.md");

/// What stands below a heading.
pub(super) fn section(heading: &str) -> &'static str {
    let start = format!("\n## {heading}\n");
    let (_, rest) = PAGE.split_once(&start).unwrap_or_else(|| panic!("the page has no section {heading}"));
    rest.split("\n## ").next().unwrap_or_default()
}

/// The fenced blocks of a section in a language; rsyslog's and syslog-ng's have none.
pub(super) fn blocks(heading: &str, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    // Texts and blocks in turn.
    for fenced in section(heading).split("\n```").skip(1).step_by(2) {
        let (first, block) = fenced.split_once('\n').unwrap_or((fenced, ""));
        if first == language {
            found.push(block.to_owned());
        }
    }
    found
}

/// One of them, by its place.
pub(super) fn block(heading: &str, language: &str, index: usize) -> String {
    let mut blocks = blocks(heading, language);
    assert!(index < blocks.len(), "{heading} has {} blocks of {language:?}", blocks.len());
    blocks.swap_remove(index)
}

/// The SPEC of the listener in a section: `bbq serve --listen 'SPEC'`.
pub(super) fn spec_of(heading: &str) -> String {
    let (_, rest) = section(heading).split_once("bbq serve --listen '").expect("a listener");
    rest.split('\'').next().unwrap_or_default().to_owned()
}

/// Replaces addresses and paths, each of which must be there.
pub(super) fn put(example: &str, replaced: &[(&str, &str)]) -> String {
    let mut example = example.to_owned();
    for (from, to) in replaced {
        assert!(example.contains(from), "{from:?} is not in the example\n{example}");
        example = example.replace(from, to);
    }
    example
}
