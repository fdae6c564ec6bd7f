//! The result, as a table.

use std::time::Duration;

use anyhow::Result;

use super::kind::Kind;
use super::script::Script;

/// Prints the result. Returns whether bbq has kept all promises.
pub(super) fn print(script: &mut Script<'_>, done: &Result<()>, took: Duration) -> bool {
    let Script { tools, books, done: made, .. } = script;
    let clean =
        done.is_ok() && books.is_clean(0) && made.problems.iter().all(|text| !text.starts_with("bbq"));
    println!(
        "files: {:.1} minutes, {} kills of each reader, {} of the centre, {} of readers that had read everything, {} new files with an \
         inode of an earlier one",
        took.as_secs_f64() / 60.0,
        made.reader_kills,
        made.server_kills,
        made.quiet_kills,
        made.used_again
    );
    println!(
        "| program | rotation | rotations | lines | lost | doubled | out of order | lost between copy and truncation |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    for (index, tool) in tools.iter().enumerate() {
        for kind in Kind::ALL {
            let result = books.result(index, kind);
            println!(
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                tool.name(),
                kind.title(),
                made.rotations[kind as usize],
                books.lines(kind),
                result.counts.lost,
                result.counts.doubled,
                result.counts.disordered,
                result.lost_between
            );
        }
    }
    for (index, tool) in tools.iter().enumerate() {
        println!(
            "files: {}: {} lines that nobody wrote; {} times it had a file not open, or not read, that was deleted then",
            tool.name(),
            books.torn(index),
            made.unfair[index]
        );
        let findings = if index == 0 { books.findings(index) } else { Vec::new() };
        findings.iter().for_each(|finding| println!("files: {}: {finding}", tool.name()));
    }
    made.problems.iter().for_each(|problem| println!("files: {problem}"));
    if let Err(error) = done {
        println!("files: {error:#}");
    }
    println!("files: bbq: {}", if clean { "all promises kept" } else { "promises BROKEN" });
    clean
}
