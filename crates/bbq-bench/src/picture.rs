//! How a table is drawn: which column, whose rows stand out, and what the plot says.
//!
//! A page has this in a comment below each plot, so that the plot can be drawn anew from the page alone.
//!
//! Invariant: a plot shows figures of its table, and none besides.

use serde::{Deserialize, Serialize};

use crate::cell;
use crate::metric::{Better, Metric};
use crate::plot::{Axis, Bar, Curve, Dot, Words, bars, curves};
use crate::section::{Drawing, Section};
use crate::spread::Spread;
use crate::table::Table;

/// What a plot needs besides a table and its title.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Picture {
    pub(crate) drawing: Drawing,
    /// What an operation is, such as `message`.
    pub(crate) operation: String,
    /// The rows, or the lines, that are not ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) others: Vec<String>,
    /// The row that ratios are to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) baseline: Option<String>,
    /// What was decided: a mark that was met or missed, or what to choose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) verdicts: Vec<String>,
}

/// Around the JSON of a picture, on a line of its own that readers of the page do not see.
const COMMENT: (&str, &str) = ("<!-- plot ", " -->");

impl Picture {
    pub(crate) fn of(section: &Section, verdicts: Vec<String>) -> Picture {
        let mut others: Vec<String> = Vec::new();
        for row in section.rows.iter().filter(|row| !row.is_ours) {
            let name = match section.drawing {
                Drawing::Bars(_) => row.name.as_str(),
                Drawing::Curve { .. } => Picture::line_of(&row.name),
            };
            if !others.iter().any(|other| other == name) {
                others.push(name.to_owned());
            }
        }
        Picture {
            drawing: section.drawing,
            operation: section.operation.to_owned(),
            others,
            baseline: section.baseline.map(|(row, _)| section.rows[row].name.clone()),
            verdicts,
        }
    }

    /// For a page.
    pub(crate) fn comment(&self) -> String {
        // There is nothing in it that JSON does not have. No name ends a comment.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{}{}{}", COMMENT.0, json.replace("-->", "--\\u003e"), COMMENT.1)
    }

    /// An SVG document of this table, whose rows are what the title says.
    pub(crate) fn draw(&self, title: &str, table: &Table) -> String {
        match self.drawing {
            Drawing::Bars(metric) => {
                let rows = figures(table, metric);
                let bar = |Figure { name, spread, remark }: Figure<'_>| {
                    let (name, is_ours) = (self.shown(name, name), self.is_ours(name));
                    Some(Bar { name, spread: spread?, is_ours, remark: remark.to_owned() })
                };
                let drawn: Vec<Bar> = rows.filter_map(bar).collect();
                bars(&self.words(metric, None, title), metric.unit(), &drawn)
            }
            Drawing::Curve { x, y } => {
                let axis = Axis { label: x.title(&self.operation), unit: x.unit() };
                curves(&self.words(y, Some(x), title), &axis, y.unit(), &self.lines(table, x, y))
            }
        }
    }

    fn words(&self, y: Metric, x: Option<Metric>, subtitle: &str) -> Words {
        let better = match (y.better(), x.map(Metric::better)) {
            (Better::Lower, Some(Better::Higher)) => " (lower and further right is better)",
            (Better::Lower, _) => " (lower is better)",
            (Better::Higher, _) => " (higher is better)",
            (Better::None, _) => "",
        };
        let verdicts = self.verdicts.clone();
        Words { title: y.title(&self.operation) + better, subtitle: subtitle.to_owned(), verdicts }
    }

    /// The line that a row is a point of: its name up to a comma.
    fn line_of(row: &str) -> &str {
        row.split(", ").next().unwrap_or_default()
    }

    /// Of a row, or of a line.
    fn is_ours(&self, name: &str) -> bool {
        !self.others.iter().any(|other| other == name)
    }

    /// The name of a row, or of the line that it is on.
    fn shown(&self, row: &str, name: &str) -> String {
        if self.baseline.as_deref() == Some(row) { format!("{name} (baseline)") } else { name.to_owned() }
    }

    /// Rows whose names are the same up to a comma are points of one line.
    fn lines(&self, table: &Table, x: Metric, y: Metric) -> Vec<Curve> {
        let mut lines: Vec<(&str, Curve)> = Vec::new();
        for (x, y) in figures(table, x).zip(figures(table, y)) {
            let (row, remark) = (x.name, x.remark);
            let (Some(x), Some(y)) = (x.spread, y.spread) else { continue };
            let name = Picture::line_of(row);
            if lines.last().is_none_or(|(last, _)| *last != name) {
                let (shown, is_ours) = (self.shown(row, name), self.is_ours(name));
                lines.push((name, Curve { name: shown, is_ours, points: Vec::new() }));
            }
            if let Some((_, line)) = lines.last_mut() {
                line.points.push(Dot { x: x.median, y: y.median, remark: remark.to_owned() });
            }
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

/// What a table says in a row and a column.
struct Figure<'a> {
    name: &'a str,
    /// `None` where the table has no figure, or no such column.
    spread: Option<Spread>,
    /// Why the figures of the row may mislead; mostly empty.
    remark: &'a str,
}

/// Of a column, from above.
fn figures(table: &Table, metric: Metric) -> impl Iterator<Item = Figure<'_>> {
    let column = table.rows.first().and_then(|head| head.iter().position(|cell| cell == metric.label()));
    let scaled = move |Spread { median, least, most }| {
        let unit = metric.label_unit();
        Spread { median: median * unit, least: least * unit, most: most * unit }
    };
    table.rows.iter().skip(1).filter_map(move |row| {
        let spread = column.and_then(|column| cell::read(row.get(column)?));
        Some(Figure { name: row.first()?, spread: spread.map(scaled), remark: table.remark(row) })
    })
}

