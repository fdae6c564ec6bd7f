//! The checked-in counts: `NAME = VALUE` lines, the subset of TOML that needs no library.

/// The instructions of each path, and the versions of the tools.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// `rustc --version`.
    pub(super) rustc: String,
    /// `valgrind --version`: the version decides which processor is simulated, and so which routines the libraries choose.
    pub(super) valgrind: String,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) path: String,
    /// Greater than 0.
    pub(super) count: u64,
}

const HEAD: &str = "\
# Instructions of the hot paths in main.rs beside this, by callgrind. Written by `cargo xtask instructions --update`.
# A commit that changes a count says why.
";

impl Table {
    /// Whether the counts of the two can be compared.
    pub(super) fn is_comparable(&self, other: &Table) -> bool {
        (&self.rustc, &self.valgrind) == (&other.rustc, &other.valgrind)
    }

    pub(super) fn of_text(text: &str) -> Result<Table, String> {
        let mut table = Table { rustc: String::new(), valgrind: String::new(), rows: Vec::new() };
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, value) =
                line.split_once(" = ").ok_or_else(|| format!("{line:?} is not NAME = VALUE"))?;
            match name {
                "rustc" => value.trim_matches('"').clone_into(&mut table.rustc),
                "valgrind" => value.trim_matches('"').clone_into(&mut table.valgrind),
                path => {
                    let count = value.parse().ok().filter(|count| *count > 0);
                    let count = count.ok_or_else(|| format!("{path} = {value:?} is no count"))?;
                    table.rows.push(Row { path: path.to_owned(), count });
                }
            }
        }
        if table.rows.is_empty() { Err("no path is in it".to_owned()) } else { Ok(table) }
    }

    pub(super) fn to_text(&self) -> String {
        let rows = self.rows.iter().map(|row| format!("{} = {}\n", row.path, row.count));
        let with = format!("rustc = \"{}\"\nvalgrind = \"{}\"\n", self.rustc, self.valgrind);
        [HEAD.to_owned(), with].into_iter().chain(rows).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rustc: &str) -> Table {
        let rows =
            vec![Row { path: "lines".to_owned(), count: 7 }, Row { path: "accept".to_owned(), count: 12 }];
        Table { rustc: rustc.to_owned(), valgrind: "valgrind-3".to_owned(), rows }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let written = table("rustc 1.95.0 (abc 2026-04-14)");
        assert_eq!(Table::of_text(&written.to_text()), Ok(written));
    }

    #[test]
    fn counts_of_another_compiler_are_not_comparable() {
        assert!(table("rustc 1.95.0").is_comparable(&table("rustc 1.95.0")));
        assert!(!table("rustc 1.95.0").is_comparable(&table("rustc 1.96.0")));
    }

    #[test]
    fn what_is_no_count_is_refused_by_name() {
        for text in ["lines = 0\n", "lines = -7\n", "lines = many\n", "lines 7\n", "", "# lines = 7\n"] {
            assert!(Table::of_text(text).is_err(), "{text:?}");
        }
        assert!(Table::of_text("lines = 0\n").is_err_and(|problem| problem.contains("lines")));
    }
}
