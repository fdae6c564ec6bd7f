//! Plots: a bar for each row, or a line through points.

use crate::spread::Spread;
use crate::svg::{Anchor, Point, Svg};

const WIDTH: f64 = 760.0;
const LINE_HEIGHT: f64 = 22.0;
/// Room for the names of rows, at least and at most; and what a letter takes of it, about.
const NAMES: f64 = 260.0;
const NAMES_MAX: f64 = 420.0;
const LETTER: f64 = 6.6;
/// Between a name and its bar.
const GAP: f64 = 8.0;
/// Room for the figures behind bars.
const FIGURES: f64 = 150.0;
const TITLE: f64 = 34.0;
const MARGIN: f64 = 12.0;
const CURVE_HEIGHT: f64 = 340.0;
const AXIS: f64 = 70.0;
const BAR: &str = "#4a7fb5";
const BAR_BASELINE: &str = "#9aa7b3";
const WHISKER: &str = "#222";
const GRID: &str = "#ddd";
/// Colours that people with red-green blindness can tell apart (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// One bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) spread: Spread,
    /// The figure, as the table has it.
    pub(crate) figure: String,
    pub(crate) is_baseline: bool,
}

/// Bars from zero, with whiskers from the least to the most.
pub(crate) fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    let mut svg = Svg::new(WIDTH, TITLE + MARGIN + LINE_HEIGHT * bars.len() as f64);
    svg.text(Point { x: MARGIN, y: 22.0 }, Anchor::Start, &format!("{title}: {unit}"));
    let most = bars.iter().map(|bar| bar.spread.most).fold(f64::MIN_POSITIVE, f64::max);
    let names = room_for_names(bars);
    let scale = (WIDTH - names - FIGURES) / most;
    for (index, bar) in bars.iter().enumerate() {
        let top = TITLE + LINE_HEIGHT * index as f64;
        let middle = top + LINE_HEIGHT / 2.0;
        svg.text(Point { x: names - GAP, y: middle + 4.0 }, Anchor::End, &bar.name);
        let colour = if bar.is_baseline { BAR_BASELINE } else { BAR };
        let end = names + bar.spread.median.max(0.0) * scale;
        svg.rectangle(Point { x: names, y: top + 3.0 }, Point { x: end, y: top + LINE_HEIGHT - 3.0 }, colour);
        let (least, whisker) = (names + bar.spread.least * scale, names + bar.spread.most * scale);
        svg.line(&[Point { x: least, y: middle }, Point { x: whisker, y: middle }], WHISKER, 1.0);
        for x in [least, whisker] {
            svg.line(&[Point { x, y: middle - 4.0 }, Point { x, y: middle + 4.0 }], WHISKER, 1.0);
        }
        svg.text(Point { x: whisker + 6.0, y: middle + 4.0 }, Anchor::Start, &bar.figure);
    }
    svg.finish()
}

fn room_for_names(bars: &[Bar]) -> f64 {
    let letters = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
    (letters as f64 * LETTER + MARGIN + GAP).clamp(NAMES, NAMES_MAX)
}

/// One line.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    pub(crate) name: String,
    /// x and y, each above 0.
    pub(crate) points: Vec<(f64, f64)>,
}

/// An axis: what it is of, and how its values are written.
pub(crate) struct Axis<'a> {
    pub(crate) label: &'a str,
    pub(crate) show: &'a dyn Fn(f64) -> String,
}

/// Lines over two logarithmic axes: doubling a value is the same distance everywhere.
pub(crate) fn curves(title: &str, x: &Axis<'_>, y: &Axis<'_>, curves: &[Curve]) -> String {
    let height = CURVE_HEIGHT + TITLE + AXIS + LINE_HEIGHT * curves.len() as f64;
    let mut svg = Svg::new(WIDTH, height);
    svg.text(
        Point { x: MARGIN, y: 22.0 },
        Anchor::Start,
        &format!("{title}: {} against {}", y.label, x.label),
    );
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let (x_range, y_range) =
        (Logarithmic::over(all().map(|point| point.0)), Logarithmic::over(all().map(|point| point.1)));
    let (left, right, top, bottom) = (AXIS, WIDTH - 30.0, TITLE, TITLE + CURVE_HEIGHT);
    for value in x_range.ticks() {
        let at = left + x_range.place(value) * (right - left);
        svg.line(&[Point { x: at, y: top }, Point { x: at, y: bottom }], GRID, 1.0);
        svg.text(Point { x: at, y: bottom + 16.0 }, Anchor::Middle, &(x.show)(value));
    }
    for value in y_range.ticks() {
        let at = bottom - y_range.place(value) * (bottom - top);
        svg.line(&[Point { x: left, y: at }, Point { x: right, y: at }], GRID, 1.0);
        svg.text(Point { x: left - 6.0, y: at + 4.0 }, Anchor::End, &(y.show)(value));
    }
    svg.text(Point { x: f64::midpoint(left, right), y: bottom + 36.0 }, Anchor::Middle, x.label);
    for (index, curve) in curves.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let points: Vec<Point> = curve
            .points
            .iter()
            .map(|(x, y)| Point {
                x: left + x_range.place(*x) * (right - left),
                y: bottom - y_range.place(*y) * (bottom - top),
            })
            .collect();
        svg.line(&points, colour, 2.0);
        points.iter().for_each(|point| svg.dot(*point, colour));
        let at = bottom + 56.0 + LINE_HEIGHT * index as f64;
        svg.line(&[Point { x: left, y: at - 4.0 }, Point { x: left + 24.0, y: at - 4.0 }], colour, 3.0);
        svg.text(Point { x: left + 32.0, y: at }, Anchor::Start, &curve.name);
    }
    svg.finish()
}

