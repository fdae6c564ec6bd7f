//! What every plot has: a title, a line below it, a key to the colours, and the verdicts at the bottom.

use super::letters::width;
use crate::svg::{Anchor, Face, Paint, Point, Stroke, Svg};

/// Of a picture; it is wider only where texts need it.
pub(super) const WIDTH: f64 = 760.0;
/// Around everything.
pub(super) const MARGIN: f64 = 14.0;
/// Height of the title and the line below it.
pub(super) const HEAD: f64 = 56.0;
/// Height of the key.
pub(super) const KEY: f64 = 34.0;
pub(super) const TITLE: Face = Face { size: 15.0, is_bold: true, paint: Paint::Ink };
pub(super) const PLAIN: Face = Face { size: 12.0, is_bold: false, paint: Paint::Ink };
pub(super) const MUTED: Face = Face { paint: Paint::Muted, ..PLAIN };
pub(super) const STRONG: Face = Face { is_bold: true, ..PLAIN };
const SWATCH: f64 = 12.0;
/// Height of a line of a verdict.
const LINE: f64 = 17.0;
/// Of the figures and the name of an axis below a plot.
pub(super) const AXIS: f64 = 46.0;
/// What a figure at a horizontal axis needs, with room around it.
pub(super) const FIGURE_WIDTH: f64 = 60.0;
/// Between two entries of the key.
const APART: f64 = 20.0;

/// What a plot says beside its figures.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    /// What one sees, and which way is better.
    pub(crate) title: String,
    /// Which rows are compared.
    pub(crate) subtitle: String,
    /// What was decided.
    pub(crate) verdicts: Vec<String>,
}

impl Words {
    /// The width that they need.
    pub(super) fn width(&self) -> f64 {
        let words = self.verdicts.iter().flat_map(|verdict| verdict.split(' '));
        let longest = words.map(|word| width(word, PLAIN)).fold(0.0, f64::max);
        width(&self.title, TITLE).max(width(&self.subtitle, MUTED)).max(longest) + 2.0 * MARGIN
    }

    /// A picture of this width with the words; its plot and its key end at `bottom`.
    pub(super) fn picture(&self, full: f64, bottom: f64) -> Svg {
        let lines = self.verdict_lines(full - 2.0 * MARGIN);
        let below = if lines.is_empty() { 0.0 } else { LINE * lines.len() as f64 + MARGIN / 2.0 };
        let mut svg = Svg::new(full, bottom + below);
        svg.text(Point { x: MARGIN, y: 24.0 }, Anchor::Start, TITLE, &self.title);
        svg.text(Point { x: MARGIN, y: 43.0 }, Anchor::Start, MUTED, &self.subtitle);
        for (index, line) in lines.iter().enumerate() {
            let y = bottom + LINE * index as f64 + 10.0;
            svg.text(Point { x: MARGIN, y }, Anchor::Start, PLAIN, line);
        }
        svg
    }

    /// The verdicts, broken between words.
    fn verdict_lines(&self, wide: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for verdict in &self.verdicts {
            let mut line = String::new();
            for word in verdict.split(' ') {
                let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
                if !line.is_empty() && width(&longer, PLAIN) > wide {
                    lines.push(std::mem::replace(&mut line, word.to_owned()));
                } else {
                    line = longer;
                }
            }
            lines.push(line);
        }
        lines
    }
}

/// Whose the rows are, what the thin lines at bars are, and what rings are instead of dots.
pub(super) struct Key {
    pub(super) has_ours: bool,
    pub(super) has_others: bool,
    pub(super) has_whiskers: bool,
    /// Why the figures of rings may mislead; empty without rings.
    pub(super) remarks: String,
}

impl Key {
    /// The width that the remarks need behind the rest.
    pub(super) fn width(&self) -> f64 {
        let colours = ["bbq", "for comparison"].map(|name| SWATCH + 6.0 + width(name, MUTED) + APART);
        2.0 * MARGIN + colours.iter().sum::<f64>() + 14.0 + width(&self.remarks, MUTED)
    }

    /// In a line whose text stands at `y`.
    pub(super) fn draw(&self, svg: &mut Svg, y: f64) {
        let mut x = MARGIN;
        let entries = [(self.has_ours, Paint::Ours, "bbq"), (true, Paint::OtherPale, "for comparison")];
        // Where all are ours, colours say nothing.
        let entries = entries.into_iter().filter(|(is_there, ..)| *is_there && self.has_others);
        for (_, paint, name) in entries {
            svg.rectangle(Point { x, y: y - 10.0 }, Point { x: x + SWATCH, y: y + 2.0 }, paint);
            x += SWATCH + 6.0;
            svg.text(Point { x, y }, Anchor::Start, MUTED, name);
            x += width(name, MUTED) + APART;
        }
        if self.has_whiskers {
            whisker(svg, (x, x + 24.0), y - 4.0);
            let text = "least to most of the rounds; the bar is the median";
            svg.text(Point { x: x + 30.0, y }, Anchor::Start, MUTED, text);
        }
        if !self.remarks.is_empty() {
            svg.ring(Point { x: x + 4.0, y: y - 4.0 }, Paint::Muted);
            svg.text(Point { x: x + 14.0, y }, Anchor::Start, MUTED, &self.remarks);
        }
    }
}

/// A thin line with ends.
pub(super) fn whisker(svg: &mut Svg, (from, to): (f64, f64), y: f64) {
    let stroke = Stroke { width: 1.0, dashes: "", paint: Paint::Ink };
    svg.line(&[Point { x: from, y }, Point { x: to, y }], stroke);
    for x in [from, to] {
        svg.line(&[Point { x, y: y - 4.0 }, Point { x, y: y + 4.0 }], stroke);
    }
}
