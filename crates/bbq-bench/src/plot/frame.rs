//! What every plot has: a title, a line below it, and a key to the colours.

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
/// Between two entries of the key.
const APART: f64 = 20.0;

/// What a plot says beside its figures.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    /// What one sees, and which way is better.
    pub(crate) title: String,
    /// Which rows are compared.
    pub(crate) subtitle: String,
}

impl Words {
    /// The width that they need.
    pub(super) fn width(&self) -> f64 {
        width(&self.title, TITLE).max(width(&self.subtitle, MUTED)) + 2.0 * MARGIN
    }

    pub(super) fn draw(&self, svg: &mut Svg) {
        svg.text(Point { x: MARGIN, y: 24.0 }, Anchor::Start, TITLE, &self.title);
        svg.text(Point { x: MARGIN, y: 43.0 }, Anchor::Start, MUTED, &self.subtitle);
    }
}

/// Whose the rows are, and what the thin lines at bars are.
pub(super) struct Key {
    pub(super) has_ours: bool,
    pub(super) has_others: bool,
    pub(super) has_whiskers: bool,
}

impl Key {
    /// In a line whose text stands at `y`.
    pub(super) fn draw(&self, svg: &mut Svg, y: f64) {
        let mut x = MARGIN;
        let entries = [(self.has_ours, Paint::Ours, "bbq"), (true, Paint::OtherPale, "others")];
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
