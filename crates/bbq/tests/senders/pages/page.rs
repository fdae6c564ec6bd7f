//! The examples of docs/senders and of docs/KUBERNETES.md.

/// The pages, by their titles.
const PAGES: [&str; 20] = [
    include_str!("../../../../../docs/KUBERNETES.md"),
    include_str!("../../../../../docs/senders/bbq-send.md"),
    include_str!("../../../../../docs/senders/curl.md"),
    include_str!("../../../../../docs/senders/elasticsearch.md"),
    include_str!("../../../../../docs/senders/fluent-bit.md"),
    include_str!("../../../../../docs/senders/fluentd.md"),
    include_str!("../../../../../docs/senders/gelf.md"),
    include_str!("../../../../../docs/senders/journal-upload.md"),
    include_str!("../../../../../docs/senders/journal.md"),
    include_str!("../../../../../docs/senders/logger.md"),
    include_str!("../../../../../docs/senders/loki.md"),
    include_str!("../../../../../docs/senders/nc.md"),
    include_str!("../../../../../docs/senders/nginx.md"),
    include_str!("../../../../../docs/senders/opentelemetry-collector.md"),
    include_str!("../../../../../docs/senders/opentelemetry-sdks.md"),
    include_str!("../../../../../docs/senders/python-sysloghandler.md"),
    include_str!("../../../../../docs/senders/rsyslog.md"),
    include_str!("../../../../../docs/senders/splunk.md"),
    include_str!("../../../../../docs/senders/syslog-ng.md"),
    include_str!("../../../../../docs/senders/vector.md"),
];

/// The text of the page with this title.
pub(super) fn section(title: &str) -> &'static str {
    let start = format!("# {title}\n");
    let page = PAGES.iter().find_map(|page| page.strip_prefix(start.as_str()));
    page.unwrap_or_else(|| panic!("no page has the title {title}"))
}

/// The fenced blocks of a page in a language; rsyslog's and syslog-ng's have none.
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

/// The SPEC of the listener on a page: `bbq serve --listen 'SPEC'`.
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
