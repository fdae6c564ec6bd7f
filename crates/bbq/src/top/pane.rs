//! A table of the screen: its columns, its rows, and how they are filtered and sorted.

use bbq_server::status::Level;

/// A table.
pub(super) struct Pane {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Row>,
}

/// The first one says what the rows are, and is always shown.
pub(super) struct Column {
    pub(super) label: &'static str,
    /// Text stands on the left, numbers on the right.
    pub(super) is_text: bool,
}

pub(super) const fn text(label: &'static str) -> Column {
    Column { label, is_text: true }
}

pub(super) const fn number(label: &'static str) -> Column {
    Column { label, is_text: false }
}

pub(super) struct Row {
    /// As many as there are columns.
    pub(super) cells: Vec<Cell>,
    pub(super) level: Option<Level>,
}

/// A value, as it is shown and as it is sorted.
pub(super) struct Cell {
    pub(super) text: String,
    value: Option<f64>,
}

impl Cell {
    pub(super) fn text(text: impl Into<String>) -> Cell {
        Cell { text: text.into(), value: None }
    }

    pub(super) fn number(value: Option<f64>, text: String) -> Cell {
        Cell { text, value }
    }
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) column: usize,
    pub(super) is_descending: bool,
}

impl Pane {
    /// The rows that contain `filter`, in the order of `sort`; without one, as configured.
    pub(super) fn shown(&self, filter: &str, sort: Option<Sort>) -> Vec<&Row> {
        let filter = filter.to_lowercase();
        let contains = |row: &&Row| row.cells.iter().any(|cell| cell.text.to_lowercase().contains(&filter));
        let mut rows: Vec<&Row> = self.rows.iter().filter(contains).collect();
        if let Some(sort) = sort.filter(|sort| sort.column < self.columns.len()) {
            // Rows without a number are the smallest.
            let value = |row: &Row| row.cells[sort.column].value.unwrap_or(f64::NEG_INFINITY);
            rows.sort_by(|a, b| {
                let by_text = || a.cells[sort.column].text.cmp(&b.cells[sort.column].text);
                let order = value(a).total_cmp(&value(b)).then_with(by_text);
                if sort.is_descending { order.reverse() } else { order }
            });
        }
        rows
    }
}
