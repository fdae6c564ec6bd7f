//! A bar for each row: from zero, or over a logarithmic axis where one bar would leave nothing to see of another.

use super::axis::Logarithmic;
use super::frame::{AXIS, FIGURE_WIDTH, HEAD, KEY, Key, MARGIN, MUTED, PLAIN, STRONG, WIDTH, Words, whisker};
use super::letters::width;
use crate::spread::Spread;
use crate::svg::{Anchor, Face, Paint, Point, Stroke, Svg};
use crate::unit::Unit;

const LINE_HEIGHT: f64 = 22.0;
/// Between a name and its bar, and between a bar and its figure.
const GAP: f64 = 8.0;
/// Length of the longest bar with its whisker, at least.
const BARS_MIN: f64 = 220.0;
/// A figure above zero is seen.
const BAR_MIN: f64 = 1.5;
/// From this ratio of the longest bar to the shortest one on, the axis is logarithmic: the shortest would be two pixels long.
const RATIO_MAX: f64 = 100.0;

/// One bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) spread: Spread,
    pub(crate) is_ours: bool,
    /// Why the figure may mislead; mostly empty.
    pub(crate) remark: String,
}

impl Bar {
    /// What stands behind it.
    fn figure(&self, unit: Unit) -> String {
        let figure = unit.show_spread(&self.spread);
        if self.remark.is_empty() { figure } else { format!("{figure}, {}", self.remark) }
    }

    fn figure_face(&self) -> Face {
        if self.is_ours { PLAIN } else { MUTED }
    }
}

/// Where values are.
enum Scale {
    /// So many pixels for one.
    Linear(f64),
    /// Over so many pixels.
    Logarithmic(Logarithmic, f64),
}

impl Scale {
    /// In pixels from the left edge of the bars.
    fn place(&self, value: f64) -> f64 {
        match self {
            Scale::Linear(pixels) => value.max(0.0) * pixels,
            Scale::Logarithmic(axis, pixels) => axis.place(value.max(0.0)) * pixels,
        }
    }
}

/// Bars, with whiskers from the least to the most, and their figures.
///
/// The picture is as wide as the longest name, the longest figure and [`BARS_MIN`] need.
pub(crate) fn bars(words: &Words, unit: Unit, bars: &[Bar]) -> String {
    let key = Key {
        has_ours: bars.iter().any(|bar| bar.is_ours),
        has_others: bars.iter().any(|bar| !bar.is_ours),
        has_whiskers: bars.iter().any(|bar| bar.spread.least < bar.spread.most),
        remarks: String::new(),
    };
    // A name stands out only beside others.
    let face = |bar: &Bar| match (bar.is_ours, key.has_others) {
        (true, true) => STRONG,
        (true, false) => PLAIN,
        (false, _) => MUTED,
    };
    let names = MARGIN + GAP + widest(bars.iter().map(|bar| width(&bar.name, face(bar))));
    // The first figure at an axis has room to its left, too.
    let names = names.max(MARGIN + FIGURE_WIDTH / 2.0);
    let figures: Vec<String> = bars.iter().map(|bar| bar.figure(unit)).collect();
    let behind: Vec<f64> =
        bars.iter().zip(&figures).map(|(bar, text)| GAP + width(text, bar.figure_face()) + MARGIN).collect();
    let figures_width = widest(behind.iter().copied());
    let full = WIDTH.max(names + BARS_MIN + figures_width).max(words.width()).ceil();
    let scale = scale(bars, &behind, full - names);
    let bottom = HEAD + LINE_HEIGHT * bars.len() as f64;
    let below = if let Scale::Logarithmic(..) = scale { bottom + AXIS } else { bottom };
    let mut svg = words.picture(full, below + KEY);
    draw_axis(&mut svg, &scale, unit, (names, bottom));
    for (index, (bar, text)) in bars.iter().zip(&figures).enumerate() {
        let top = HEAD + LINE_HEIGHT * index as f64;
        let middle = top + LINE_HEIGHT / 2.0;
        let place = |value: f64| names + scale.place(value);
        svg.text(Point { x: names - GAP, y: middle + 4.0 }, Anchor::End, face(bar), &bar.name);
        let paint = if bar.is_ours { Paint::Ours } else { Paint::OtherPale };
        let end = if bar.spread.median > 0.0 { place(bar.spread.median).max(names + BAR_MIN) } else { names };
        svg.rectangle(Point { x: names, y: top + 3.0 }, Point { x: end, y: top + LINE_HEIGHT - 3.0 }, paint);
        if bar.spread.least < bar.spread.most {
            whisker(&mut svg, (place(bar.spread.least), place(bar.spread.most)), middle);
        }
        let behind = end.max(place(bar.spread.most)) + GAP;
        svg.text(Point { x: behind, y: middle + 4.0 }, Anchor::Start, bar.figure_face(), text);
    }
    key.draw(&mut svg, below + 20.0);
    svg.finish()
}

