//! The findings in as many lines as there are: first a line of each, then what to do, then the rest of the texts.

use bbq_server::status::Finding;
use ratatui::text::Line;

use super::look::{Look, mark};
use super::text::{cut, safe, wrap};
use crate::status_table::since;

/// In front of a line: the mark.
const MARGIN: usize = 2;

struct Wrapped<'a> {
    finding: &'a Finding,
    text: Vec<String>,
    remedy: Vec<String>,
    /// Lines of each that are shown.
    shown: (usize, usize),
}

/// How many lines the findings need to be complete.
pub(super) fn height(findings: &[Finding], width: usize) -> usize {
    wrapped(findings, width).iter().map(|wrapped| wrapped.text.len() + wrapped.remedy.len()).sum()
}

fn wrapped(findings: &[Finding], width: usize) -> Vec<Wrapped<'_>> {
    let columns = width.saturating_sub(MARGIN);
    let of = |finding| {
        let Finding { text, effect, remedy, .. }: &Finding = finding;
        let effect = if effect.is_empty() { String::new() } else { format!("; {effect}") };
        let text = format!("{text}{}{effect}", since(finding).unwrap_or_default());
        let [text, remedy] = [&text, remedy].map(|text| wrap(&safe(text), columns));
        Wrapped { finding, text, remedy, shown: (0, 0) }
    };
    findings.iter().map(of).collect()
}

/// At most `rows` lines, of the findings from `first` on.
pub(super) fn lines(
    findings: &[Finding],
    first: usize,
    rows: usize,
    width: usize,
    look: &Look,
) -> Vec<Line<'static>> {
    let mut all = wrapped(findings.get(first..).unwrap_or_default(), width);
    let mut left = rows;
    let mut hidden = 0;
    if all.len() > rows {
        // The last line says how many there are.
        left = rows.saturating_sub(1);
        hidden = all.len() - left;
        all.truncate(left);
    }
    let longest = all.iter().map(|wrapped| wrapped.text.len().max(wrapped.remedy.len())).max().unwrap_or(0);
    for round in 0..longest {
        for wrapped in &mut all {
            if left > 0 && round < wrapped.text.len() {
                wrapped.shown.0 += 1;
                left -= 1;
            }
        }
        for wrapped in &mut all {
            if left > 0 && round < wrapped.remedy.len() {
                wrapped.shown.1 += 1;
                left -= 1;
            }
        }
    }
    let mut lines: Vec<Line<'static>> = all.iter().flat_map(|wrapped| of_one(wrapped, width, look)).collect();
    if hidden > 0 && rows > 0 {
        lines.push(Line::from(cut(&format!("  and {hidden} more: Tab to them"), width)));
    }
    lines
}

fn of_one(wrapped: &Wrapped<'_>, width: usize, look: &Look) -> Vec<Line<'static>> {
    let level = Some(wrapped.finding.level);
    let columns = width.saturating_sub(MARGIN);
    let shown = |lines: &[String], shown: usize| {
        let mut lines: Vec<String> = lines.iter().take(shown + 1).cloned().collect();
        if lines.len() > shown {
            let next = lines.pop().unwrap_or_default();
            if let Some(last) = lines.last_mut() {
                *last = cut(&format!("{last} {next}"), columns);
            }
        }
        lines
    };
    let (texts, remedies) = (shown(&wrapped.text, wrapped.shown.0), shown(&wrapped.remedy, wrapped.shown.1));
    let text = texts.into_iter().enumerate().map(|(place, text)| {
        let mark = if place == 0 { mark(level) } else { mark(None) };
        Line::styled(format!("{mark}{text}"), look.level(level))
    });
    text.chain(remedies.into_iter().map(|remedy| Line::from(format!("{}{remedy}", mark(None))))).collect()
}
