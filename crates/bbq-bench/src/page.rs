//! The report as one HTML page, which contains its tables and plots.

use crate::svg::escaped;
use crate::table::Table;

/// Plots have a style of their own for dark pages.
const STYLE: &str = ":root{color-scheme:light dark}body{font:15px/1.45 sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0;font-size:13px}th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}div{overflow-x:auto}p.machine{color:#555}\
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th,td{border-color:#2b323b}p.machine{color:#9aa4af}}";

/// The content of the page.
pub(crate) struct Page<'a> {
    pub(crate) title: String,
    pub(crate) heading: String,
    pub(crate) remarks: Vec<String>,
    pub(crate) sections: Vec<Part<'a>>,
}

/// A table with its plot.
pub(crate) struct Part<'a> {
    pub(crate) title: &'a str,
    pub(crate) about: &'a str,
    pub(crate) table: &'a Table,
    /// An SVG element.
    pub(crate) plot: &'a str,
}

impl Page<'_> {
    pub(crate) fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut body =
            format!("<h1>{title}</h1>\n<p class=\"machine\">{}</p>\n", escaped_lines(&self.heading));
        let remarks: Vec<String> =
            self.remarks.iter().map(|remark| format!("<li>{}</li>", escaped(remark))).collect();
        if !remarks.is_empty() {
            body += &format!("<ul>{}</ul>\n", remarks.join("\n"));
        }
        for part in &self.sections {
            body += &format!("<h2>{}</h2>\n<p>{}</p>\n", escaped(part.title), escaped_lines(part.about));
            body += &format!("<div>{}</div>\n<div>{}</div>\n", table(part.table), part.plot);
        }
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>{title}</title><style>{STYLE}</style></head>\n\
             <body>\n{body}</body></html>\n"
        )
    }
}

fn table(table: &Table) -> String {
    let mut html = "<table>\n".to_owned();
    for (index, row) in table.rows.iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        let cells: String = row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        html += &format!("<tr>{cells}</tr>\n");
    }
    html + "</table>"
}

fn escaped_lines(text: &str) -> String {
    text.trim_end().lines().map(escaped).collect::<Vec<_>>().join("<br/>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_escaped() {
        let cells = |text: &str| vec![text.to_owned()];
        let html = table(&Table { rows: vec![cells("a & b"), cells("<script>")] });
        crate::svg::assert_well_formed(&html);
        assert!(html.contains("<th>a &amp; b</th>") && html.contains("<td>&lt;script&gt;</td>"), "{html}");
    }
}