/// A logarithmic axis from a power of ten, or half or a fifth of one, to another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Logarithmic {
    least: f64,
    most: f64,
}

impl Logarithmic {
    /// From 1 to 10 where there are no values.
    fn over(values: impl Iterator<Item = f64>) -> Logarithmic {
        let (least, most) = values
            .filter(|value| *value > 0.0 && value.is_finite())
            .fold((f64::MAX, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        if most == 0.0 {
            return Logarithmic { least: 1.0, most: 10.0 };
        }
        let (least, most) = (step_below(least), step_above(most));
        Logarithmic { least, most: if most > least { most } else { least * 10.0 } }
    }

    /// From 0 at the least to 1 at the most.
    fn place(self, value: f64) -> f64 {
        ((value / self.least).ln() / (self.most / self.least).ln()).clamp(0.0, 1.0)
    }

    fn ticks(self) -> Vec<f64> {
        let mut ticks = Vec::new();
        let mut tick = self.least;
        // 24 decades are more than any figure has.
        while tick <= self.most * 1.001 && ticks.len() < 72 {
            ticks.push(tick);
            tick = step_above(tick * 1.001);
        }
        ticks
    }
}

/// 1, 2, 5, 10, 20, ...: the largest that is not above.
fn step_below(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [10.0, 5.0, 2.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step <= value * 1.0001)
        .unwrap_or(decade)
}

/// The smallest that is not below.
fn step_above(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step >= value * 0.9999)
        .unwrap_or(decade * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::assert_well_formed;

    #[test]
    fn bars_are_well_formed_and_as_long_as_their_figures() {
        let bar = |name: &str, median: f64| Bar {
            name: name.to_owned(),
            spread: Spread { median, least: median * 0.9, most: median },
            figure: median.to_string(),
            is_baseline: false,
        };
        let text = bars("rate & more", "k/s", &[bar("a<b", 50.0), bar("c", 100.0)]);
        assert_well_formed(&text);
        let full = WIDTH - NAMES - FIGURES;
        assert!(text.contains(&format!("width=\"{full:.1}\"")), "{text}");
        assert!(text.contains(&format!("width=\"{:.1}\"", full / 2.0)), "{text}");
        assert_well_formed(&bars("nothing", "k/s", &[]));
        let long = bars("t", "us", &[bar(&"x".repeat(50), 1.0)]);
        assert!(long.contains("x=\"350.0\""), "the bar begins behind its name: {long}");
    }

    #[test]
    fn curves_are_well_formed_also_without_points() {
        let show = |value: f64| value.to_string();
        let axis = |label| Axis { label, show: &show };
        let curve = |points: &[(f64, f64)]| Curve { name: "a".to_owned(), points: points.to_vec() };
        assert_well_formed(&curves(
            "t",
            &axis("x"),
            &axis("y"),
            &[curve(&[(1.0, 3.0), (700.0, 0.02)]), curve(&[])],
        ));
        assert_well_formed(&curves("t", &axis("x"), &axis("y"), &[]));
        assert_well_formed(&curves("t", &axis("x"), &axis("y"), &[curve(&[(5.0, 5.0)])]));
    }

    #[test]
    fn axes_begin_and_end_at_round_figures() {
        let axis = Logarithmic::over([3.0, 700.0].into_iter());
        assert_eq!(axis, Logarithmic { least: 2.0, most: 1000.0 });
        let ticks: Vec<String> = axis.ticks().iter().map(|tick| format!("{tick:.0}")).collect();
        assert_eq!(ticks, ["2", "5", "10", "20", "50", "100", "200", "500", "1000"]);
        assert_eq!((axis.place(2.0), axis.place(1000.0)), (0.0, 1.0));
        assert_eq!(Logarithmic::over([5.0].into_iter()), Logarithmic { least: 5.0, most: 50.0 });
        assert_eq!(Logarithmic::over([0.0, f64::NAN].into_iter()), Logarithmic { least: 1.0, most: 10.0 });
    }
}
