//! If this fails, docs/operations/metrics.md has another list of metrics than /metrics.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::prometheus::get;
use crate::support::Setup;

const PAGE: &str = "docs/operations/metrics.md";
/// If this variable is set, the table of the page is written instead of compared.
const WRITE: &str = "BBQ_WRITE_TABLES";

/// A row for each family, from its lines TYPE and HELP.
fn table(metrics: &str) -> String {
    let mut table = "| metric | type | meaning |\n|---|---|---|\n".to_owned();
    let mut kind = "";
    for line in metrics.lines() {
        if let Some(of_type) = line.strip_prefix("# TYPE ") {
            kind = of_type.split_once(' ').expect("a type").1;
        } else if let Some(of_help) = line.strip_prefix("# HELP ") {
            let (name, help) = of_help.split_once(' ').expect("a meaning");
            // Writing to a String cannot fail.
            let _infallible = writeln!(table, "| `{name}` | {kind} | {help} |");
        }
    }
    table
}

#[test]
fn the_page_has_every_metric() {
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}"]);
    let _server = setup.start();
    let (code, metrics) = get(&setup.admin(), "/metrics").expect("it listens");
    assert_eq!(code, 200, "{metrics}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = fs::read_to_string(&path).expect(PAGE);
    let (before, rest) = page.split_once("<!-- metrics -->\n").expect("a table");
    let (present, behind) = rest.split_once("<!-- end -->").expect("its end");
    let table = table(&metrics);
    assert!(table.lines().count() > 50, "{table}");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, format!("{before}<!-- metrics -->\n{table}<!-- end -->{behind}")).expect("a page");
        return;
    }
    assert!(
        present == table,
        "{PAGE} has another table; make it anew with\n    {WRITE}=1 cargo test --release -p {} --test admin metrics_page\n{table}",
        env!("CARGO_PKG_NAME")
    );
}
