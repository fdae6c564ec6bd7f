//! Instruction counts of the hot paths, by callgrind. Unlike times, the counts are the same in every run, even on a busy
//! machine. So a change that adds a few per cent is noticed at once.
//!
//! The table of expected counts names its compiler and its valgrind. With other versions the counts are shown but not
//! compared, as generated code differs by more than a few per cent.

mod table;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::needs;
use crate::step::{self, cargo};
use table::{Row, Table};

const TABLE: &str = "crates/bbq-server/examples/instructions/counts.toml";
const PROGRAM: &str = "examples/instructions";
/// More growth than this is a failure. Different copy routines of the C library make less.
const GROWTH_MAX_PER_CENT: f64 = 3.0;
/// The example's function in which callgrind counts.
const COUNTED: &str = "instructions::counted";

/// Builds the program, counts every path of the table, and compares.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    build()?;
    check_as_tested(root)
}

/// The same with the program that the tests have built.
pub(crate) fn check_as_tested(root: &Path) -> Result<(), String> {
    let expected = read_table(root)?;
    let found = count(root, &expected)?;
    let is_comparable = expected.is_comparable(&found);
    let mut grown = Vec::new();
    for (expected, found) in expected.rows.iter().zip(&found.rows) {
        let growth = (found.count as f64 / expected.count as f64 - 1.0) * 100.0;
        eprintln!("xtask: {:<14} {:>9} instructions, {growth:+.1} %", found.path, found.count);
        if growth > GROWTH_MAX_PER_CENT {
            grown.push(format!("{} by {growth:.1} %", found.path));
        }
        if is_comparable && growth < -GROWTH_MAX_PER_CENT {
            eprintln!(
                "xtask: {} became cheaper: write the new count down with `cargo xtask instructions --update`",
                found.path
            );
        }
    }
    if !is_comparable {
        eprintln!(
            "xtask: instruction counts are NOT COMPARED: {TABLE} was made with {} and {}, and here are {} and {}",
            expected.rustc, expected.valgrind, found.rustc, found.valgrind
        );
        return Ok(());
    }
    if grown.is_empty() {
        return Ok(());
    }
    Err(format!(
        "more instructions than before: {}; if the change is worth it, run `cargo xtask instructions --update`, commit \
         {TABLE} with the change, and say why in the commit",
        grown.join(", ")
    ))
}

/// Rewrites the table with the present counts.
pub(crate) fn update(root: &Path) -> Result<(), String> {
    build()?;
    let found = count(root, &read_table(root)?)?;
    fs::write(root.join(TABLE), found.to_text()).map_err(|error| format!("cannot write {TABLE}: {error}"))
}

fn build() -> Result<(), String> {
    cargo(&[], &["build", "--release", "--locked", "--package", "bbq-server", "--example", "instructions"])
}

fn read_table(root: &Path) -> Result<Table, String> {
    let text =
        fs::read_to_string(root.join(TABLE)).map_err(|error| format!("cannot read {TABLE}: {error}"))?;
    Table::of_text(&text).map_err(|problem| format!("{TABLE}: {problem}"))
}

/// Counts the paths of `table` on this machine.
fn count(root: &Path, table: &Table) -> Result<Table, String> {
    needs::provide()?;
    let out = root.join("target");
    fs::create_dir_all(&out).map_err(|error| format!("cannot create {}: {error}", out.display()))?;
    let (rustc, valgrind) = (first_line("rustc", "--version")?, first_line("valgrind", "--version")?);
    let mut rows = Vec::new();
    for row in &table.rows {
        rows.push(Row { path: row.path.clone(), count: count_path(root, &row.path)? });
    }
    Ok(Table { rustc, valgrind, rows })
}

fn count_path(root: &Path, path: &str) -> Result<u64, String> {
    let out = root.join(format!("target/instructions-{path}.callgrind"));
    // Generic code has several functions of that name, and each of them toggles the counting.
    let counts = format!("--toggle-collect=*{COUNTED}*");
    let into = format!("--callgrind-out-file={}", out.display());
    step::run(
        &[],
        "valgrind",
        &["--quiet", "--tool=callgrind", &counts, &into, &step::built(PROGRAM)?, path],
    )?;
    let text = fs::read_to_string(&out).map_err(|error| format!("cannot read {}: {error}", out.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.parse().ok());
    total.filter(|total| *total > 0).ok_or_else(|| format!("{}: nothing was counted", out.display()))
}

fn first_line(program: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(program).arg(argument).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
