//! Text in columns: names to the left, figures to the right.

/// Cells in rows; the first row is the head.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// For a terminal or a file; every line ends with a line feed, and none with a blank.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width =
            |column: usize| self.rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max();
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            });
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// What stands behind the figures of a row, in a column without a head; empty if nothing does.
    pub(crate) fn remark<'a>(&self, row: &'a [String]) -> &'a str {
        let last = self.rows.first().map_or(0, Vec::len).saturating_sub(1);
        let has_remarks = last > 0 && self.rows[0][last].is_empty();
        row.get(last).filter(|_| has_remarks).map_or("", String::as_str)
    }

    /// For a page in Markdown.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut rows = self.rows.iter();
        let Some(head) = rows.next() else { return String::new() };
        let rule: Vec<String> =
            (0..head.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned()).collect();
        let mut text = line(head) + &line(&rule);
        rows.for_each(|row| text.push_str(&line(row)));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let cells = |row: &[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        Table {
            rows: vec![
                cells(&["row", "k/s", ""]),
                cells(&["a longer name", "7", ""]),
                cells(&["b", "1234", "noisy"]),
            ],
        }
    }

    #[test]
    fn names_stand_left_figures_right_and_no_line_ends_in_blanks() {
        let expected = "row             k/s\na longer name     7\nb              1234  noisy\n";
        assert_eq!(table().text(), expected);
    }

    #[test]
    fn markdown_has_a_rule_behind_the_head() {
        let expected =
            "| row | k/s |  |\n| --- | ---: | ---: |\n| a longer name | 7 |  |\n| b | 1234 | noisy |\n";
        assert_eq!(table().markdown(), expected);
    }

    #[test]
    fn a_remark_stands_behind_the_figures() {
        let table = table();
        assert_eq!(table.rows[1..].iter().map(|row| table.remark(row)).collect::<Vec<_>>(), ["", "noisy"]);
        let cells = |row: &[&str]| row.iter().map(|cell| (*cell).to_owned()).collect();
        let without = Table { rows: vec![cells(&["", "k/s"]), cells(&["b", "noisy"])] };
        assert_eq!(without.remark(&without.rows[1]), "");
        assert_eq!(Table { rows: vec![cells(&[""]), cells(&["b"])] }.remark(&cells(&["b"])), "");
    }

    #[test]
    fn an_empty_table_is_no_text() {
        assert_eq!(Table::default().text(), "");
        assert_eq!(Table::default().markdown(), "");
    }
}