#[cfg(test)]
impl Picture {
    /// What a line of a page says; `None` for other lines.
    pub(crate) fn read(line: &str) -> Option<serde_json::Result<Picture>> {
        let json = line.strip_prefix(COMMENT.0)?.strip_suffix(COMMENT.1)?;
        Some(serde_json::from_str(json))
    }

    /// Whether a row, or the line that it is a point of, has this name.
    pub(crate) fn is_name_of(name: &str, row: &str) -> bool {
        row == name || Picture::line_of(row) == name
    }

    /// The columns that it draws.
    pub(crate) fn columns(&self) -> Vec<Metric> {
        match self.drawing {
            Drawing::Bars(metric) => vec![metric],
            Drawing::Curve { x, y } => vec![x, y],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(drawing: Drawing) -> Picture {
        Picture {
            drawing,
            operation: "message".to_owned(),
            others: vec!["nginx --> x, 1".to_owned(), "nginx --> x".to_owned()],
            baseline: Some("nginx --> x, 1".to_owned()),
            verdicts: vec!["bbq: at most 2 times nginx --> x: met".to_owned()],
        }
    }

    fn table() -> Table {
        let rows = [
            ["", "k/s", "server CPU us", ""],
            ["bbq, 1", "1.50 (1.00-2.00)", "0.174", "noisy"],
            ["bbq, 2", "3.00", "-", ""],
            ["bbq, 3", "4.00", "0.150", ""],
            ["nginx --> x, 1", "1.00", "0.300", ""],
        ];
        Table { rows: rows.iter().map(|row| row.map(str::to_owned).into()).collect() }
    }

    #[test]
    fn a_comment_is_read_as_it_was_written() {
        let picture = picture(Drawing::Curve { x: Metric::Rate, y: Metric::LatencyP999 });
        let comment = picture.comment();
        assert_eq!(comment.matches("-->").count(), 1, "{comment}");
        assert_eq!(Picture::read(&comment).unwrap().unwrap(), picture);
        assert!(Picture::read("![a](b)").is_none());
    }

    #[test]
    fn a_bar_has_the_figure_of_its_cell_in_units_for_people() {
        let text = picture(Drawing::Bars(Metric::Rate)).draw("rows", &table());
        assert!(text.contains(">Messages a second (higher is better)<"), "{text}");
        assert!(text.contains(">1.5 k/s (1-2), noisy<") && text.contains(">3 k/s<"), "{text}");
        assert!(text.contains(">nginx --&gt; x, 1 (baseline)<"), "{text}");
        assert!(!text.contains(">bbq, 1 (baseline)<"), "{text}");
        assert!(text.contains(">bbq: at most 2 times nginx --&gt; x: met<"), "{text}");
        // One is not ours, and the key has one of each.
        let bars = |class: &str| text.matches(&format!("<rect class=\"{class}\"")).count();
        assert_eq!((bars("ours"), bars("other-pale")), (4, 2), "{text}");
        let without = picture(Drawing::Bars(Metric::ServerCpu)).draw("rows", &table());
        assert_eq!(without.matches("<rect class=\"ours\"").count(), 3, "no bar without a figure: {without}");
    }

    #[test]
    fn rows_of_one_name_are_points_of_a_line() {
        let picture = picture(Drawing::Curve { x: Metric::Rate, y: Metric::ServerCpu });
        let lines = picture.lines(&table(), Metric::Rate, Metric::ServerCpu);
        let said: Vec<_> =
            lines.iter().map(|line| (line.name.as_str(), line.is_ours, line.points.clone())).collect();
        let dot = |x, y, remark: &str| Dot { x, y, remark: remark.to_owned() };
        let ours = vec![dot(1500.0, 0.174, "noisy"), dot(4000.0, 0.150, "")];
        let others = vec![dot(1000.0, 0.3, "")];
        assert_eq!(said, [("bbq", true, ours), ("nginx --> x (baseline)", false, others)]);
        let text = picture.draw("rows", &table());
        assert!(text.contains(">noisy<"), "{text}");
        assert!(text.contains(">Messages a second (both axes are logarithmic)<"), "{text}");
    }
}
