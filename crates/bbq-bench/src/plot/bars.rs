//! A bar for each row, from zero.

use super::frame::{HEAD, KEY, Key, MARGIN, MUTED, PLAIN, STRONG, WIDTH, Words, whisker};
use super::letters::width;
use crate::spread::Spread;
use crate::svg::{Anchor, Face, Paint, Point, Svg};
use crate::unit::Unit;

const LINE_HEIGHT: f64 = 22.0;
/// Between a name and its bar, and between a bar and its figure.
const GAP: f64 = 8.0;
/// Length of the longest bar with its whisker, at least.
const BARS_MIN: f64 = 220.0;
/// A figure above zero is seen.
const BAR_MIN: f64 = 1.5;

/// One bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) spread: Spread,
    pub(crate) is_ours: bool,
}

/// Bars, with whiskers from the least to the most, and their figures.
///
/// The picture is as wide as the longest name, the longest figure and [`BARS_MIN`] need.
pub(crate) fn bars(words: &Words, unit: Unit, bars: &[Bar]) -> String {
    let key = Key {
        has_ours: bars.iter().any(|bar| bar.is_ours),
        has_others: bars.iter().any(|bar| !bar.is_ours),
        has_whiskers: bars.iter().any(|bar| bar.spread.least < bar.spread.most),
    };
    // A name stands out only beside others.
    let face = |bar: &Bar| match (bar.is_ours, key.has_others) {
        (true, true) => STRONG,
        (true, false) => PLAIN,
        (false, _) => MUTED,
    };
    let names = MARGIN + GAP + widest(bars.iter().map(|bar| width(&bar.name, face(bar))));
    let figures: Vec<String> = bars.iter().map(|bar| unit.show_spread(&bar.spread)).collect();
    let figure = |bar: &Bar, text: &str| GAP + width(text, figure_face(bar)) + MARGIN;
    let figures_width = widest(bars.iter().zip(&figures).map(|(bar, text)| figure(bar, text)));
    let full = WIDTH.max(names + BARS_MIN + figures_width).max(words.width()).ceil();
    // Each figure has its place behind its own whisker.
    let scales = bars.iter().zip(&figures).map(|(bar, text)| {
        (full - names - figure(bar, text)) / bar.spread.most.max(bar.spread.median).max(f64::MIN_POSITIVE)
    });
    let scale = scales.fold(f64::MAX, f64::min);
    let bottom = HEAD + LINE_HEIGHT * bars.len() as f64;
    let mut svg = Svg::new(full, bottom + KEY);
    words.draw(&mut svg);
    for (index, (bar, text)) in bars.iter().zip(&figures).enumerate() {
        let top = HEAD + LINE_HEIGHT * index as f64;
        let middle = top + LINE_HEIGHT / 2.0;
        let place = |value: f64| names + value.max(0.0) * scale;
        svg.text(Point { x: names - GAP, y: middle + 4.0 }, Anchor::End, face(bar), &bar.name);
        let paint = if bar.is_ours { Paint::Ours } else { Paint::OtherPale };
        let end = if bar.spread.median > 0.0 { place(bar.spread.median).max(names + BAR_MIN) } else { names };
        svg.rectangle(Point { x: names, y: top + 3.0 }, Point { x: end, y: top + LINE_HEIGHT - 3.0 }, paint);
        if bar.spread.least < bar.spread.most {
            whisker(&mut svg, (place(bar.spread.least), place(bar.spread.most)), middle);
        }
        let behind = end.max(place(bar.spread.most)) + GAP;
        svg.text(Point { x: behind, y: middle + 4.0 }, Anchor::Start, figure_face(bar), text);
    }
    key.draw(&mut svg, bottom + 20.0);
    svg.finish()
}

fn figure_face(bar: &Bar) -> Face {
    if bar.is_ours { PLAIN } else { MUTED }
}

fn widest(widths: impl Iterator<Item = f64>) -> f64 {
    widths.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::fits::assert_fits;
    use crate::svg::assert_well_formed;

    fn words() -> Words {
        Words { title: "rate & more".to_owned(), subtitle: "a < b".to_owned() }
    }

    fn bar(name: &str, median: f64, is_ours: bool) -> Bar {
        Bar { name: name.to_owned(), spread: Spread { median, least: median * 0.9, most: median }, is_ours }
    }

    /// Widths of the bars of ours.
    fn lengths(text: &str) -> Vec<f64> {
        let bars = text.lines().filter(|line| line.starts_with("<rect class=\"ours\""));
        bars.map(|line| line.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
            .collect()
    }

    #[test]
    fn bars_are_as_long_as_their_figures() {
        let text = bars(&words(), Unit::PerSecond, &[bar("a<b", 50.0, true), bar("c", 100.0, true)]);
        assert_well_formed(&text);
        assert_fits(&text);
        let lengths = lengths(&text);
        assert!((lengths[1] - 2.0 * lengths[0]).abs() < 0.2 && lengths[1] >= BARS_MIN, "{lengths:?}");
        assert_well_formed(&bars(&words(), Unit::PerSecond, &[]));
    }

    #[test]
    fn nothing_is_cut_off_whatever_the_names_and_figures() {
        let spread = |median, least, most| Spread { median, least, most };
        let spreads = [
            spread(1_001_914.0, 996_671.0, 1_001_914.0),
            spread(3_478.0, 523.0, 1_000_342.0),
            spread(0.0, 0.0, 0.0),
            spread(-5.0, -7.0, -1.0),
            spread(1e12, 0.001, 1e15),
        ];
        for name in ["", "a", "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW"] {
            for rows in (0..=spreads.len()).map(|count| &spreads[..count]) {
                let rows: Vec<Bar> = rows
                    .iter()
                    .enumerate()
                    .map(|(row, spread)| Bar {
                        name: name.to_owned(),
                        spread: *spread,
                        is_ours: row % 2 == 0,
                    })
                    .collect();
                let text = bars(&words(), Unit::Microseconds, &rows);
                assert_well_formed(&text);
                assert_fits(&text);
            }
        }
    }
}