/// Over so many pixels, of which each figure needs some behind its own bar and whisker.
fn scale(bars: &[Bar], behind: &[f64], pixels: f64) -> Scale {
    let medians = || bars.iter().map(|bar| bar.spread.median).filter(|median| *median > 0.0);
    let (shortest, longest) = (medians().fold(f64::MAX, f64::min), medians().fold(0.0, f64::max));
    if longest >= shortest * RATIO_MAX {
        let values = bars.iter().flat_map(|bar| [bar.spread.least, bar.spread.median, bar.spread.most]);
        // The shortest bar has a length, too.
        let axis = Logarithmic::over(values.chain([shortest / 2.0]));
        return Scale::Logarithmic(axis, pixels - widest(behind.iter().copied()));
    }
    let each = bars.iter().zip(behind).map(|(bar, behind)| {
        (pixels - behind) / bar.spread.most.max(bar.spread.median).max(f64::MIN_POSITIVE)
    });
    Scale::Linear(each.fold(f64::MAX, f64::min))
}

/// The grid of a logarithmic axis behind the bars, from their left edge; the bars end at `bottom`.
fn draw_axis(svg: &mut Svg, scale: &Scale, unit: Unit, (left, bottom): (f64, f64)) {
    let Scale::Logarithmic(axis, pixels) = scale else { return };
    let grid = Stroke { width: 1.0, dashes: "", paint: Paint::Grid };
    for tick in axis.ticks((pixels / FIGURE_WIDTH) as usize) {
        let x = left + scale.place(tick);
        svg.line(&[Point { x, y: HEAD }, Point { x, y: bottom }], grid);
        svg.text(Point { x, y: bottom + 15.0 }, Anchor::Middle, MUTED, &unit.show(tick));
    }
    let middle = Point { x: left + pixels / 2.0, y: bottom + 34.0 };
    svg.text(middle, Anchor::Middle, MUTED, "(the axis is logarithmic)");
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
        Words { title: "rate & more".to_owned(), subtitle: "a < b".to_owned(), verdicts: Vec::new() }
    }

    fn bar(name: &str, median: f64, is_ours: bool) -> Bar {
        let spread = Spread { median, least: median * 0.9, most: median };
        Bar { name: name.to_owned(), spread, is_ours, remark: String::new() }
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
    fn the_axis_is_logarithmic_where_one_bar_is_a_hundred_times_another() {
        let draw = |medians: [f64; 3]| {
            bars(&words(), Unit::Microseconds, &medians.map(|median| bar("a", median, true)))
        };
        let says = "(the axis is logarithmic)";
        assert!(!draw([1.0, 50.0, 99.0]).contains(says));
        assert!(!draw([0.0, 0.0, 99.0]).contains(says), "no bar is nothing to compare with");
        let text = draw([0.0, 10.0, 1_000.0]);
        assert!(text.contains(says) && text.contains(">100 us<"), "{text}");
        assert_well_formed(&text);
        assert_fits(&text);
        // From 5 us to 1 ms: 10 us are a factor of two from the left edge.
        let lengths = lengths(&text);
        assert_eq!(lengths[0], 0.0, "{lengths:?}");
        let part = lengths[1] / lengths[2];
        assert!((part - 2.0_f64.ln() / 200.0_f64.ln()).abs() < 0.01, "{lengths:?}");
    }

    #[test]
    fn a_remark_stands_behind_its_figure() {
        let noisy = Bar { remark: "noisy".to_owned(), ..bar("a", 50.0, true) };
        let text = bars(&words(), Unit::Microseconds, &[noisy, bar("b", 40.0, true)]);
        assert!(text.contains(">50 us (45-50), noisy<") && text.contains(">40 us (36-40)<"), "{text}");
        assert_fits(&text);
    }

    #[test]
    fn verdicts_stand_below_and_are_broken_between_words() {
        let verdict = "word ".repeat(100);
        let words = Words { verdicts: vec![verdict.trim_end().to_owned(), "met".to_owned()], ..words() };
        let text = bars(&words, Unit::Microseconds, &[bar("a", 50.0, true)]);
        assert_eq!(text.matches("word").count(), 100, "{text}");
        assert!(text.contains(">met<") && !text.contains("> word") && !text.contains("word <"), "{text}");
        assert_fits(&text);
        let long = Words { verdicts: vec!["W".repeat(90)], ..words };
        assert_fits(&bars(&long, Unit::Microseconds, &[]));
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
                        remark: if row == 1 { name.to_owned() } else { String::new() },
                    })
                    .collect();
                let text = bars(&words(), Unit::Microseconds, &rows);
                assert_well_formed(&text);
                assert_fits(&text);
            }
        }
    }
}
