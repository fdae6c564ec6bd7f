//! The plots of docs/results are what the tables of the pages give. If this fails, readers see other figures than the tables have, or a
//! plot that is cut off.
//!
//! `BBQ_WRITE_PLOTS=1 cargo test --release -p bbq-bench --lib redrawn` draws them anew; nothing is measured.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cell;
use crate::picture::Picture;
use crate::plot::fits::assert_fits;
use crate::svg::assert_well_formed;
use crate::table::Table;
use crate::verdict::ALL_SECTIONS;

/// A section of a page that has a plot.
struct Drawn {
    /// Page and title, for messages.
    place: String,
    title: String,
    table: Table,
    /// Of the plot, below the page's directory.
    path: String,
    picture: Picture,
    /// The page below the sections: its conclusions and warnings.
    remarks: String,
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results")
}

fn names(directory: &Path, extension: &str) -> BTreeSet<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

/// The sections of a page that have plots.
fn drawn(page: &Path) -> Vec<Drawn> {
    let text = fs::read_to_string(page).unwrap();
    let mut drawn = Vec::new();
    for section in text.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap().to_owned();
        let place = format!("{}: {title}", page.display());
        let Some(path) = section.lines().find_map(|line| line.strip_prefix("![")?.strip_suffix(".svg)"))
        else {
            continue;
        };
        let path = format!("{}.svg", path.split_once("](").unwrap().1);
        let picture = section.lines().find_map(Picture::read).unwrap_or_else(|| {
            panic!(
                "{place}: has a plot but no comment that says how it is drawn; `bbq bench --out` writes one"
            )
        });
        let picture = picture.unwrap_or_else(|error| panic!("{place}: {error}"));
        let remarks = text.lines().filter(|line| line.starts_with("- ")).collect::<Vec<_>>().join("\n");
        drawn.push(Drawn { table: table(section), place, title, path, picture, remarks });
    }
    drawn
}

/// The first one, without the rule below its head.
fn table(section: &str) -> Table {
    let lines =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| line[2..line.len() - 2].split(" | ").map(str::to_owned).collect();
    let mut rows: Vec<Vec<String>> = lines.map(cells).collect();
    rows.remove(1);
    Table { rows }
}

#[test]
fn plots_are_what_their_tables_give_and_have_all_of_their_texts() {
    let writes = std::env::var_os("BBQ_WRITE_PLOTS").is_some();
    let mut paths = BTreeSet::new();
    for Drawn { place, title, table, path, picture, remarks } in
        names(&results(), "md").iter().flat_map(|page| drawn(page))
    {
        for metric in picture.columns() {
            let head = &table.rows[0];
            let column = head.iter().position(|cell| cell == metric.label());
            let column =
                column.unwrap_or_else(|| panic!("{place}: no column {:?} in {head:?}", metric.label()));
            for row in &table.rows[1..] {
                let text = &row[column];
                assert!(text == cell::NONE || cell::read(text).is_some(), "{place}: not a figure: {text:?}");
            }
        }
        for name in picture.others.iter().chain(&picture.baseline) {
            let is_there = table.rows.iter().any(|row| Picture::is_name_of(name, &row[0]));
            assert!(is_there, "{place}: no row {name:?}");
        }
        for verdict in &picture.verdicts {
            let said = verdict.strip_prefix(ALL_SECTIONS).unwrap_or(verdict);
            assert!(remarks.contains(said), "{place}: the page does not say {said:?}");
        }
        let plot = picture.draw(&title, &table);
        assert_well_formed(&plot);
        assert_fits(&plot);
        let path = results().join(path);
        if writes {
            fs::write(&path, &plot).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap();
        assert!(
            committed == plot,
            "{}: not what its table gives; draw it anew: BBQ_WRITE_PLOTS=1 cargo test --release -p bbq-bench --lib redrawn",
            path.display()
        );
        paths.insert(path);
    }
    assert_eq!(names(&results().join("plots"), "svg"), paths, "plots and pages belong together");
}
